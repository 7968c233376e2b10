"""Doctor: is the store sound, is every row reachable, what is in force.

It reads; the one write it tries is rolled back, to prove that the next real one will work. Each check says
what was found and, where it fails, what to do: what mending.py can mend, or what needs a backup.
"""

from __future__ import annotations

import shutil
import stat
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

import apsw

from lcm_mcp import clients
from lcm_mcp.dag import checking as dag_checking
from lcm_mcp.dag import spending
from lcm_mcp.dag import store as dag
from lcm_mcp.dag.checking import Fault
from lcm_mcp.dag.leases import left_leases
from lcm_mcp.errors import InstallRefused, NoStore, StoreError
from lcm_mcp.ids import Seq
from lcm_mcp.search import index, vectors, words
from lcm_mcp.service import troubles
from lcm_mcp.service.answers import Check, Diagnosis, SettingLine
from lcm_mcp.service.followed_state import following_state
from lcm_mcp.service.spending import breaker_line, breakers_open
from lcm_mcp.service.times import now_ms, today
from lcm_mcp.service.workplace import Workplace
from lcm_mcp.settings import Settings
from lcm_mcp.storage import integrity
from lcm_mcp.storage.connections import Store
from lcm_mcp.transcript import checking, files, sessions, store
from lcm_mcp.transcript.path import Path as RowPath
from lcm_mcp.wording import count

MOST_SESSION = 2**63 - 1
RESTORE = "Restore a backup, or import the transcripts into a new store."
MEND = "Run `lcm-mcp doctor --repair`."
MOST_INDEXED = 10_000
"""Texts whose entries in the search index are looked at, evenly spread."""

# What a check may meet in rows that are not what we wrote.
_UNREADABLE = (TypeError, ValueError, AssertionError, KeyError, IndexError, AttributeError)
_NEVER_DERIVED = frozenset(("row", "session"))


async def diagnose(work: Workplace) -> Diagnosis:
    """Every check in order; one that cannot be made counts as failed."""
    checks = [
        Check("opening", True, f"schema version {integrity.VERSION}"),
        _checksums(work),
        _permissions(work),
    ]
    for name, look in _READS:
        try:
            checks.append(await work.store.read(look))
        except StoreError as error:
            checks.append(Check(name, False, str(error)))
        except _UNREADABLE as error:
            checks.append(Check(name, False, f"could not be made ({type(error).__name__}). {RESTORE}"))
    checks.append(await _followed(work))
    checks.append(Check("hooks", *troubles.told(work.store.path)))
    if work.models:
        checks.append(await work.store.read(_summarizers, work))
    checks.append(await _writes(work))
    checks.append(_clients())
    return _diagnosis(work.settings, checks)


def diagnose_none(settings: Settings, error: NoStore) -> Diagnosis:
    """What can be told where there is no store: most of all whether hooks failed to make it."""
    hooks = Check("hooks", *troubles.told(settings.db))
    return _diagnosis(settings, (Check("opening", False, str(error)), hooks, _clients()))


def _diagnosis(settings: Settings, checks: Sequence[Check]) -> Diagnosis:
    lines = tuple(SettingLine(line.name, line.value, line.origin) for line in settings.in_force())
    return Diagnosis(str(settings.db), all(check.ok for check in checks), tuple(checks), lines)


def repair(path: Path) -> str:
    """Mend a file whose checksums alone are wrong, keeping a copy of it; says what was done.

    Raises StoreError where more is wrong than that, or nothing can be done; the file is then as it was.
    """
    if not path.exists():
        return f"{path} does not exist: nothing to repair."
    if Store.is_sound(path):
        return "Every checksum is right: nothing to repair."
    copy = path.with_name(f"{path.name}.{now_ms()}.before-repair")
    for side in ("", "-wal"):
        if (part := path.with_name(path.name + side)).exists():
            shutil.copy2(part, copy.with_name(copy.name + side))
    Store.rewrite_checksums(path)
    return f"Checksums were rewritten. The file as it was is kept at {copy}; delete it when all is well."


def _checksums(work: Workplace) -> Check:
    # Without checksums the store works, so this is told but is no fault.
    said = "every page has its own" if work.store.checksummed else "this build of SQLite has none"
    return Check("checksums", True, said)


def _permissions(work: Workplace) -> Check:
    mode = stat.S_IMODE(work.store.path.stat().st_mode)
    if mode & 0o077:
        return Check("permissions", False, f"mode {mode:o}: others can read it. {MEND}")
    return Check("permissions", True, f"mode {mode:o}, readable by its owner only")


