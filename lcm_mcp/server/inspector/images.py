"""Stored images as a browser shows them: by what their bytes are, not by what somebody called them.

Only the four kinds that are nothing but pixels are shown. Refused: telling a browser any other type, so
that a stored SVG or HTML file is a download and never runs.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from lcm_mcp.server.inspector.asking import status_of
from lcm_mcp.server.inspector.pages import DATA_HEADERS, from_elsewhere, refusal
from lcm_mcp.server.limits import Calls, NoAnswer
from lcm_mcp.service.pictures import RANGE_BYTES, ImageRange

if TYPE_CHECKING:
    from lcm_mcp.service import Service

_MAGIC: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


def sniffed(head: bytes) -> str | None:
    """The type of an image by its first bytes; None for what is not shown."""
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _MAGIC if head.startswith(magic)), None)


def images(service: Service, calls: Calls) -> Callable[[Request], Awaitable[Response]]:
    """Answers /inspect/image?session=…&n=…, in ranges so that no image is held whole."""

    async def read(session: str, number: str, offset: int) -> ImageRange:
        asked = service.image(session, number, str(offset), str(RANGE_BYTES))
        return await calls.answer_of("image", asked, "Ask again.")

    async def answer(request: Request) -> Response:
        if from_elsewhere(request):
            return refusal(403, "This is asked by the page of another site, which is not answered.")
        session, number = (request.query_params.get(name, "") for name in ("session", "n"))
        try:
            first = await read(session, number, 0)
        except NoAnswer as failure:
            return refusal(status_of(failure), str(failure))

        async def body() -> AsyncGenerator[bytes]:
            piece = first
            yield piece.data
            while piece.following is not None:
                piece = await read(session, number, piece.following)
                yield piece.data

        kind = sniffed(first.data)
        download = {} if kind else {"Content-Disposition": 'attachment; filename="image"'}
        headers = {**DATA_HEADERS, **download, "Content-Length": str(first.total)}
        return StreamingResponse(body(), media_type=kind or "application/octet-stream", headers=headers)

    return answer
