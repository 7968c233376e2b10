"""kill -9 at any instant, and many processes at once: nothing acknowledged is lost, nothing is half there.

LCM_CRASH_ROUNDS sets how often a child is killed; `make crash` asks for more than the few of a usual run.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from subprocess import Popen

import apsw
import pytest
from crashing import BATCH, conversation, entry_text
from living import assert_kept, live_early
from older import as_the_first_version_wrote_it
from stores import (
    active_rows,
    assert_sound,
    child,
    finish,
    opened,
    path_of,
    serving,
    tell,
    told,
)
from transcripts import SAMPLES

from lcm_mcp.dag import store as dag
from lcm_mcp.ids import SessionId
from lcm_mcp.service.requests import PrepareQuery
from lcm_mcp.storage.connections import Store
from lcm_mcp.transcript import sessions
from lcm_mcp.transcript.sessions import Session

ROUNDS = int(os.environ.get("LCM_CRASH_ROUNDS", "8"))
"""Read before conftest takes every LCM_ variable out of the environment."""
FIRST = SessionId(1)


def start(*children: Popen[str]) -> None:
    """Let children that are ready begin, as near to one moment as can be."""
    assert [told(each.stdout) for each in children] == ["ready"] * len(children)
    for each in children:
        tell(each, "go")


def killed_at_random(
    process: Popen[str], chance: random.Random, most_lines: int, most_s: float = 0.05
) -> list[str]:
    """Kill a child somewhere on its way, and give what it had acknowledged."""
    start(process)
    lines = [told(process.stdout) for _ in range(chance.randrange(most_lines))]
    time.sleep(chance.random() * most_s)
    process.kill()
    # Not communicate(): it would pass over lines that told() has read ahead.
    assert process.stdout is not None
    assert process.stderr is not None
    rest, errors = process.stdout.read(), process.stderr.read()
    process.wait()
    assert errors == ""
    # What was cut off in the middle of its line was not said.
    return [*lines, *(line for line in rest.splitlines(keepends=True) if line.endswith("\n"))]


def texts(db: apsw.Connection, session: str = "s") -> list[str]:
    """Texts of the active path, oldest first."""
    found = sessions.find_by_key(db, session)
    if found is None:
        return []
    by_seq = dict(
        db.execute("SELECT seq, body FROM row JOIN text ON text.id = row.text WHERE session = ?", (found.id,))
    )
    rows = active_rows(db, found.id)
    assert rows == list(range(1, len(by_seq) + 1))  # numbers rise without a gap, along one path
    return [by_seq[seq] for seq in rows]


def names(found: list[str]) -> Counter[str]:
    """How often each entry is there; each has the text it was sent with, all of it."""
    for text in found:
        assert text == entry_text(text.partition(":")[0])
    return Counter(text.partition(":")[0] for text in found)


def forced(session: str, window: int, deadline_ms: int) -> PrepareQuery:
    return PrepareQuery(session=session, window_tokens=window, compact="force", deadline_ms=deadline_ms)


# --- kill -9


async def test_kill_during_append_loses_nothing_acknowledged_and_halves_nothing(store_path: Path) -> None:
    chance = random.Random(9)
    promised: set[str] = set()
    for turn in range(ROUNDS):
        with child("append", store_path, "s", f"r{turn}", 10_000, "own") as writer:
            for line in killed_at_random(writer, chance, 40):
                number, *refs = line.split()
                assert len(refs) == BATCH
                promised |= {f"r{turn}-{number}-{n}" for n in range(BATCH)}
        async with serving(store_path) as service:
            diagnosis = await service.doctor()
            # A killed pass leaves its lease, which ends by itself.
            assert all(check.ok for check in diagnosis.checks if check.name != "leases"), diagnosis.checks
            found = names(await service.work.store.read(texts))
        assert set(found.values()) <= {1}
        assert promised <= set(found)
        batches = Counter(name.rpartition("-")[0] for name in found)
        assert set(batches.values()) <= {BATCH}
        assert len(batches) * BATCH - len(promised) <= (turn + 1) * BATCH  # at most one unsaid each


async def test_a_retry_after_a_kill_stores_each_entry_once(store_path: Path) -> None:
    chance = random.Random(11)
    for _ in range(max(2, ROUNDS // 4)):
        with child("append", store_path, "s", "again", 10_000, "own") as writer:
            killed_at_random(writer, chance, 25)
    with child("append", store_path, "s", "again", 30, "own") as writer:
        start(writer)
        (said,) = finish([writer])
        assert len(said) == 30
    async with opened(store_path) as store:
        found = names(await store.read(texts))
    assert set(found.values()) == {1}
    assert {f"again-{number}-{n}" for number in range(30) for n in range(BATCH)} <= set(found)


async def test_kill_during_compaction_leaves_no_half_cut_and_no_lasting_lease(store_path: Path) -> None:
    chance = random.Random(4)
    compacted = 0
    for turn in range(ROUNDS):
        with child("compact", store_path, f"r{turn}") as worker:
            said = killed_at_random(worker, chance, 14)
        compacted += sum(line.split()[2] == "compacted" for line in said)
        async with serving(store_path) as service:
            await service.work.store.read(assert_sound)
            newest = (await service.sessions(limit=1)).sessions
            if not newest:
                continue
            # Far less time than a lease lasts: only a living owner could keep us from compacting.
            done = await service.prepare(forced(newest[0].key, 2500, deadline_ms=20_000))
            assert done.status in ("compacted", "not_needed", "limited"), done
            assert not any("time for one call" in note for note in done.notes)
            await service.work.store.read(assert_sound)
            diagnosis = await service.doctor()
            # A killed pass leaves its lease, which ends by itself.
            assert all(check.ok for check in diagnosis.checks if check.name != "leases"), diagnosis.checks
    assert compacted > 0


async def test_kill_during_anything_loses_nothing_promised(store_path: Path, tmp_path: Path) -> None:
    """Append, index, cut, import, fork, rewind, redo, repair, backup, forget."""
    chance, said = random.Random(12), list[str]()
    for turn in range(ROUNDS):
        with child("lead", store_path, tmp_path, f"r{turn}") as worker:
            said += killed_at_random(worker, chance, 12, most_s=0.3)
        await assert_kept(store_path, said)


async def test_kill_while_an_older_store_is_brought_up_to_date_loses_nothing(tmp_path: Path) -> None:
    """The steps of the migration, what is fed and packed after it, and the next one's going on with it."""
    chance, said = random.Random(13), list[str]()
    first = tmp_path / "first.sqlite"
    async with serving(first) as service:
        await live_early(service, "early", said.append)
    as_the_first_version_wrote_it(first)
    for turn in range(ROUNDS):
        store = tmp_path / f"{turn}.sqlite"
        shutil.copy(first, store)
        for most_lines in (1, 3):  # amid the steps, then anywhere: it goes on with what the first left
            with child("upgrade", store) as opener:
                killed_at_random(opener, chance, most_lines, most_s=0.1)
        await assert_kept(store, said)


