"""The command context: what a model was sent last, or would be sent now, as a picture or as messages.

It looks and changes nothing, unless --compact says that it may make the context fit, or --strategy selects
another one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import click

from lcm_mcp.cli.call import Call, pass_call, shared_options
from lcm_mcp.cli.compacting import watched
from lcm_mcp.cli.output import console, json_option, print_json, write
from lcm_mcp.cli.picture import show_picture
from lcm_mcp.cli.text import clean
from lcm_mcp.tokens import MOST_TOKENS

if TYPE_CHECKING:
    from rich.console import Console

    from lcm_mcp.service import Service
    from lcm_mcp.service.prepared import Observation, Prepared
    from lcm_mcp.service.requests import PrepareQuery
    from lcm_mcp.transcript.model import Json


@click.command("context")
@click.option(
    "--window", "window_tokens", type=click.IntRange(1, MOST_TOKENS), help="The model's window, in tokens."
)
@click.option(
    "--preamble",
    "preamble_tokens",
    type=click.IntRange(0, MOST_TOKENS),
    help="Tokens of system prompt and tools.",
)
@click.option("--provider", help="Whom the request is for.")
@click.option("--model", help="The model's name, which may tell the window.")
@click.option(
    "--strategy",
    type=click.Choice(["rolling", "lcm", "none"]),
    help="Prepare with this one, and select it for the session.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["messages", "anthropic", "openai", "text"]),
    help="Print the messages themselves, one JSON object a line (text: as they read).",
)
@click.option(
    "--compact",
    type=click.Choice(["never", "auto", "force"]),
    help="auto folds what the window cannot hold, as prepare_context does, and for good; never is taken "
    "where none is given.",
)
@click.option("--cursor", help="With --json: the next page's.")
@json_option
@shared_options
@pass_call
def context_command(
    call: Call,
    *,
    form: Literal["messages", "anthropic", "openai", "text"] | None,
    compact: Literal["never", "auto", "force"] | None,
    as_json: bool,
    **asked: Any,
) -> None:
    """Show what fills a model's window.

    Alone, as the session's last request was prepared. With any option, or where none was, prepares now.
    """
    from lcm_mcp.service.requests import PrepareQuery

    options = (form, compact, *asked.values())
    if all(option is None for option in options) and _show_last(call, as_json):
        return
    query = PrepareQuery(
        session=call.session,
        format=form or "messages",
        compact=compact or "never",
        detail=True,
        keep=compact not in (None, "never"),  # a look is no request, and must not stand for the last one
        **asked,  # the other options are named as the query's fields
    )
    shown = not call.quiet and compact not in (None, "never")
    if form is not None and not as_json:
        for message in call.run(lambda service: watched(service, partial(read_messages, query=query), shown)):
            written = as_read(message) if form == "text" else json.dumps(message)
            write(f"{written}\n".encode())
        return
    prepared = call.run(lambda service: watched(service, lambda reporting: reporting.prepare(query), shown))
    if as_json:
        print_json(prepared)
    elif prepared.observation is not None:
        show_picture(console(), prepared.observation)


def _show_last(call: Call, as_json: bool) -> bool:
    """Show the session's last observation; False where it has none."""
    last = call.run(lambda service: _last(service, call.session))
    if last is None:
        return False
    seen, since, removed = last
    if as_json:
        print_json(seen)
    else:
        show_picture(console(), seen, since, removed=removed)
    return True


async def _last(service: Service, session: str | None) -> tuple[Observation, int, bool] | None:
    """The last observation, how many rows came since, and whether the row it ended at was removed since."""
    seen = await service.last_observation(session)
    if seen is None:
        return None
    came = (await service.select(seen.session)).rows - seen.rows
    end = seen.prepared.partition(".")[2]
    row = None if end == "e0" else (await service.describe(end, seen.session)).row
    return seen, came, row is not None and row.removed


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
    """The picture of a preparation that was asked for its observation, the same on every machine."""
    assert prepared.observation is not None
    show_picture(out, prepared.observation, timed=False)
