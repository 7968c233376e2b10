"""What people attach to a conversation: stored memory as JSON documents and images, each under a URI.

A resource is one entry of the table at the end. What stands in braces in a URI is percent-encoded
there. Models rarely read resources, so whatever is here can be had from the tools too. Refused: a URI
that is not in the table, and a document larger than clients can take.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp.shared.uri_template import UriTemplate

from lcm_mcp.errors import BadCursor, InvalidArgument, MalformedAddress, UnknownAddress, UnknownSession
from lcm_mcp.server.inspector import view
from lcm_mcp.server.limits import Calls, NoAnswer
from lcm_mcp.service.pictures import RANGE_BYTES, ImageRange
from lcm_mcp.tools.text import written
from lcm_mcp.tools.tool import MOST_BYTES, AnswerTooLarge
from lcm_mcp.values import frozen

if TYPE_CHECKING:
    from lcm_mcp.server.opening import Supply
    from lcm_mcp.service import Service

    Named = Mapping[str, str | list[str]]


MOST_NODES: Final = 100
ROWS_BYTES: Final = 100_000


@frozen
class Resource:
    """One kind of document; read gets what the URI has in place of the template's braces."""

    uri: str
    name: str
    title: str
    description: str
    read: Callable[[Service, Named], Awaitable[object]]
    mime_type: str = "application/json"


async def read(supply: Supply, calls: Calls, uri: str) -> types.ReadResourceResult:
    """The document under a URI. Raises MCPError."""
    if uri == view.URI:
        return view.view_contents()
    try:
        return await calls.answer_of(f"Reading {uri[:80]!r}", _document(supply, uri), "Try again.")
    except NoAnswer as failure:
        absent = isinstance(failure.__cause__, _ABSENT)
        code = types.INVALID_PARAMS if absent else types.INTERNAL_ERROR
        raise MCPError(code=code, message=str(failure), data={"uri": uri}) from failure


async def _document(supply: Supply, uri: str) -> types.ReadResourceResult:
    service = await supply()
    for resource, template in _TEMPLATES:
        if (named := template.match(uri)) is None:
            continue
        found = await resource.read(service, named)
        if isinstance(found, ImageRange):
            return types.ReadResourceResult(contents=[_blob(uri, found)])
        body = written(found)
        if len(body) > MOST_BYTES:
            raise AnswerTooLarge(len(body))
        contents = types.TextResourceContents(uri=uri, mime_type=resource.mime_type, text=body.decode())
        return types.ReadResourceResult(contents=[contents])
    raise InvalidArgument(
        "uri",
        f"there is no resource {uri[:80]!r}",
        f"There are {' and '.join(each.uri for each in RESOURCES)}; what stands in braces is "
        "percent-encoded, the id of a session being its key or s7.",
    )


def _blob(uri: str, image: ImageRange) -> types.BlobResourceContents:
    """Bytes of an image; meta says of how many, and where to read on."""
    whole = len(image.data) == image.total
    return types.BlobResourceContents(
        uri=uri,
        mime_type=image.media_type if whole else "application/octet-stream",
        blob=base64.b64encode(image.data).decode("ascii"),
        _meta={
            "lcm/media_type": image.media_type,
            "lcm/total": image.total,
            "lcm/offset": image.offset,
            "lcm/next": image.following,
        },
    )


async def _read_sessions(service: Service, _named: Named) -> object:
    return await service.sessions()


async def _read_session(service: Service, named: Named) -> object:
    return await service.list_nodes(str(named["id"]), frontier_only=True, limit=MOST_NODES)


async def _read_node(service: Service, named: Named) -> object:
    return await service.describe(f"#{named['n']}", str(named["id"]))


async def _read_rows(service: Service, named: Named) -> object:
    cursor = named.get("cursor")
    return await service.expand(
        f"e{named['first']}..e{named['last']}",
        str(named["id"]),
        ROWS_BYTES,
        cursor=None if cursor is None else str(cursor),
    )


async def _read_context(service: Service, named: Named) -> object:
    session = str(named["id"])
    seen = await service.last_observation(session)
    if seen is None:
        raise InvalidArgument(
            "uri",
            f"nothing was prepared in session {session[:200]!r} yet",
            "Call prepare_context with this session, then read again.",
        )
    return seen


async def _read_image(service: Service, named: Named) -> object:
    offset, length = (named.get(name) for name in ("offset", "length"))
    return await service.image(
        str(named["id"]),
        str(named["n"]),
        None if offset is None else str(offset),
        None if length is None else str(length),
    )


RESOURCES: Final = (
    Resource(
        uri="lcm://sessions",
        name="sessions",
        title="Stored sessions",
        description="The conversations kept in this memory, last active first: one page of lcm_sessions.",
        read=_read_sessions,
    ),
    Resource(
        uri="lcm://session/{id}",
        name="session",
        title="A session in its summaries",
        description=(
            "The frontier of a session: the summary nodes that together cover its older part once, oldest "
            "first, each by how it begins. The id is the session's key, or s7 as in lcm_sessions."
        ),
        read=_read_session,
    ),
    Resource(
        uri="lcm://session/{id}/node/{n}",
        name="node",
        title="A summary node",
        description="A node's whole summary, its place among the others and the files under it.",
        read=_read_node,
    ),
    Resource(
        uri="lcm://session/{id}/rows/{first}-{last}{?cursor}",
        name="rows",
        title="Original rows",
        description=(
            "Rows word for word, by their numbers: …/rows/104-238. A long range comes in pages; next_cursor "
            "is the cursor of the next one."
        ),
        read=_read_rows,
    ),
    Resource(
        uri="lcm://session/{id}/context",
        name="context",
        title="What the last request showed",
        description=(
            "The observation of a session's last prepared request: its window, status, sections and sizes. "
            "The id is the session's key, or s7 as in lcm_sessions."
        ),
        read=_read_context,
    ),
    Resource(
        uri="lcm://session/{id}/image/{n}{?offset,length}",
        name="image",
        title="A stored image",
        description=(
            "The bytes of an image, all of a small one, of a larger one a range: offset and length in bytes, "
            f"at most {RANGE_BYTES} at a time; _meta says of how many and where to read on. lcm_expand with "
            "include_payload names the images."
        ),
        read=_read_image,
        mime_type="image/*",
    ),
)
_TEMPLATES: Final = tuple((each, UriTemplate.parse(each.uri)) for each in RESOURCES)
_ABSENT: Final = (BadCursor, InvalidArgument, UnknownSession, UnknownAddress, MalformedAddress)
"""What means that there is no such resource, rather than that reading it failed."""
