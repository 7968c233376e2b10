"""The command context: what a model would be sent now, as a picture of the window or as messages.

It looks and changes nothing, unless --compact says that it may make the context fit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import click

from lcm_mcp.cli.call import Call, pass_call, shared_options
from lcm_mcp.cli.output import console, json_option, print_json, styled, write
from lcm_mcp.cli.text import clean, count, one_line, percent, shorten

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from lcm_mcp.service import Service
    from lcm_mcp.service.answers import Observation, Prepared
    from lcm_mcp.service.requests import PrepareQuery
    from lcm_mcp.transcript.model import Json

# By shape and by colour: a bar must be readable without either of them.
_FILLS = {"preamble": ("▒", "magenta"), "summaries": ("▓", "cyan"), "tail": ("█", "green")}
_FREE = ("·", "dim")


@click.command("context")
@click.option("--window", type=click.IntRange(1), help="The model's context window, in tokens.")
@click.option("--preamble", type=click.IntRange(0), help="Tokens of system prompt and tools.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["messages", "anthropic", "openai", "text"]),
    help="Print the messages themselves, one JSON object a line (text: as they read).",
)
@click.option(
    "--compact",
    type=click.Choice(["never", "auto", "force"]),
    default="never",
    show_default=True,
    help="auto folds what the window cannot hold, as prepare_context does, and for good.",
)
@click.option("--cursor", help="With --json: the next page's.")
@json_option
@shared_options
@pass_call
def context_command(
    call: Call,
    *,
    window: int | None,
    preamble: int | None,
    form: Literal["messages", "anthropic", "openai", "text"] | None,
    compact: Literal["never", "auto", "force"],
    cursor: str | None,
    as_json: bool,
) -> None:
    """Show what fills a model's window."""
    from lcm_mcp.service.requests import PrepareQuery

    query = PrepareQuery(
        session=call.session,
        window_tokens=window,
        preamble_tokens=preamble,
        format=form or "messages",
        compact=compact,
        detail=True,
        cursor=cursor,
    )
    if form is not None and not as_json:
        for message in call.run(lambda service: read_messages(service, query)):
            written = as_read(message) if form == "text" else json.dumps(message)
            write(f"{written}\n".encode())
        return
    prepared = call.run(lambda service: service.prepare(query))
    if as_json:
        print_json(prepared)
    else:
        show_window(console(), prepared)


async def read_messages(service: Service, query: PrepareQuery) -> list[dict[str, Json]]:
    """All messages of a projection, its pages put together."""
    messages: list[dict[str, Json]] = []
    pieces: list[str] = []
    while True:
        page = await service.prepare(query)
        messages += [each.message for each in page.messages]
        if page.fragment is not None:
            pieces.append(page.fragment.json)
            if page.fragment.offset + len(page.fragment.json) >= page.fragment.total:
                messages.append(json.loads("".join(pieces)))
                pieces.clear()
        if page.next_cursor is None:
            return messages
        query = replace(query, cursor=page.next_cursor)


def as_read(message: Mapping[str, Json]) -> str:
    """A message of the text format as it reads."""
    content = message.get("content")
    return clean(content if isinstance(content, str) else json.dumps(content))


def show_window(out: Console, prepared: Prepared) -> None:
    """Draw what an observation says."""
    seen = prepared.observation
    if seen is None:
        out.print(styled(f"{count(prepared.estimated_input_tokens, 'token')}, status {prepared.status}"))
        return
    out.print(styled((one_line(seen.session), "bold"), (f"  {seen.prepared}", "dim"), f"  {seen.status}"))
    out.print(styled(_figures(seen)))
    out.print()
    out.print(_bar(seen, out.width - 2))
    _show_sections(out, seen)
    for note in seen.notes:
        out.print(styled(("  " + one_line(note), "yellow")))


def _figures(seen: Observation) -> str:
    estimate = seen.estimated_input_tokens
    history = f"{count(seen.rows, 'row')}: {count(seen.shown_nodes, 'summary', 'summaries')} and "
    history += count(seen.tail_rows, "row") + " verbatim"
    if seen.window_tokens is None:
        return f"{estimate:,} tokens (estimate) of an unknown window; name one with --window\n{history}"
    share = percent(estimate, seen.window_tokens)
    trigger = "" if seen.trigger_tokens is None else f"; it compacts at {seen.trigger_tokens:,}"
    return f"{estimate:,} of {seen.window_tokens:,} tokens (estimate), {share}{trigger}\n{history}"


def _bar(seen: Observation, width: int) -> Text:
    """The window from left to right; a section that is there has at least one cell."""
    total = sum(section.tokens for section in seen.sections)
    whole = max(total, seen.window_tokens or total, 1)
    bar = styled(" ")
    for section in seen.sections:
        mark, style = _FILLS[section.kind]
        cells = max(1, round(section.tokens * width / whole)) if section.tokens else 0
        bar.append(mark * cells, style)
    bar.append(_FREE[0] * max(0, width + 1 - len(bar.plain)), _FREE[1])
    bar.truncate(width + 1)
    return bar


def _show_sections(out: Console, seen: Observation) -> None:
    """One line a section, in the order of the request, and one for what is left of the window."""
    whole = seen.window_tokens or sum(section.tokens for section in seen.sections)
    for section in seen.sections:
        mark, style = _FILLS[section.kind]
        line = _share(mark, style, section.kind, count(section.items, "item"), section.tokens, whole)
        line.append(f"  {shorten(section.preview, max(8, out.width - len(line.plain) - 2))}", "dim")
        out.print(line)
    if seen.window_tokens is not None and seen.window_tokens > seen.estimated_input_tokens:
        left = seen.window_tokens - seen.estimated_input_tokens
        out.print(_share(*_FREE, "free", "", left, whole))


def _share(mark: str, style: str, name: str, items: str, tokens: int, whole: int) -> Text:
    figures = f" {name:<10}{items:>9}{tokens:>11,} tokens{percent(tokens, whole):>5}"
    return styled(" ", (mark, style), figures)
