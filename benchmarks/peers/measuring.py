"""A library's column: what it is asked, in which process, and what its answers are worth.

Every question has a store of its own, but for searches, which look in what bulk ingest left, and the
assembly of a request, which is asked of a new process on what the loop left. A cell that ran out of time
says how far it came.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.peers import planting
from benchmarks.peers.asking import Failed, Gone, Library, Missing, Process
from benchmarks.peers.cells import NONE, Cell, Row, shown
from benchmarks.peers.planting import COMMON, KINDS, Kind, Planted
from benchmarks.peers.speaking import Entry

WINDOW: Final = 200_000
BATCH_TURNS: Final = 100
COMMON_ROUNDS: Final = 5
ASSEMBLIES: Final = 5
RESUMED_TURNS: Final = 40
NEW_TURNS: Final = 2
REPEATS: Final = 20
ENDLESS_S: Final = 1e6
"""The budget of what is short and must be whole."""
PROBES: Final = 50
"""Texts of real conversations that are searched for."""

INGEST: Final = Row("bulk ingest, searchable", "messages/s", "more")
SIZE: Final = Row("database / text", "", "less")
SEARCHES: Final[dict[Kind, Row]] = {kind: Row(f"search: {kind}", "ms", "less") for kind in KINDS}
COMMON_WORD: Final = Row("search: a common word", "ms", "less")
LOOP: Final = Row("turn by turn with compaction", "messages/s", "more")
REQUESTS: Final = Row("its requests: most tokens, broken pairs")
ASSEMBLY: Final = Row("a request after a restart", "ms", "less")
ASSEMBLED: Final = Row("that request: tokens, broken pairs")
PEAK: Final = Row("peak memory of that", "MB", "less")
KEPT: Final = Row("kept of the loop's rows")
RESTART: Final = Row("history fed again after a restart: rows twice, lost")
REPEATED: Final = Row("kept of messages that repeat")
ODD: Final = Row("kept of odd input; of what comes after it")
REAL_LOOP: Final = Row("real conversations, turn by turn", "messages/s", "more")
REAL_REQUESTS: Final = Row("their requests: most tokens, broken pairs")
REAL_KEPT: Final = Row("kept of their rows")
REAL_FOUND: Final = Row("search: texts copied from them", "ms", "less")
ROWS: Final = (
    INGEST,
    SIZE,
    *SEARCHES.values(),
    COMMON_WORD,
    LOOP,
    REQUESTS,
    KEPT,
    ASSEMBLY,
    ASSEMBLED,
    PEAK,
    RESTART,
    REPEATED,
    ODD,
    REAL_LOOP,
    REAL_REQUESTS,
    REAL_KEPT,
    REAL_FOUND,
)

Turns = Sequence[Sequence[Entry]]
_APART: Final = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is asked: the turns and their needles, real conversations, and seconds for each long cell."""

    turns: Turns
    needles: Sequence[Planted]
    real: Sequence[Turns]
    budget: float


def column(library: Library, plan: Plan, folder: Path) -> dict[str, Cell]:
    """All cells of a library. One that raises or hangs in a question has that said in its cells."""
    cells: dict[str, Cell] = {}
    questions: tuple[tuple[Callable[[Library, Plan, Path], Iterator[tuple[Row, Cell]]], Row], ...] = (
        (_bulk, INGEST),
        (_loop, LOOP),
        (_restart, RESTART),
        (_repeats, REPEATED),
        (_odd, ODD),
        (_real, REAL_LOOP),
    )
    for question, row in questions:
        try:
            for answered, cell in question(library, plan, folder / question.__name__):
                cells[answered.name] = cell
        except Gone:
            cells.setdefault(row.name, Cell("no answer in time"))
        except Failed as error:
            cells.setdefault(row.name, Cell(f"failed: {error}"))
    return cells


def _bulk(library: Library, plan: Plan, folder: Path) -> Iterator[tuple[Row, Cell]]:
    seconds, fed = 0.0, 0
    with library.opened(folder, WINDOW) as process:
        while fed < len(plan.turns) and seconds <= plan.budget:
            batch = plan.turns[fed : fed + BATCH_TURNS]
            entries = [entry for turn in batch for entry in turn]
            seconds += process.ask("store", entries=entries)["seconds"]
            fed += len(batch)
    stored = [entry for turn in plan.turns[:fed] for entry in turn]
    rate = len(stored) / seconds
    yield INGEST, Cell(shown(rate) + _cut(fed, plan.turns, len(stored)), rate)
    size = sum(file.stat().st_size for file in folder.glob("memory*"))
    times = size / sum(len(piece.encode()) for entry in stored for piece in planting.pieces(entry))
    yield SIZE, Cell(shown(times), times)
    with library.opened(folder, WINDOW) as process:
        for kind, row in SEARCHES.items():
            texts = [needle.text for needle in plan.needles if needle.kind == kind and needle.turn < fed]
            yield row, _found(process, texts)
        yield COMMON_WORD, _found(process, [COMMON] * COMMON_ROUNDS, counted=False)


