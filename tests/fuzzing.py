"""Thousands of spoilt files into one store: none ends in a traceback, in a hang or in much memory.

`python tests/fuzzing.py [--files N] [--seed N]` (make fuzz) spoils real and made-up files of every format:
cut, glued and flipped bytes, values of other types, bytes that are no UTF-8, lone surrogates, depth bombs and
giant lines. Each is imported as what it looks like and as what it was, and then the store is looked through.
The seed that is named with a failure makes the same file again.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
from exported import TREE, chatgpt, claude_ai
from imported import SHARED
from stores import serving
from test_import_databases import BUBBLES, MESSAGES, cursor, opencode
from test_import_databases import exported as opencode_export
from test_import_fuzz import LINES, lines_of, twisted
from test_importers import SMALL, damaged

from lcm_mcp.errors import ImportRefused
from lcm_mcp.service import Service

FILES = 10_000
MOST_MB = 600
MOST_SECONDS = 120
_SOURCE_BYTES = 400_000
_ODD_BYTES = (b"\xff\xfe\x80", b"\xed\xa0\x80", b'{"a":"\\ud800"}', b"\x00" * 40, b"\\udead\\n")


@dataclass(frozen=True, slots=True)
class Source:
    """A format, how a file of it ends, and what makes one."""

    format: str
    suffix: str
    make: Callable[[Path, random.Random], None]


def sources() -> Sequence[Source]:
    """Files of every format, the real ones beside the checkout where they are there."""
    found = [Source(name, ".jsonl", partial(_lines, records)) for name, records in LINES.items()]
    found += [Source("opencode", ".db", _opencode), Source("cursor", ".vscdb", _cursor)]
    found += [Source("opencode", ".json", _opencode_export), Source("chatgpt", ".json", _chatgpt)]
    found.append(Source("claude-ai", ".json", _claude_ai))
    folders = {"openhands": "openhands", "swe-agent": "swe-agent", "claude-code": "claude-code"}
    for format in ("claude-code", "codex", "pi", "gemini", *folders):
        for path in sorted((SHARED / folders.get(format, format)).rglob("*.*")):
            if path.is_file() and path.stat().st_size < _SOURCE_BYTES:
                found.append(Source(format, path.suffix, partial(_real, path)))
    found += [Source("claude-code", ".jsonl", partial(_real, path)) for path in SMALL.glob("*.jsonl")]
    return found


def _lines(records: list[Any], path: Path, chance: random.Random) -> None:
    path.write_bytes(lines_of("", [twisted(record, chance) for record in records * chance.randint(1, 4)]))


def _real(source: Path, path: Path, chance: random.Random) -> None:
    del chance
    path.write_bytes(source.read_bytes())


def _opencode(path: Path, chance: random.Random) -> None:
    opencode(path, [(name, twisted(info, chance), parts) for name, info, parts in MESSAGES])


def _opencode_export(path: Path, chance: random.Random) -> None:
    opencode_export(path)
    path.write_text(json.dumps(twisted(json.loads(path.read_bytes()), chance)))


def _cursor(path: Path, chance: random.Random) -> None:
    cursor(path, *((key, twisted(value, chance)) for key, value in BUBBLES))


def _chatgpt(path: Path, chance: random.Random) -> None:
    path.write_text(json.dumps([twisted(chatgpt("one", TREE, "a2"), chance)]))


def _claude_ai(path: Path, chance: random.Random) -> None:
    message = {"uuid": "m", "sender": "human", "text": "t"}
    path.write_text(json.dumps([twisted(claude_ai("one", message), chance)]))


def spoil(data: bytes, chance: random.Random) -> bytes:
    """The file with something wrong in it that live and broken programs leave."""
    at = data.rfind(b"\n", 0, chance.randrange(len(data) + 1)) + 1
    match chance.randrange(9):
        case 0 | 1 | 2:
            return damaged(data, chance)
        case 3:
            return data[:at] + data[: chance.randrange(len(data) + 1)]
        case 4:
            return data[:at] + chance.choice(_ODD_BYTES) + data[at:]
        case 5:
            depth = chance.choice((150, 300, 5_000, 200_000))
            return data[:at] + b'{"type":"user","message":' + b"[" * depth + b"]" * depth + b"}\n" + data[at:]
        case 6:
            size = chance.choice((1_000_000, 9_000_000)) if chance.random() < 0.95 else 70_000_000
            text = b'{"role":"user","content":"' + b"long " * (size // 5) + b'"}\n'
            return data[:at] + text + data[at:]
        case 7:
            return data.replace(b'"', b"", chance.randint(1, 3))
        case _:
            return data


async def fuzz(service: Service, folder: Path, seeds: Sequence[int], on_file: Callable[[int], None]) -> None:
    """Import a spoilt file for each seed, as auto and as its own format."""
    known = sources()
    for seed in seeds:
        on_file(seed)
        chance = random.Random(seed)
        source = chance.choice(known)
        path = folder / f"{seed}{source.suffix}"
        source.make(path, chance)
        path.write_bytes(spoil(path.read_bytes(), chance))
        try:
            for format in ("auto", source.format):
                with suppress(ImportRefused):
                    await service.import_file(path, format, fold=False, follow=chance.random() < 0.5)
        except BaseException as error:
            error.add_note(f"seed {seed}: a {source.format} file")
            raise
        path.unlink()


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)


def tell(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def main(files: int, first: int) -> None:
    """So many files; what it took."""
    began = time.process_time()

    def on_file(seed: int) -> None:
        signal.alarm(MOST_SECONDS)
        if (seed - first) % 500 == 499:
            tell(f"{seed - first + 1:,} files, at most {peak_mb():,.0f} MB")

    with TemporaryDirectory(prefix="lcm-fuzz-") as folder:
        async with serving(Path(folder) / "lcm.sqlite") as service:
            await fuzz(service, Path(folder), range(first, first + files), on_file)
            signal.alarm(0)
            report = await service.doctor()
            assert all(check.ok or check.name == "following" for check in report.checks), report
    assert peak_mb() < MOST_MB, f"{peak_mb():,.0f} MB"
    tell(f"{files:,} files, {time.process_time() - began:,.0f} s of CPU, at most {peak_mb():,.0f} MB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Import spoilt files.")
    parser.add_argument("--files", type=int, default=FILES)
    parser.add_argument("--seed", type=int, default=0, help="of the first file")
    asked = parser.parse_args()
    anyio.run(main, asked.files, asked.seed)
