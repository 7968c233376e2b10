"""A search of a project, of the store or of a session finds what Python finds in these very rows.

Sessions of several projects and of none, forks, rewinds, an index that is fed in part: whatever way the rows
are got, the hits are the same, in the same order, on pages of any size.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any, Literal, NamedTuple

import anyio
import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from past import on_path
from stores import serving

from lcm_mcp.search import index, scope, streams
from lcm_mcp.service import Service
from lcm_mcp.service.requests import GrepQuery

PROJECTS = (None, "there", "here", "here", "elsewhere")
"""Of the first sessions; forks have those of their parents. `here` is the folder of who asks."""
ROLES: tuple[Literal["user", "assistant"], ...] = ("user", "assistant")
TEXT = st.text(st.sampled_from("aAbß 漢é"), min_size=1, max_size=12).filter(lambda text: bool(text.strip()))
DEED = st.one_of(
    st.tuples(st.just("say"), st.integers(0, 9), st.lists(TEXT, min_size=1, max_size=4)),
    st.tuples(st.just("fork"), st.integers(0, 9), st.integers(1, 6)),
    st.tuples(st.just("rewind"), st.integers(0, 9), st.integers(1, 6)),
    st.tuples(st.just("feed"), st.integers(4, 60), st.none()),
)
ASKED = st.fixed_dictionaries(
    {
        "pattern": st.text(st.sampled_from("aAbß 漢é"), min_size=1, max_size=4),
        "mode": st.sampled_from(["literal", "words"]),
        "role": st.sampled_from([None, "user", "assistant"]),
        "include_removed": st.booleans(),
        "order": st.sampled_from(["newest", "oldest"]),
        "limit": st.integers(1, 5),
    }
)
WAYS = st.fixed_dictionaries(
    {
        "SPARSE": st.sampled_from([0, 2, 10**9]),
        "SMALL_ROWS": st.sampled_from([-1, 3, 10**6]),
        "HEAD_ROWS": st.sampled_from([0, 2, 48]),
        "WORTHWHILE": st.sampled_from([1, 8]),
    }
)


class Row(NamedTuple):
    text: int
    session: int
    key: str
    project: str | None
    seq: int
    role: str
    removed: bool
    body: str


async def live(service: Service, folder: Path, deeds: list[tuple[str, int, Any]]) -> None:
    """A history of the sessions; what cannot be done yet is left out."""
    keys = [f"k{number}" for number in range(len(PROJECTS))]
    places = {"here": str(folder), None: "nowhere"}
    for key, project in zip(keys, PROJECTS, strict=True):
        await service.append(key, [entry("a first row", 0)], project=places.get(project, project))
    await service.work.store.write(
        lambda db: db.execute("UPDATE session SET project = NULL WHERE project = 'nowhere'")
    )
    for number, (kind, which, what) in enumerate(deeds):
        key = keys[which % len(keys)]
        path = await service.work.store.read(on_path, key)
        match kind:
            case "say":
                await service.append(key, [entry(text, place) for place, text in enumerate(what)])
            case "fork":
                keys.append(f"f{number}")
                await service.fork(key, f"e{path[what % len(path)]}", keys[-1])
            case "rewind":
                await service.rewind(f"e{path[what % len(path)]}", key)
            case _:
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(index, "SLICE_BYTES", which)
                    await service.work.store.write_derived(index.feed)


def entry(text: str, place: int) -> dict[str, str]:
    return {"role": ROLES[place % 2], "content": text}


def every_row(db: apsw.Connection) -> list[Row]:
    paths = {key: set(on_path(db, key)) for (key,) in list(db.execute("SELECT key FROM session"))}
    found = db.execute(
        """SELECT text.id, session.id, key, project, seq, role, body FROM row
            JOIN session ON session.id = row.session JOIN text ON text.id = row.text"""
    )
    return [
        Row(text, session, key, project, seq, role, seq not in paths[key], body)
        for text, session, key, project, seq, role, body in found
    ]


def expected(rows: list[Row], asked: dict[str, Any]) -> list[str]:
    """What is to be found among the rows in scope; of a text that several hold, the first that counts."""
    pattern = str(asked["pattern"]).casefold()
    pieces = (pattern.split() or [pattern]) if asked["mode"] == "words" else [pattern]
    best: dict[int, Row] = {}
    for row in sorted(rows, key=lambda row: (row.removed, row.session)):
        wanted = asked["role"] in (None, row.role) and (asked["include_removed"] or not row.removed)
        if wanted and all(piece in row.body.casefold() for piece in pieces):
            best.setdefault(row.text, row)
    order = sorted(best, reverse=asked["order"] == "newest")
    return [f"{best[text].key} e{best[text].seq} {best[text].removed}" for text in order]


async def found(service: Service, session: str | None, asked: dict[str, Any]) -> list[str]:
    """Every page of it."""
    hits: list[str] = []
    cursor: str | None = None
    for _ in count():
        query = GrepQuery(**asked, scope="rows", session=session, cursor=cursor)
        page = await service.grep(query)
        hits += [f"{hit.session} e{hit.ref.rpartition('e')[2]} {hit.removed}" for hit in page.hits]
        cursor = page.next_cursor
        if cursor is None:
            return hits
    raise AssertionError("no end")


@settings(max_examples=60, deadline=None)
@given(st.lists(DEED, max_size=16), st.lists(ASKED, min_size=1, max_size=4), WAYS)
def test_every_scope_finds_what_python_finds_in_its_rows(
    tmp_path_factory: pytest.TempPathFactory,
    deeds: list[tuple[str, int, Any]],
    queries: list[dict[str, Any]],
    ways: dict[str, int],
) -> None:
    folder = tmp_path_factory.mktemp("law")

    async def law() -> None:
        async with serving(folder / "s") as service:
            await live(service, folder, deeds)
            rows = await service.work.store.read(every_row)
            for asked in queries:
                for session in ("*", None, "k2", *{row.key for row in rows if row.key.startswith("f")}):
                    inside = [
                        row
                        for row in rows
                        if session in ("*", row.key) or (session is None and row.project == str(folder))
                    ]
                    assert await found(service, session, asked) == expected(inside, asked), session

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, value in ways.items():
            patch.setattr(scope if name == "SPARSE" else streams, name, value)
        anyio.run(law)