def _found(process: Process, texts: Sequence[str], *, counted: bool = True) -> Cell:
    """The median time of a search, how many found a row that holds the text, and how many showed it."""
    times: list[float] = []
    found = showed = 0
    for text in texts:
        try:
            told = process.ask("find", text=text)
        except Missing:
            return NONE
        times.append(told["seconds"] * 1000)
        wanted = _bare(text)
        holding = [snippet for row, snippet in told["hits"] if _holds(row, text)]
        found += bool(holding)
        showed += any(wanted in _bare(snippet) for snippet in holding)
    if not times:
        return Cell("nothing to look for")
    ms = median(times)
    if not counted:
        return Cell(shown(ms), ms)
    said = f"{shown(ms)}; {found} of {len(texts)} found"
    return Cell(said if showed == found else f"{said}, {showed} shown", ms, comparable=2 * found > len(texts))


def _holds(row: str, text: str) -> bool:
    """Whether a row says the text, arguments as they were before they were JSON."""
    read = row.replace('\\"', '"').replace("\\\\", "\\")
    return any(text.casefold() in each.casefold() for each in (row, read))


def _loop(library: Library, plan: Plan, folder: Path) -> Iterator[tuple[Row, Cell]]:
    with library.opened(folder, WINDOW) as process:
        told = process.ask("turns", wait=10 * plan.budget + 60, turns=plan.turns, budget=plan.budget)
        entries = [entry for turn in plan.turns[: told["done"]] for entry in turn]
        rate = len(entries) / told["seconds"]
        yield LOOP, Cell(shown(rate) + _cut(told["done"], plan.turns, len(entries)) + _errors(told), rate)
        yield REQUESTS, _shape(told)
        yield KEPT, _kept(process, entries)
    with library.opened(folder, WINDOW) as process:
        asked = [process.ask("request") for _ in range(ASSEMBLIES)]
    ms = median(each["seconds"] for each in asked) * 1000
    yield ASSEMBLY, Cell(f"{shown(ms)} at {len(entries):,} rows", ms)
    yield ASSEMBLED, _shape(asked[-1])
    if (peak := asked[0]["peak_mb"]) is not None:
        before = asked[0]["before_mb"]
        yield PEAK, Cell(f"{shown(peak)}, {shown(before)} of it before", peak)


