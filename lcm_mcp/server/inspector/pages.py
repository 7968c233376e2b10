"""The page's own files, as they are in the package, and what a browser may do with them.

Stored text is hostile: the policy lets no script, style or picture come from anywhere but these files and
this server, and lets no text become markup. Refused: any other file, and being shown inside another page.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from lcm_mcp.errors import LcmError

FOLDER: Final = Path(__file__).parent / "page"
POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
DATA_HEADERS: Final = {**HEADERS, "Cache-Control": "no-store"}
"""What is stored is never left behind in a browser's cache."""
_TYPES: Final = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_FILES: Final = {f"/page/{file.name}": file for file in sorted(FOLDER.iterdir())} | {
    "/": FOLDER / "index.html"
}
PAGE_PATHS: Final = tuple(_FILES)


async def page(request: Request) -> Response:
    file = _FILES[request.url.path]
    return Response(file.read_bytes(), media_type=_TYPES[file.suffix], headers=HEADERS)


def from_elsewhere(request: Request) -> bool:
    """Whether a browser asks for another site's page: it could not read the answer, but measure it."""
    return request.headers.get("sec-fetch-site", "none") not in ("same-origin", "none")


def refusal(status: int, error: LcmError | str) -> Response:
    return JSONResponse({"error": str(error)}, status, DATA_HEADERS)
