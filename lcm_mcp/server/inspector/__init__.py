"""The inspector: a page at `/` that shows people what is stored, and the JSON it is drawn from.

The page is a few files of this package and the same for everybody, so it is given to whoever may reach the
server; what is stored is asked for under /inspect/, behind the token where there is one. Refused: writing
anything, and answering the page of another site.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.routing import Route

from lcm_mcp.server.inspector.asking import Asking
from lcm_mcp.server.inspector.images import images
from lcm_mcp.server.inspector.pages import PAGE_PATHS, page
from lcm_mcp.server.limits import Calls

if TYPE_CHECKING:
    from lcm_mcp.service import Service

__all__ = ["PAGE_PATHS", "inspector_routes"]


def inspector_routes(service: Service, calls: Calls) -> list[Route]:
    """The page, what it asks, and the images it shows."""
    return [
        *(Route(path, endpoint=page, methods=["GET"]) for path in PAGE_PATHS),
        Route("/inspect/image", endpoint=images(service, calls), methods=["GET"]),
        Route("/inspect/{question}", endpoint=Asking(service, calls).answer, methods=["GET"]),
    ]