def _restart(library: Library, plan: Plan, folder: Path) -> Iterator[tuple[Row, Cell]]:
    """A host that feeds all it had again, then one that has the last part of it only; both with new turns."""
    turns = planting.marked(RESUMED_TURNS + NEW_TURNS)
    fed, new = turns[:RESUMED_TURNS], [entry for turn in turns[RESUMED_TURNS:] for entry in turn]
    twice = lost = 0
    for start in (0, 3 * RESUMED_TURNS // 4):
        with library.opened(folder / str(start), WINDOW) as process:
            process.ask("turns", turns=fed, budget=ENDLESS_S)
        with library.opened(folder / str(start), WINDOW) as process:
            process.ask("resume", history=[entry for turn in fed[start:] for entry in turn], new=new)
            times = _marks(process)
        wanted = [f"{letter}{number}" for number in range(len(turns)) for letter in "abcd"]
        twice += sum(max(0, times[mark] - 1) for mark in wanted)
        lost += sum(times[mark] == 0 for mark in wanted)
    yield RESTART, Cell(f"{twice}, {lost} of {2 * 4 * len(turns)}")


def _repeats(library: Library, plan: Plan, folder: Path) -> Iterator[tuple[Row, Cell]]:
    turns = planting.repeated(REPEATS)
    with library.opened(folder, WINDOW) as process:
        process.ask("turns", turns=turns, budget=ENDLESS_S)
        yield REPEATED, _kept(process, [entry for turn in turns for entry in turn])


def _odd(library: Library, plan: Plan, folder: Path) -> Iterator[tuple[Row, Cell]]:
    """Turns before and after each odd row; what says nothing can only hurt what comes after it."""
    before, *after = planting.marked(4)
    letters = [f"{letter}{place}" for place in range(1, 4) for letter in "abcd"]
    kept = markable = later = wanted = 0
    trouble: list[str] = []
    for number, (name, entry) in enumerate(planting.odd().items()):
        markable += "odd" in str(entry["content"])
        wanted += len(letters)
        try:
            with library.opened(folder / str(number), WINDOW) as process:
                told = process.ask("turns", turns=[before, [entry], *after], budget=ENDLESS_S)
                times = _marks(process)
        except (Failed, Gone):
            trouble.append(name)
            continue
        kept += times["odd"] > 0
        later += sum(times[mark] > 0 for mark in letters)
        trouble += [name] if told["errors"] else []
    said = f"{kept} of {markable}; {later} of {wanted}"
    yield ODD, Cell(said + (f"; raises at {', '.join(trouble)}" if trouble else ""))


def _real(library: Library, plan: Plan, folder: Path) -> Iterator[tuple[Row, Cell]]:
    seconds, fed, done, all_turns = 0.0, 0, 0, 0
    kept = looked = 0
    most = {"tokens": 0, "broken": 0}
    errors: list[str] = []
    found: list[Cell] = []
    for number, turns in enumerate(plan.real):
        all_turns += len(turns)
        share = plan.budget / len(plan.real)
        with library.opened(folder / str(number), WINDOW) as process:
            told = process.ask("turns", wait=10 * share + 60, turns=turns, budget=share)
            entries = [entry for turn in turns[: told["done"]] for entry in turn]
            seconds, fed, done = seconds + told["seconds"], fed + len(entries), done + told["done"]
            errors += told["errors"]
            most = {key: max(most[key], told[key]) for key in most}
            held, extra = _counted(process, entries)
            kept, looked = kept + held, looked + extra
            found.append(_found(process, _copied(entries, PROBES // len(plan.real))))
    rate = fed / seconds
    cut = "" if done == all_turns else f" (cut by time at {fed:,} rows)"
    yield REAL_LOOP, Cell(shown(rate) + cut + _errors({"errors": errors}), rate)
    yield REAL_REQUESTS, _shape(most)
    yield REAL_KEPT, Cell(_said(kept, fed, looked))
    yield REAL_FOUND, _together(found)


def _copied(entries: Sequence[Entry], count: int) -> list[str]:
    """Lines out of rows that are spread evenly, as somebody would copy them."""
    lines = [
        line
        for entry in entries
        for piece in planting.told(entry)
        for line in [max((line.strip() for line in piece.splitlines()), key=len, default="")[:60].strip()]
        if len(line) >= 12 and line.isprintable()
    ]
    return [lines[(2 * place + 1) * len(lines) // (2 * count)] for place in range(min(count, len(lines)))]


def _together(cells: Sequence[Cell]) -> Cell:
    figures = [cell for cell in cells if cell.value is not None]
    if not figures:
        return NONE
    counts = [tuple(map(int, re.findall(r"(\d+) of (\d+)", cell.text)[0])) for cell in figures]
    ms = median(cell.value for cell in figures if cell.value is not None)
    found, asked = sum(count for count, _ in counts), sum(count for _, count in counts)
    return Cell(f"{shown(ms)}; {found} of {asked} found", ms, comparable=2 * found > asked)


def _marks(process: Process) -> Counter[str]:
    return Counter(mark for text in process.ask("stored")["texts"] for mark in re.findall(r"«(\w+)»", text))


def _kept(process: Process, entries: Sequence[Entry]) -> Cell:
    kept, extra = _counted(process, entries)
    return Cell(_said(kept, len(entries), extra))


def _said(kept: int, fed: int, extra: int) -> str:
    return f"{kept:,} of {fed:,}" + (f", and {extra:,} texts nobody said" if extra else "")


def _counted(process: Process, entries: Sequence[Entry]) -> tuple[int, int]:
    """Rows all of whose texts, results and arguments are stored as often as they were fed, and stored texts
    that were never fed."""
    stored = Counter(_bare(text) for text in process.ask("stored")["texts"])
    stored.pop("", None)
    kept = 0
    for entry in entries:
        wanted = Counter(bare for piece in planting.pieces(entry) if (bare := _bare(piece)))
        if all(stored[bare] >= count for bare, count in wanted.items()):
            stored -= wanted
            kept += 1
    said = {_bare(piece) for entry in entries for piece in planting.pieces(entry)}
    return kept, sum(count for bare, count in stored.items() if bare not in said)


def _bare(text: str) -> str:
    """Letters and digits alone: how a library writes what stands between them is its own affair."""
    return _APART.sub("", re.sub(r"\\[ntr\"\\/]", "", text)).casefold()


def _shape(told: dict[str, Any]) -> Cell:
    return Cell(f"{told['tokens']:,} of {WINDOW:,}, {told['broken']} broken")


def _cut(done: int, turns: Turns, rows: int) -> str:
    return "" if done == len(turns) else f" (cut by time at {rows:,} rows)"


def _errors(told: dict[str, Any]) -> str:
    errors: Sequence[str] = told["errors"]
    return f"; {len(errors)} turns failed ({errors[0][:80]})" if errors else ""