def _schema(db: apsw.Connection) -> Check:
    """Every table, index and trigger of this version is there."""
    missing = integrity.missing_parts(db)
    if not missing:
        return Check("schema", True, "every table, index and trigger is there")
    lost = [part.name for part in missing if not part.derived]
    end = RESTORE if lost else MEND
    return Check("schema", False, f"{_named([part.name for part in missing])} not there. {end}")


def _integrity(db: apsw.Connection) -> Check:
    faults = integrity.faults(db)
    return Check("integrity", not faults, f"{'; '.join(faults[:3])}. {RESTORE}" if faults else "sound")


def _references(db: apsw.Connection) -> Check:
    broken = integrity.broken_references(db)
    strays = checking.strays(db)
    if broken.keys() & _NEVER_DERIVED:
        where = _named(sorted(broken))
        return Check("references", False, f"{broken.total()} lead nowhere, in {where}. {MEND} {RESTORE}")
    if broken or strays:
        found = max(broken.total(), strays)
        return Check("references", False, f"{found} marks belong to nothing that is there. {MEND}")
    return Check("references", True, "every reference leads somewhere")


def _paths(db: apsw.Connection) -> Check:
    """Every row follows one that is there, and sizes and totals are what the rows hold."""
    if lost := checking.unrooted(db):
        return Check("paths", False, f"{_named(lost)} follow rows that are not there. {RESTORE}")
    wrong = [f"s{each.session}/e{each.seq}" for each in islice(checking.wrong_totals(db), 4)]
    if wrong:
        return Check("paths", False, f"totals do not add up at {_named(wrong)}. {MEND}")
    return Check("paths", True, "totals add up along every path")


def _numbers(db: apsw.Connection) -> Check:
    """Sessions end at a row that is there, and number what comes next beyond what there is."""
    wrong = [f"s{session}" for session, _ in islice(checking.wrong_numbers(db), 4)]
    if wrong:
        return Check("sessions", False, f"{_named(wrong)} end or number their rows wrongly. {MEND}")
    return Check("sessions", True, "each ends at a row that is there")


def _nodes(db: apsw.Connection, fault: Fault, sound: str) -> Check:
    found = [each for each in dag_checking.false_nodes(db) if each.fault == fault]
    return Check(fault, not found, f"{_named(found)}. {MEND}" if found else sound)


def _cuts(db: apsw.Connection) -> Check:
    found = dag_checking.false_cuts(db)
    said = f"{_named(found)} show what is not there. {MEND}" if found else "each shows what is there"
    return Check("cuts", not found, said)


def _leases(db: apsw.Connection) -> Check:
    """A dead process's lease is a fault until its time is over; then the next compaction takes it away."""
    dead, over = left_leases(db, now_ms())
    if dead:
        return Check("leases", False, f"{len(dead)} left by processes that are gone. {MEND}")
    return Check("leases", True, f"{len(over)} have run out" if over else "none is left behind")


def _payloads(db: apsw.Connection) -> Check:
    """What payloads and images take is told; texts that belong to nothing are a fault."""
    sizes = checking.sizes(db)
    said = (
        f"{sizes.payloads:,} payloads of {sizes.payload_bytes:,} bytes, the largest of "
        f"{sizes.largest_payload:,}; "
        f"{sizes.images:,} images of {sizes.image_bytes:,} bytes"
    )
    unheld = len(checking.unheld_texts(db))
    return Check(
        "payloads", not unheld, f"{unheld} texts belong to nothing. {MEND} {said}" if unheld else said
    )


def _contents(db: apsw.Connection) -> Check:
    """Every row and image is what was stored; tells what checksums cannot, once they were rewritten."""
    found = list(islice(store.altered(db), 4))
    if not found:
        return Check("contents", True, "every row and image is what was stored")
    more = " and more" if len(found) > 3 else ""
    return Check("contents", False, f"changed since it was stored: {', '.join(found[:3])}{more}. {RESTORE}")


def _coverage(db: apsw.Connection) -> Check:
    """Nodes cover what they say without overlap or hole; how much has no leaf yet is told."""
    bare = total = 0
    for session in sessions.every(db):
        path = RowPath(db, session.id, session.leaf)
        nodes = dag.frontier(db, session.id, path, session.leaf)
        end = Seq(0)
        for node in nodes:
            if path.before(node.first) != end:
                where = f"s{session.id}/#{node.id}"
                return Check("coverage", False, f"there is a hole before {where}. {MEND}")
            end = node.last
        total += sum(part.high - part.low + 1 for part in path.segments())
        bare += sum(part.high - part.low + 1 for part in path.between(Seq(end + 1), session.leaf))
    noun = "row" if total == 1 else "rows"
    return Check("coverage", True, f"{total - bare:,} of {total:,} {noun} on active paths summarized")


