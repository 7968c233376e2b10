"""Real conversations, cut into the requests that an agent made in them.

A request is made before each message of the model: what came since the last one is new in it. Lines that
share a message id are one message. Of snapshots of one session the longest counts. Files that are no
transcript this version reads are passed over: a folder may hold anything.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory

from lcm_mcp.errors import ImportRefused
from lcm_mcp.tokens import Size
from lcm_mcp.transcript.importers import FORMATS, Entry, SessionFound, detect
from lcm_mcp.transcript.model import Draft, Sealed
from lcm_mcp.transcript.sealing import seal


@dataclass(frozen=True, slots=True)
class Conversation:
    """A session of a file; turns are the rows that each of its requests adds, oldest first."""

    name: str
    turns: Sequence[Sequence[Sealed]]

    @property
    def rows(self) -> int:
        return sum(map(len, self.turns))

    @property
    def tokens(self) -> int:
        """The whole history that its last request would send, by the fixed rule."""
        return sum((row.size for turn in self.turns for row in turn if row.active), Size()).tokens


def read_conversations(paths: Iterable[Path], least_requests: int) -> list[Conversation]:
    """The sessions of these files and folders that made at least so many requests, the longest first."""
    longest: dict[str, Conversation] = {}
    for file in _files(paths):
        for key, drafts in _sessions(file).items():
            found = Conversation(_name(file, key), list(_turns(drafts)))
            known = longest.get(key)
            if len(found.turns) >= least_requests and (known is None or found.rows > known.rows):
                longest[key] = found
    return sorted(longest.values(), key=lambda each: -each.tokens)


def demo_conversations() -> list[Conversation]:
    """The conversation that the package ships."""
    with TemporaryDirectory(prefix="lcm-bench-") as folder:
        for packed in (resources.files("lcm_mcp") / "demo").iterdir():
            if packed.name.endswith(".jsonl.gz"):
                file = Path(folder) / packed.name.removesuffix(".gz")
                file.write_bytes(gzip.decompress(packed.read_bytes()))
        return read_conversations([Path(folder)], 1)


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        yield from sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else (path,)


def _name(file: Path, key: str) -> str:
    parent = f"{file.parent.name}/" if file.stem.isdigit() else ""
    child = f" ({key.rpartition('/')[2][:12]})" if "/" in key and key != str(file) else ""
    return f"{parent}{file.stem}{child}"


def _sessions(file: Path) -> dict[str, list[Draft]]:
    """The entries of each session in the file by its identity, each entry_id's first; none where the file is
    no transcript."""
    try:
        events = FORMATS[detect(file)].read(file, None)
    except ImportRefused:
        return {}
    found: dict[str, list[Draft]] = {}
    identities: dict[str, str] = {}
    known: set[tuple[str, str]] = set()
    for event in events:
        if isinstance(event, SessionFound):
            identities[event.key] = event.native_id or event.key
        elif isinstance(event, Entry):
            key, entry_id = identities[event.session_key], event.draft.entry_id
            if entry_id is None or (key, entry_id) not in known:
                known.add((key, entry_id or ""))
                found.setdefault(key, []).append(event.draft)
    return found


def _turns(drafts: Iterable[Draft]) -> Iterator[list[Sealed]]:
    turn: list[Sealed] = []
    answered: set[str] = set()
    for draft in drafts:
        if draft.role == "assistant" and draft.active and draft.message_id not in answered:
            if any(row.active for row in turn):
                yield turn
                turn = []
            if draft.message_id is not None:
                answered.add(draft.message_id)
        turn.append(seal(draft))
