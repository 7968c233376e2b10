"""The command demo: the whole way of a memory, on a real conversation that the package ships.

It takes a store of its own that goes when it ends (or --db), no settings of the owner's, no key and no
network, and prints the same each time. Nothing is staged: every screen is an answer of the service.
"""

from __future__ import annotations

import gzip
from collections.abc import Generator
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
from lcm_mcp.cli.window import as_read, read_messages, show_window
from lcm_mcp.service.requests import GrepQuery, PrepareQuery
from lcm_mcp.wording import counted

if TYPE_CHECKING:
    from rich.console import Console

    from lcm_mcp.service import Service
    from lcm_mcp.service.answers import Hit

CONVERSATION = "orphaned-sessions.jsonl"
WINDOW_TOKENS = 32_000
NEEDLE = "orphaned sessions"
_SHOWN_LINES = 14
_LAST_LINES = 5
_STORY = (
    "A developer and a coding agent hunt a bug in git hooks. Half-way the client ran",
    "out of context and went on from a summary of its own. The file still has every",
    "word, and so has the memory.",
)


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
    for line in _STORY:
        out.print(styled(line))
    with _screen(out, "Import", f"lcm-mcp import {CONVERSATION}"):
        outcome = await service.import_file(file)
        show_outcome(out, outcome)
    session = outcome.sessions[0].session
    query = PrepareQuery(
        session=session, strategy="lcm", window_tokens=WINDOW_TOKENS, format="text", detail=True
    )
    context = f"lcm-mcp context --strategy lcm --window {WINDOW_TOKENS} --compact auto"
    with _screen(out, "Prepared for a window it does not fit", context):
        show_window(out, await service.prepare(query))
    with _screen(out, "The summaries, each over the rows or summaries it was made of", "lcm-mcp dag"):
        show_dag(out, await read_dag(service, session))
    hit = await _find(service, out, session)
    with _screen(out, "The original words, not a summary of them", f"lcm-mcp expand {hit.ref}"):
        await _expand(service, out, session, hit)
    with _screen(out, "What a model would be sent", f"{context} --format text"):
        await _show_request(service, out, query)
    with _screen(out, "Your own history", "lcm-mcp import --discover"):
        out.print(styled("finds what agents have left on this machine, and asks before it reads."))


@contextmanager
def _screen(out: Console, title: str, command: str) -> Generator[None]:
    out.print()
    out.print(styled((f"── {title} ".ljust(min(out.width, 80), "─"), "bold")))
    out.print(styled(("$ " + command, "green")))
    yield


async def _find(service: Service, out: Console, session: str) -> Hit:
    query = GrepQuery(NEEDLE, session=session, role="assistant", order="oldest", limit=2)
    command = f"lcm-mcp grep '{NEEDLE}' --role assistant --order oldest --limit 2"
    with _screen(out, "A word from the half that the client forgot", command):
        page = await service.grep(query)
        show_hits(out, replace(page, next_cursor=None), NEEDLE)
    return page.hits[0]


async def _expand(service: Service, out: Console, session: str, hit: Hit) -> None:
    expansion = await service.expand(hit.ref, session)
    row = expansion.rows[0]
    lines = row.text.splitlines()
    shown = replace(row, text="\n".join(lines[:_SHOWN_LINES]))
    show_rows(out, replace(expansion, rows=(shown,), next_cursor=None))
    _show_omitted(out, len(lines) - _SHOWN_LINES)


async def _show_request(service: Service, out: Console, query: PrepareQuery) -> None:
    """The beginning of the summaries, and the end of the newest rows."""
    (message,) = await read_messages(service, query)
    lines = as_read(message).splitlines()
    for line in lines[:_SHOWN_LINES]:
        out.print(styled(line), overflow="ellipsis", no_wrap=True)
    _show_omitted(out, len(lines) - _SHOWN_LINES - _LAST_LINES)
    for line in lines[-_LAST_LINES:]:
        out.print(styled(line), overflow="ellipsis", no_wrap=True)


def _show_omitted(out: Console, lines: int) -> None:
    if lines > 0:
        out.print(styled((f"… {counted(lines, 'more line')}", "dim")))
