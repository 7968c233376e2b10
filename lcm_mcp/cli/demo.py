"""The command demo: the whole way of a memory, on a real conversation that the package ships.

It takes a store of its own that goes when it ends (or --db), no settings of the owner's, no key and no
network, and prints the same each time. Nothing is staged: every screen is an answer of the service.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from lcm_mcp.cli.call import Call, pass_call, run_on, shared_options
from lcm_mcp.cli.dag import read_dag, show_dag
from lcm_mcp.cli.importing import show_outcome
from lcm_mcp.cli.output import console, styled
from lcm_mcp.cli.show import show_hits, show_rows
from lcm_mcp.cli.text import clean, count
from lcm_mcp.cli.window import read_messages, show_window

if TYPE_CHECKING:
    from rich.console import Console

    from lcm_mcp.service import Service
    from lcm_mcp.service.answers import Hit
    from lcm_mcp.service.requests import PrepareQuery

CONVERSATION = "orphaned-sessions.jsonl"
WINDOW_TOKENS = 32_000
NEEDLE = "orphaned sessions"
_SHOWN_LINES = 14


@click.command("demo")
@shared_options
@pass_call
def demo_command(call: Call) -> None:
    """See it all work on a real conversation."""
    from lcm_mcp.settings import Settings

    with TemporaryDirectory(prefix="lcm-demo-") as folder:
        file = _unpacked(Path(folder))
        store = call.db or Path(folder) / "demo.sqlite"
        run_on(Settings(db=store), lambda service: _tell(service, console(), file))


def _unpacked(folder: Path) -> Path:
    packed = resources.files("lcm_mcp") / "demo" / f"{CONVERSATION}.gz"
    file = folder / CONVERSATION
    file.write_bytes(gzip.decompress(packed.read_bytes()))
    return file


async def _tell(service: Service, out: Console, file: Path) -> None:
    out.print(
        styled(
            "A developer and a coding agent look for a bug in git hooks. Half way their client ran out\n"
            "of context and threw the first half away. The file still has it all; so has the memory."
        )
    )
    with _screen(out, "Import", f"lcm-mcp import {CONVERSATION}"):
        outcome = await service.import_file(file)
        show_outcome(out, outcome)
    session = outcome.sessions[0].session
    with _screen(out, "What folding made: summaries that know their rows", "lcm-mcp dag"):
        show_dag(out, await read_dag(service, session))
    hit = await _find(service, out, session)
    with _screen(out, "The original words, not a summary of them", f"lcm-mcp expand {hit.ref}"):
        await _expand(service, out, session, hit)
    await _prepare(service, out, session)


@contextmanager
def _screen(out: Console, title: str, command: str) -> Iterator[None]:
    out.print()
    out.print(styled((f"── {title} ".ljust(min(out.width, 80), "─"), "bold")))
    out.print(styled(("$ " + command, "green")))
    yield


async def _find(service: Service, out: Console, session: str) -> Hit:
    from lcm_mcp.service.requests import GrepQuery

    query = GrepQuery(NEEDLE, session=session, role="assistant", order="oldest", limit=2)
    command = f"lcm-mcp grep '{NEEDLE}' --role assistant --order oldest --limit 2"
    with _screen(out, "A word from the forgotten half", command):
        page = await service.grep(query)
        show_hits(out, replace(page, next_cursor=None), NEEDLE)
    return page.hits[0]


async def _expand(service: Service, out: Console, session: str, hit: Hit) -> None:
    expansion = await service.expand(hit.ref, session)
    row = expansion.rows[0]
    lines = row.text.splitlines()
    shown = replace(row, text="\n".join(lines[:_SHOWN_LINES]))
    show_rows(out, replace(expansion, rows=(shown,), next_cursor=None))
    if len(lines) > _SHOWN_LINES:
        out.print(styled((f"… {count(len(lines) - _SHOWN_LINES, 'more line')}", "dim")))


async def _prepare(service: Service, out: Console, session: str) -> None:
    from lcm_mcp.service.requests import PrepareQuery

    query = PrepareQuery(session=session, window_tokens=WINDOW_TOKENS, format="text", detail=True)
    command = f"lcm-mcp context --window {WINDOW_TOKENS} --compact auto"
    with _screen(out, "The same conversation, prepared for a window it does not fit", command):
        show_window(out, await service.prepare(query))
    with _screen(out, "How the prepared context begins", command + " --format text | head"):
        await _show_beginning(service, out, query)


async def _show_beginning(service: Service, out: Console, query: PrepareQuery) -> None:
    for message in (await read_messages(service, query))[:1]:
        text = message.get("content") if isinstance(message, dict) else ""
        lines = clean(str(text)).splitlines()
        for line in lines[:_SHOWN_LINES]:
            out.print(styled(line), overflow="ellipsis", no_wrap=True)
        out.print(styled((f"… {count(max(0, len(lines) - _SHOWN_LINES), 'more line')}", "dim")))
