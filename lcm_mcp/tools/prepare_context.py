"""prepare_context: what a model's next request should show of a session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from lcm_mcp.service.prepared import Fragment, Inserted, Prepared, PreparedMessage
from lcm_mcp.service.requests import PrepareQuery
from lcm_mcp.tokens import MOST_TOKENS
from lcm_mcp.tools.arguments import Arguments, Cursor, Objects, SessionKey
from lcm_mcp.tools.observation import observation
from lcm_mcp.tools.text import conflicting, fenced, json_line, listed, paragraph, plain, quoted
from lcm_mcp.tools.tool import ADDS, Tool
from lcm_mcp.tools.usage import UsageArguments, usage_of
from lcm_mcp.wording import count

if TYPE_CHECKING:
    from lcm_mcp.service import Service


_Name = Field(min_length=1, max_length=200)


class PrepareArguments(Arguments):
    session: SessionKey = None
    append: Objects = Field(
        default_factory=list[object],
        description="Entries to store first, as in lcm_append; an unknown session is created.",
    )
    after: Annotated[
        str | None,
        Field(description="The last ref or entry_id you know; nothing is appended if the session moved on."),
    ] = None
    have: Annotated[
        str | None,
        Field(
            max_length=200,
            description="prepared of the request whose messages you hold, in this format: only what is new "
            "is answered.",
        ),
    ] = None
    strategy: Annotated[
        Literal["rolling", "lcm", "none"] | None,
        Field(
            description="rolling: one running summary of the older part; lcm: summaries as nodes over it; "
            "none: plain history. Kept for the session."
        ),
    ] = None
    window_tokens: Annotated[
        int | None, Field(ge=1, le=MOST_TOKENS, description="The model's context window, in tokens.")
    ] = None
    preamble_tokens: Annotated[
        int | None,
        Field(
            ge=0, le=MOST_TOKENS, description="Size of your system prompt and tools, where not given here."
        ),
    ] = None
    system: Annotated[
        str | None, Field(description="Your system prompt; counted here, sent by you, never stored.")
    ] = None
    tools: Objects = Field(
        default_factory=list[object], description="Your tool definitions; counted, not stored."
    )
    provider: Annotated[str | None, _Name, Field(description="Whom it is for, such as anthropic.")] = None
    model: Annotated[
        str | None,
        _Name,
        Field(
            description="The model's name; tells the window where nothing else does. Another one than before "
            "starts the running summary anew."
        ),
    ] = None
    usage: Annotated[
        UsageArguments | None,
        Field(description="What the provider counted for an earlier request; makes later sizes right."),
    ] = None
    format: Annotated[
        Literal["messages", "anthropic", "openai", "text"],
        Field(description="The form of the messages; messages is neutral."),
    ] = "messages"
    compact: Annotated[
        Literal["auto", "force", "never"],
        Field(description="auto: fold where the window asks for it; force: now; never: only read."),
    ] = "auto"
    deadline_ms: Annotated[
        int, Field(ge=1, le=50_000, description="Folding ends after this many milliseconds.")
    ] = 50_000
    query: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=2000,
            description="What is asked now: up to six earlier rows that bear on it, no longer shown, are "
            "quoted at the end of the last message, for this request only.",
        ),
    ] = None
    detail: Annotated[
        bool, Field(description="The whole observation too: sections, sizes, what was done.")
    ] = False
    cursor: Cursor = None


async def _run(service: Service, arguments: PrepareArguments) -> Prepared:
    given = {name: getattr(arguments, name) for name in type(arguments).model_fields if name != "usage"}
    return await service.prepare(PrepareQuery(**given, usage=usage_of(arguments.usage)))


def _message(index: int, message: PreparedMessage | Inserted) -> str:
    return f"[{index}] rows {listed(message.sources)}: {json_line(message.message)}"


def _fragment(fragment: Fragment) -> str:
    end = fragment.offset + len(fragment.json)
    return paragraph(
        f"[{fragment.index}] rows {listed(fragment.sources)}: a piece of its JSON, characters "
        f"{fragment.offset} to {end} of {fragment.total}:",
        fenced(fragment.json),
    )


def _appended(prepared: Prepared) -> str | None:
    if not prepared.refs and not prepared.created:
        return None
    made = "created the session; " if prepared.created else ""
    return (
        f"Appended: {made}refs {listed(prepared.refs)}; already there: {listed(prepared.duplicates)}; "
        f"{conflicting(prepared.conflicts)}"
    )


def _messages(prepared: Prepared) -> list[str]:
    first = prepared.first_message
    lines = [_message(first + place, message) for place, message in enumerate(prepared.messages)]
    lines += [_message(message.index, message) for message in prepared.insert]
    return lines if prepared.fragment is None else [*lines, _fragment(prepared.fragment)]


def _change(prepared: Prepared) -> str:
    """What to do with the messages, in words."""
    whole = f"{count(prepared.total_messages, 'message')} in all as {prepared.format}"
    match prepared.change:
        case "none":
            return f"Change none: the {prepared.keep} messages you hold are the request; {whole}."
        case "splice":
            kept = "" if prepared.keep_from is None else f" (rows {prepared.keep_from} on)"
            return (
                f"Change splice: of the messages you hold leave out the first {prepared.omit}, keep the next "
                f"{prepared.keep}{kept} and no more, then put each one given here in at its [place], in this "
                f"order; {whole}. {len(prepared.insert)} here, one a line:"
            )
        case "full":
            return (
                f"Change full: {whole}; {len(prepared.messages)} here from [{prepared.first_message}] on, "
                "one a line:"
            )


def _marks(prepared: Prepared) -> str | None:
    if not prepared.cache_breakpoints:
        return None
    return f"Cache breakpoints after messages {listed(f'[{n}]' for n in prepared.cache_breakpoints)}."


def _page(prepared: Prepared, messages: Sequence[str]) -> str:
    calibrated = (
        ""
        if prepared.calibrated_input_tokens is None
        else f" ({prepared.calibrated_input_tokens} as calibrated by what the provider counted)"
    )
    return paragraph(
        f"Session {quoted(prepared.session)}, prepared {prepared.prepared}, status {prepared.status}, about "
        f"{prepared.estimated_input_tokens} tokens{calibrated}.",
        *(f"Note: {plain(note)}" for note in prepared.notes),
        _appended(prepared),
        _change(prepared),
        *messages,
        _marks(prepared),
        None if prepared.observation is None else observation(prepared.observation),
        "These are all." if prepared.next_cursor is None else None,
    )


def _render(prepared: Prepared) -> str:
    return _page(prepared, _messages(prepared))


def _brief(prepared: Prepared) -> str:
    """Messages whose JSON doubles when it is quoted, too large to be said twice."""
    return _page(prepared, ["They are in the structured answer; lcm_expand gives their rows as text."])


TOOL = Tool(
    name="prepare_context",
    title="Prepare a request's context",
    description=(
        "Gives the messages a model's next request should carry for a session: the plain history while "
        "it fits, and once it nears the window the older part as labelled summaries with the newest "
        "part word for word. Use it if you drive a model yourself, or to resume a stored session in a "
        "new one.\n"
        "The newest unit (a user row and all that follows it) stays whole. append stores new "
        "entries first, as lcm_append does. Give the window (window_tokens, or the model's name) and your "
        "preamble (system and tools, or preamble_tokens) so that sizes are right; compact force folds "
        "now, never only reads.\n"
        "Returns the name of this state (prepared), the status (not_needed, compacted, scheduled: folding "
        "goes on, limited: over the window, unknown_window, failed) with notes, an estimate of tokens, and "
        "the messages in the asked format, each with the rows it shows; nothing is lost: what a summary "
        "covers is there for lcm_expand. detail adds the whole observation.\n"
        "While next_cursor is given, call again with the same arguments, without append, and this "
        "cursor; the pages joined are the request. A message over a page comes as fragments whose json "
        "is to be joined."
    ),
    arguments=PrepareArguments,
    answer=Prepared,
    effects=ADDS,
    run=_run,
    render=_render,
    brief=_brief,
    repeated=("session", "format"),
)