def index_faults(db: apsw.Connection) -> list[str]:
    """What is wrong with the search indexes, and with what is known of the meaning of texts."""
    return [
        *integrity.index_faults(db),
        *index.faults(db, MOST_INDEXED),
        *words.faults(db, MOST_INDEXED),
        *vectors.faults(db),
    ]


def _index(db: apsw.Connection) -> Check:
    """How far the search index is; what it lacks above its watermark is read by every search, so that is no
    fault."""
    found = index_faults(db)
    if found:
        return Check("index", False, f"{_named(found)}. {MEND}")
    left = max(index.unindexed(db), words.unindexed(db))
    return Check(
        "index", True, f"to be indexed yet: {count(left, 'text')}" if left else "every text is indexed"
    )


def _files(db: apsw.Connection) -> Check:
    """How many files there are, and how many large results that are none because their call named no path."""
    number, inline = files.counts(db, 1, MOST_SESSION)
    said = f"{count(number, 'file')} that tools read, {count(inline, 'large result')} without a path"
    said += " (large-inline)"
    left = files.behind(db)
    return Check(
        "files", True, f"{said}; {count(left, 'earlier text')} still to be explored" if left else said
    )


async def _followed(work: Workplace) -> Check:
    """Which followed files are gone, which loses nothing, and what is wrong with others."""
    try:
        state = await following_state(work)
    except StoreError as error:
        return Check("following", False, str(error))
    said = [f"{state.files} files are followed" if state.files != 1 else "1 file is followed"]
    if state.gone:
        said.append(f"{len(state.gone)} gone, with nothing lost: {_named(state.gone)}")
    if state.wrong:
        wrong = [f"{path.name}: {trouble}" for path, trouble in state.wrong]
        said.append(f"{len(wrong)} with trouble: {_named(wrong)}")
    return Check("following", not state.unreadable, "; ".join(said))


def _named(items: Sequence[object]) -> str:
    return ", ".join(map(str, items[:3])) + (" and more" if len(items) > 3 else "")


def _summarizers(db: apsw.Connection, work: Workplace) -> Check:
    """Whether the models of the chain can be asked, as far as that is known without asking."""
    unready = ((model.name, model.unready()) for model in work.models)
    faults = [f"{name}: {reason}." for name, reason in unready if reason is not None]
    faults += [breaker_line(breaker) for breaker in breakers_open(db, work.models)]
    if faults:
        return Check("summarizers", False, f"{' '.join(faults)} Others of the chain are asked meanwhile.")
    day = f"{spending.counted_on(db, today()):,} of {work.settings.summarizer_day_tokens:,}"
    return Check("summarizers", True, f"no breaker is open; {day} tokens of today's cap are used")


_READS: tuple[tuple[str, Callable[[apsw.Connection], Check]], ...] = (
    ("schema", _schema),
    ("integrity", _integrity),
    ("references", _references),
    ("contents", _contents),
    ("paths", _paths),
    ("sessions", _numbers),
    ("spans", partial(_nodes, fault="spans", sound="every node covers rows that are there")),
    ("shape", partial(_nodes, fault="shape", sound="every node stands on its children and has a text")),
    ("duplicates", partial(_nodes, fault="duplicates", sound="no span is covered twice")),
    ("cuts", _cuts),
    ("coverage", _coverage),
    ("leases", _leases),
    ("payloads", _payloads),
    ("index", _index),
    ("files", _files),
)


def _clients() -> Check:
    """Whether the commands exist that clients were told to start; who has no entry of ours is no fault."""
    having: list[str] = []
    missing: list[str] = []
    for client in clients.CLIENTS.values():
        try:
            entry = clients.entry_in(client, clients.place(client).file)
        except InstallRefused as error:
            having.append(f"{client.title} perhaps ({error})")
            continue
        if entry is None:
            continue
        command = str(entry.get("command"))
        if shutil.which(command):
            having.append(client.title)
        else:
            missing.append(
                f"{client.title} is to start {command}, which is not there: run lcm-mcp install {client.name}"
            )
    if missing:
        return Check("clients", False, "; ".join(missing))
    return Check("clients", True, f"with an entry: {', '.join(having)}" if having else "none has an entry")


class _RolledBack(Exception):
    """Ends the trial write; the transaction goes with it."""


async def _writes(work: Workplace) -> Check:
    def try_to_write(db: apsw.Connection) -> None:
        integrity.write_and_find(db)
        raise _RolledBack

    try:
        await work.store.write(try_to_write)
    except _RolledBack:
        return Check("writing", True, "a row was written, found and rolled back")
    except StoreError as error:
        return Check("writing", False, str(error))
    raise AssertionError("the trial write always ends by rolling back")
