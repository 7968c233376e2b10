"""A store's whole life in small: everything that writes, one after the other, each deed acknowledged.

What was promised is said as words: `kept SESSION NAME…`, and before it is undone `forgets SESSION`. What has
been said must be so in whatever is left of the store.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import apsw
from crashing import conversation, entry_text
from stores import assert_sound, serving

from lcm_mcp.service import Service
from lcm_mcp.service.requests import PrepareQuery

Say = Callable[[str], None]


async def live(service: Service, folder: Path, name: str, say: Say, *, copies: bool = True) -> None:
    """Append, index, compact, import, fork, rewind, redo, mend, back up and forget; names start with `name`.

    Without copies it neither mends nor backs up, which both read the store through another connection.
    """
    main, file = f"{name}-main", folder / f"{name}.jsonl"
    await _append(service, main, f"{name}-a", say)
    await service.append(main, conversation(12, name))
    await service.index()
    await service.prepare(PrepareQuery(session=main, window_tokens=3000, strategy="lcm", compact="force"))
    entries = [{"role": "user", "content": entry_text(each), "entry_id": each} for each in _names(file.stem)]
    file.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries), encoding="utf-8")
    outcome = await service.import_file(file)
    say(f"kept {outcome.sessions[0].session} {' '.join(_names(file.stem))}")
    fork = (await service.fork(main)).session
    await _append(service, fork, f"{name}-f", say)
    await service.rewind("e2", fork)
    for node in (await service.list_nodes(main, limit=1)).nodes:
        await service.redo(node.id, main)
    if copies:
        await service.mend()
        await service.back_up(folder / f"{name}.backup")
    say(f"forgets {fork}")
    await service.forget(fork)
    await _append(service, main, f"{name}-z", say)


async def live_early(service: Service, name: str, say: Say) -> None:
    """What a store of the first version could do: append and compact."""
    main = f"{name}-main"
    await _append(service, main, f"{name}-a", say)
    await service.append(main, conversation(60, name))
    await service.prepare(PrepareQuery(session=main, window_tokens=3000, strategy="lcm", compact="force"))
    await _append(service, main, f"{name}-z", say)


async def _append(service: Service, session: str, name: str, say: Say) -> None:
    entries = [{"role": "user", "content": entry_text(each), "entry_id": each} for each in _names(name)]
    await service.append(session, entries)
    say(f"kept {session} {' '.join(_names(name))}")


def _names(name: str) -> Sequence[str]:
    return [f"{name}-{number}" for number in range(3)]


_TEXTS = """SELECT row.entry_id, text.body FROM session JOIN row ON row.session = session.id
    JOIN text ON text.id = row.text WHERE session.key = ? AND row.entry_id IS NOT NULL"""


def _texts(db: apsw.Connection, session: str) -> dict[str, str]:
    return dict(db.execute(_TEXTS, (session,)))


async def assert_kept(path: Path, said: Iterable[str]) -> None:
    """The store is sound by its own word and by ours, and holds every entry it promised, whole."""
    promised: dict[str, set[str]] = {}
    for words in said:
        deed, session, *names = words.split()
        if deed == "kept":
            promised.setdefault(session, set()).update(names)
        else:
            promised.pop(session)
    async with serving(path) as service:
        await service.work.store.read(assert_sound)
        diagnosis = await service.doctor()
        # A pass that died leaves its lease, which ends by itself.
        assert all(check.ok for check in diagnosis.checks if check.name != "leases"), diagnosis.checks
        for session, names in promised.items():
            texts = await service.work.store.read(_texts, session)
            assert {name: texts.get(name) for name in names} == {name: entry_text(name) for name in names}
