"""The child processes of the durability tests: each does one thing to a store until it is done or killed.

Run as `python crashing.py COMMAND STORE …`. What has been acknowledged is said on stdout, a line each;
"ready" is said before, and nothing is begun until a line arrives on stdin.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import apsw
from stores import serving

from lcm_mcp.dag.leases import take_lease
from lcm_mcp.ids import SessionId
from lcm_mcp.service.requests import PrepareQuery
from lcm_mcp.service.times import now_ms
from lcm_mcp.storage.connections import Store

BATCH = 3
SENTENCE = "The parser fails on line {n} of config_{n}.toml because the key is quoted twice. "


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def wait_for_start() -> None:
    say("ready")
    sys.stdin.readline()


def entry_text(name: str) -> str:
    """The text of an entry by its name, from a few words to many pages."""
    length = random.Random(name).choice([1, 1, 5, 40, 800])
    return f"{name}: " + SENTENCE.format(n=len(name)) * length


def conversation(turns: int, seed: str) -> list[dict[str, str]]:
    """A made-up conversation, user and assistant in turns."""
    chance = random.Random(seed)
    return [
        {
            "role": ("user", "assistant")[n % 2],
            "content": f"{seed} {n}: " + SENTENCE.format(n=n) * chance.randint(1, 12),
        }
        for n in range(turns)
    ]


async def append(store: str, session: str, name: str, batches: str, ids: str) -> None:
    """Append batches; "own" ids are this child's, "none" leaves them out, "shared" ones are everyone's."""
    async with serving(Path(store)) as service:
        wait_for_start()
        for number in range(int(batches)):
            prefix = "shared" if ids == "shared" else name
            names = [f"{prefix}-{number}-{n}" for n in range(BATCH)]
            entries = [
                {"role": "user", "content": entry_text(each)} | ({} if ids == "none" else {"entry_id": each})
                for each in names
            ]
            receipt = await service.append(session, entries)
            say(number, *receipt.refs)


async def compact(store: str, name: str) -> None:
    """Grow one session after another and prepare each again and again, until killed."""
    async with serving(Path(store)) as service:
        wait_for_start()
        for number in range(1000):
            session = f"{name}-{number}"
            for turn in range(12):
                window = 3000 + 250 * turn
                await service.append(session, conversation(14, f"{session}-{turn}"))
                done = await service.prepare(PrepareQuery(session=session, window_tokens=window))
                say(session, turn, done.status)


async def prepare(store: str, session: str, window: str) -> None:
    """Prepare a session once."""
    async with serving(Path(store)) as service:
        wait_for_start()
        done = await service.prepare(PrepareQuery(session=session, window_tokens=int(window)))
        say(done.status, done.prepared, done.estimated_input_tokens, *done.notes)


async def import_file(store: str, file: str) -> None:
    """Import a file once."""
    async with serving(Path(store)) as service:
        wait_for_start()
        outcome = await service.import_file(Path(file))
        say(outcome.report.rows_added, outcome.report.duplicates, len(outcome.report.conflicts))


async def lead(store: str, folder: str, name: str) -> None:
    """Live through one small life of a store after another, until killed."""
    from living import live  # it takes its words from here

    async with serving(Path(store)) as service:
        wait_for_start()
        for number in range(1000):
            await live(service, Path(folder), f"{name}-{number}", say)


async def scribble(file: str, name: str, how: str) -> None:
    """Write lines to a file in pieces until killed, after "append", "truncate", "rotate" or "rewrite"."""
    path = Path(file)
    chance = random.Random(name)
    wait_for_start()
    if how == "rotate":
        path.rename(f"{file}.{name}")
    kept = path.read_bytes() if how == "rewrite" else b""
    with path.open("ab" if how == "append" else "wb", buffering=0) as out:
        for number in range(100_000):
            own = {"entry_id": f"{name}-{number}"} if chance.random() < 0.5 else {}
            entry = {"role": "user", "content": f"{name}-{number} " + "word " * chance.randint(0, 30), **own}
            line = json.dumps(entry).encode() + b"\n"
            cut = chance.randrange(len(line))
            out.write(line[:cut])
            out.write(line[cut:] + kept)
            kept = b""
            time.sleep(0.001)


async def open_all(*paths: str) -> None:
    """Open each store when told to, and close it."""
    for path in paths:
        wait_for_start()
        await Store.open(Path(path)).close()


async def upgrade(store: str) -> None:
    """Open a store of an earlier version when told to, and index what it holds."""
    wait_for_start()
    async with serving(Path(store)) as service:
        say("opened")
        await service.index()
        say("indexed")


async def hold(store: str) -> None:
    """Write, and keep the write lock until a line arrives on stdin."""

    def hold_on(db: apsw.Connection) -> None:
        db.execute("INSERT INTO text(body) VALUES('by the other process')")
        say("locked")
        sys.stdin.readline()

    opened = Store.open(Path(store))
    wait_for_start()
    await opened.write(hold_on)
    say("released")
    await opened.close()


async def lease(store: str, session: str) -> None:
    """Take a session's lease and keep it until killed."""
    async with serving(Path(store)) as service:
        assert await service.work.store.write(take_lease, SessionId(int(session)), "theirs", now_ms())
        wait_for_start()


COMMANDS: dict[str, Callable[..., Awaitable[None]]] = {
    "append": append,
    "compact": compact,
    "prepare": prepare,
    "import": import_file,
    "lead": lead,
    "scribble": scribble,
    "open": open_all,
    "upgrade": upgrade,
    "hold": hold,
    "lease": lease,
}

if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    anyio.run(COMMANDS[command], *arguments)