async def test_a_killed_process_loses_its_lease_and_a_living_one_keeps_it(store_path: Path) -> None:
    async with serving(store_path) as service:
        await service.append("s", conversation(40, "lease"))
        with child("lease", store_path, FIRST) as owner:
            assert told(owner.stdout) == "ready"
            waited = await service.prepare(forced("s", 4000, deadline_ms=200))
            assert waited.status == "scheduled"
            owner.kill()
            owner.wait()
            done = await service.prepare(forced("s", 4000, deadline_ms=20_000))
            assert done.status == "compacted"
            await service.work.store.read(assert_sound)


def import_lines(path: Path, turns: int) -> Path:
    """A neutral file of that many entries."""
    lines = [f"{json.dumps(entry)}\n" for entry in conversation(turns, "file")]
    path.write_text("".join(lines), encoding="utf-8")
    return path


async def test_an_import_that_was_killed_is_completed_by_the_next(store_path: Path, tmp_path: Path) -> None:
    chance = random.Random(6)
    file = import_lines(tmp_path / "s.jsonl", 500)
    for _ in range(max(2, ROUNDS // 2)):
        with child("import", store_path, file) as importer:
            start(importer)
            time.sleep(chance.random() * 0.4)
            importer.kill()
        async with opened(store_path) as store:
            await store.read(assert_sound)
    async with serving(store_path) as service:
        await service.import_file(file)
        await assert_imported_whole(service.work.store, tmp_path, file)


async def test_an_import_killed_before_folding_is_folded_by_the_next(
    store_path: Path, tmp_path: Path
) -> None:
    file = import_lines(tmp_path / "s.jsonl", 60)
    async with serving(store_path) as service:
        await service.import_file(file, fold=False)  # all a kill between the last row and the fold leaves
        await service.import_file(file)
        await assert_imported_whole(service.work.store, tmp_path, file)


# --- many processes at once


async def test_four_processes_append_to_one_session_each_row_once(store_path: Path) -> None:
    with ExitStack() as stack:
        writers = [
            stack.enter_context(child("append", store_path, "s", f"w{n}", 25, ids))
            for n, ids in enumerate(("own", "own", "none", "none"))
        ]
        start(*writers)
        said = finish(writers)
    async with serving(store_path) as service:
        found = await service.work.store.read(texts)
        assert (await service.doctor()).healthy
    assert names(found) == Counter(
        f"w{writer}-{number}-{n}" for writer in range(4) for number in range(25) for n in range(BATCH)
    )
    # Every receipt names the rows that hold what was sent, and each writer's numbers rise.
    for writer, lines in enumerate(said):
        refs = [int(ref[1:]) for line in lines for ref in line.split()[1:]]
        assert refs == sorted(refs)
        assert [found[seq - 1].partition(":")[0] for seq in refs] == [
            f"w{writer}-{number}-{n}" for number in range(25) for n in range(BATCH)
        ]


async def test_four_processes_append_the_same_entries_each_row_once(store_path: Path) -> None:
    with ExitStack() as stack:
        writers = [
            stack.enter_context(child("append", store_path, "s", f"w{n}", 25, "shared")) for n in range(4)
        ]
        start(*writers)
        said = finish(writers)
    assert all(lines == said[0] for lines in said)  # whoever was first, all are told the same rows
    async with opened(store_path) as store:
        found = names(await store.read(texts))
    assert found == Counter(f"shared-{number}-{n}" for number in range(25) for n in range(BATCH))


async def assert_imported_whole(store: Store, tmp_path: Path, file: Path) -> None:
    """The store holds what one undisturbed import of the file makes, folded as far."""
    async with serving(tmp_path / "alone" / "lcm.sqlite") as alone:
        await alone.import_file(file)
        wanted = await alone.work.store.read(shape)
    await store.read(assert_sound)
    assert await store.read(shape) == wanted


def shape(db: apsw.Connection) -> list[tuple[str, list[str], int]]:
    """Each session with its texts and the row up to which it is folded."""
    found = sessions.page(db, sessions.Filter(), 100, None)
    return sorted((each.key, texts(db, each.key), folded_up_to(db, each)) for each in found)


def folded_up_to(db: apsw.Connection, session: Session) -> int:
    return dag.covered_end(db, session.id, path_of(db, session.id), session.leaf)


@pytest.mark.parametrize("made_up", [True, False])
async def test_four_processes_import_one_file_as_if_one_did(
    store_path: Path, tmp_path: Path, made_up: bool
) -> None:
    file = import_lines(tmp_path / "s.jsonl", 500) if made_up else sorted(SAMPLES.glob("*.jsonl"))[0]
    with ExitStack() as stack:
        importers = [stack.enter_context(child("import", store_path, file)) for _ in range(4)]
        start(*importers)
        said = [lines[0].split() for lines in finish(importers)]
    async with serving(store_path) as service:
        await assert_imported_whole(service.work.store, tmp_path, file)
        rows = (await service.sessions()).sessions[0].rows
    assert sum(int(added) for added, _, _ in said) == rows
    assert {conflicts for _, _, conflicts in said} == {"0"}


async def test_two_processes_prepare_one_session_at_once_with_one_valid_result(store_path: Path) -> None:
    async with serving(store_path) as service:
        await service.append("s", conversation(300, "both"))
    with ExitStack() as stack:
        workers = [stack.enter_context(child("prepare", store_path, "s", 6000)) for _ in range(3)]
        start(*workers)
        said = [lines[0].split(maxsplit=3) for lines in finish(workers)]
    assert [status for status, *_ in said].count("compacted") >= 1
    assert {status for status, *_ in said} <= {"compacted", "not_needed"}
    assert all(int(tokens) < 6000 for _, _, tokens, *_ in said)
    async with serving(store_path) as service:
        await service.work.store.read(assert_sound)
        assert await service.work.store.read(lambda db: db.execute("SELECT count(*) FROM lease").get) == 0
