"""lcm_sessions: which conversations are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from lcm_mcp.service.answers import SessionLine, SessionPage
from lcm_mcp.tools.arguments import Arguments, Cursor
from lcm_mcp.tools.text import paragraph, quoted
from lcm_mcp.tools.tool import READS, Paging, Tool
from lcm_mcp.wording import count

if TYPE_CHECKING:
    from lcm_mcp.service import Service


class SessionsArguments(Arguments):
    query: Annotated[
        str | None,
        Field(min_length=1, max_length=500, description="Only sessions whose key or title holds this text."),
    ] = None
    project: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=4096,
            description='Sessions of this project folder; "*" for all. Default: this folder, if it has any.',
        ),
    ] = None
    limit: Annotated[int, Field(ge=1, le=100, description="Sessions on a page.")] = 20
    cursor: Cursor = None


async def _run(service: Service, arguments: SessionsArguments) -> SessionPage:
    return await service.sessions(
        query=arguments.query, project=arguments.project, limit=arguments.limit, cursor=arguments.cursor
    )


def _line(session: SessionLine) -> str:
    belongs = "" if session.parent is None else _belongs(session, session.parent)
    when = "empty" if session.first_at is None else f"{session.first_at} to {session.last_at}"
    return (
        f"{session.id} {quoted(session.key)}: {count(session.rows, 'row')}, {session.tokens} tokens, "
        f"{count(session.nodes, 'node')}, strategy {session.strategy}, {when}{belongs}\n"
        f"  title {quoted(session.title)}, project {quoted(session.project)}, source {quoted(session.source)}"
    )


def _belongs(session: SessionLine, parent: str) -> str:
    begins = "" if session.opener is None else f" from {session.opener}"
    ends = "" if session.outcome is None else f", outcome {session.outcome}"
    return f", {session.link or 'child'} of {quoted(parent)}{begins}{ends}"


def _next(page: SessionPage) -> str:
    if page.total == 0:
        return 'None matches; leave out query and give project "*" to see all.'
    return "Next: lcm_list or lcm_grep with one of these as session."


def _render(page: SessionPage) -> str:
    return paragraph(
        f"{count(page.total, 'session')} in {page.scope}; {len(page.sessions)} here.",
        *map(_line, page.sessions),
        page.note or _next(page),
    )


TOOL = Tool(
    name="lcm_sessions",
    title="List stored sessions",
    description=(
        "Lists the conversations kept in this memory. Use it first when you do not know which session "
        "holds what you look for, or to get the key that the other tools take as `session`. Without project "
        "it lists the current folder's sessions if there are any, else all.\n"
        "Returns for each session its id (s7, as in addresses such as s7/e104), key, title, project "
        "folder, source, rows, estimated tokens, summary nodes, strategy, the session it was forked or "
        "started from, and its first and last time.\n"
        "Go on with lcm_list or lcm_grep on one of the sessions; pass next_cursor as cursor for the "
        "next page."
    ),
    arguments=SessionsArguments,
    answer=SessionPage,
    effects=READS,
    run=_run,
    render=_render,
    paging=Paging("limit", 1),
)
