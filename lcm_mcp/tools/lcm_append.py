"""lcm_append: add to a conversation's record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from lcm_mcp.service.answers import Receipt
from lcm_mcp.tools.arguments import Arguments, Objects
from lcm_mcp.tools.text import conflicting, listed, paragraph, quoted
from lcm_mcp.tools.tool import ADDS, Tool
from lcm_mcp.tools.usage import UsageArguments, usage_of

if TYPE_CHECKING:
    from lcm_mcp.service import Service


class AppendArguments(Arguments):
    session: Annotated[
        str,
        Field(min_length=1, max_length=200, description="The session's key; an unknown one is created."),
    ]
    entries: Annotated[
        Objects,
        Field(
            min_length=1,
            description='Messages in order: {"role": "user|assistant|tool|system", "content": text or '
            'parts, "entry_id"?, "at"?, "pin"?, "parent"?, "outcome_of"?}. Anthropic and OpenAI messages '
            "are taken as they are.",
        ),
    ]
    after: Annotated[
        str | None,
        Field(description="The last ref or entry_id you know; refused if the session has moved on."),
    ] = None
    expect_last_seq: Annotated[
        int | None,
        Field(ge=0, description="last_seq of your last receipt; refused if the session has moved on."),
    ] = None
    title: Annotated[str | None, Field(max_length=500, description="A title for a new session.")] = None
    project: Annotated[str | None, Field(max_length=4096, description="A new session's folder.")] = None
    usage: Annotated[
        UsageArguments | None,
        Field(description="What the provider counted for the request that these entries answer."),
    ] = None


async def _run(service: Service, arguments: AppendArguments) -> Receipt:
    return await service.append(
        session=arguments.session,
        entries=arguments.entries,
        after=arguments.after,
        expect_last_seq=arguments.expect_last_seq,
        title=arguments.title,
        project=arguments.project,
        usage=usage_of(arguments.usage),
    )


def _render(receipt: Receipt) -> str:
    made = "created it, " if receipt.created else ""
    return paragraph(
        f"Session {quoted(receipt.session)}: {made}it ends at e{receipt.last_seq} "
        f"(last_seq {receipt.last_seq}).",
        f"refs: {listed(receipt.refs)}",
        f"already there: {listed(receipt.duplicates)}",
        conflicting(receipt.conflicts),
        *(f"Note: {note}" for note in receipt.notes),
        f"Next: append what follows with expect_last_seq {receipt.last_seq}.",
    )


TOOL = Tool(
    name="lcm_append",
    title="Append to a session",
    description=(
        "Stores messages at the end of a session's record, for good: rows are never edited. Use it to "
        "keep a conversation, or findings worth keeping, so that they can be searched, summarized and "
        "read again later. An unknown session is created.\n"
        'An entry is {"role": "user|assistant|tool|system", "content": text or parts}; Anthropic and '
        "OpenAI messages are taken as they are, tool calls and results included. Give each entry your "
        "own entry_id and a repeated call adds nothing; without ids pass expect_last_seq, so that a "
        "retry is refused instead of stored twice. All entries of a call are stored, or none.\n"
        '"pin": true on an entry is for what must stay in sight, such as a constraint of the user: its row '
        "stays quoted near the head of a request that no longer shows it word for word.\n"
        '"parent" (a ref or entry_id) lets an entry follow an earlier row instead of the last one: what '
        "came after that row is removed from the path, as by lcm_rewind. Rows of one model message and its "
        'results are siblings and remove none. "outcome_of" names a fork or child of this session whose '
        "outcome the entry tells.\n"
        "Returns a ref for each entry in order (e104), which of them were already there, which came "
        "with other content under a known entry_id (both are kept), and last_seq. When this returns, "
        "the rows are on disk."
    ),
    arguments=AppendArguments,
    answer=Receipt,
    effects=ADDS,
    run=_run,
    render=_render,
)
