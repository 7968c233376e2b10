"""What the page asks, as JSON: the reading tools by their names, and what only people look at.

Arguments stand in the query and are read as a tool's are. Refused: a question that is none, and
arguments that do not exist, each in a sentence under "error".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from lcm_mcp.errors import InvalidArgument, LcmError, NoSession, UnknownAddress, UnknownSession
from lcm_mcp.server.inspector.pages import DATA_HEADERS, from_elsewhere, refusal
from lcm_mcp.server.limits import Calls, NoAnswer
from lcm_mcp.tokens import MOST_TOKENS
from lcm_mcp.tools.arguments import Arguments, Cursor, SessionKey, parse
from lcm_mcp.tools.text import written
from lcm_mcp.tools.tool import Tool
from lcm_mcp.tools.toolsets import TOOLSETS

if TYPE_CHECKING:
    from lcm_mcp.service import Service

ABSENT: Final = (NoSession, UnknownAddress, UnknownSession)


class ConversationArguments(Arguments):
    session: SessionKey = None
    at: Annotated[str | None, Field(max_length=100)] = None
    line: Annotated[str | None, Field(max_length=100)] = None
    newer: bool = False
    limit: Annotated[int, Field(ge=1, le=100)] = 30


class TrailArguments(Arguments):
    session: SessionKey = None
    cursor: Cursor = None


class ContextArguments(Arguments):
    session: SessionKey = None
    window_tokens: Annotated[int | None, Field(ge=1, le=MOST_TOKENS)] = None


class NowArguments(Arguments):
    session: SessionKey = None


class NodeArguments(Arguments):
    session: SessionKey = None
    id: Annotated[str, Field(min_length=1, max_length=100)]


async def _conversation(service: Service, given: Mapping[str, object]) -> object:
    asked = parse(ConversationArguments, given)
    return await service.converse(asked.session, asked.at, asked.line, asked.newer, asked.limit)


async def _trail(service: Service, given: Mapping[str, object]) -> object:
    asked = parse(TrailArguments, given)
    return await service.trail(asked.session, asked.cursor)


async def _context(service: Service, given: Mapping[str, object]) -> object:
    """What the last request showed and, beside it, what one would show now."""
    asked = parse(ContextArguments, given)
    now = await service.glance(asked.session, asked.window_tokens)
    return {"last": await service.last_observation(now.session), "now": now}


async def _now(service: Service, given: Mapping[str, object]) -> object:
    """What tells whether anything of a session has changed."""
    asked = parse(NowArguments, given)
    page = await service.converse(asked.session, limit=1)
    seen = await service.last_observation(asked.session)
    return {
        "session": page.session,
        "leaf": page.leaf,
        "nodes": page.nodes,
        "prepared": None if seen is None else f"{seen.prepared} {seen.made_at}",
    }


async def _node(service: Service, given: Mapping[str, object]) -> object:
    """A node whole, and each of its children so: at most eight."""
    asked = parse(NodeArguments, given)
    found = await service.describe(asked.id, asked.session)
    below = () if found.node is None else found.node.children
    children = [(await service.describe(child, found.session)).node for child in below]
    return {"session": found.session, "node": found.node, "children": children}


Question = Callable[["Service", Mapping[str, object]], Awaitable[object]]


def _asked_of(tool: Tool[Any, Any]) -> Question:
    async def ask(service: Service, given: Mapping[str, object]) -> object:
        return (await tool.call(service, given)).structured

    return ask


QUESTIONS: Final[Mapping[str, Question]] = {
    **{tool.name: _asked_of(tool) for tool in TOOLSETS["read"] if tool.name != "prepare_context"},
    "conversation": _conversation,
    "trail": _trail,
    "context": _context,
    "node": _node,
    "now": _now,
}


class Asking:
    """Answers the page's questions over one service."""

    def __init__(self, service: Service, calls: Calls) -> None:
        self._service = service
        self._calls = calls

    async def answer(self, request: Request) -> Response:
        name = str(request.path_params["question"])
        if from_elsewhere(request):
            return refusal(403, "This is asked by the page of another site, which is not answered.")
        question = QUESTIONS.get(name)
        if question is None:
            return refusal(404, f"There is no question {name[:80]!r}. There are {', '.join(QUESTIONS)}.")
        work = question(self._service, dict(request.query_params))
        try:
            found = await self._calls.answer_of(name, work, "Ask again.")
        except NoAnswer as failure:
            return refusal(status_of(failure), str(failure))
        return Response(written(found), media_type="application/json", headers=DATA_HEADERS)


def status_of(failure: NoAnswer) -> int:
    cause = failure.__cause__
    if isinstance(cause, ABSENT):
        return 404
    if isinstance(cause, InvalidArgument):
        return 400
    return 400 if isinstance(cause, LcmError) else 500
