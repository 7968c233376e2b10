"""Forks in agents' files: linked to the session they start from, at the last row that they replay of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from stores import serving

from lcm_mcp.service import Service
from lcm_mcp.service.answers import SessionLine

OLD = "019fbcd0-1111-7000-8000-000000000001"
NEW = "019fbcd0-2222-7000-8000-000000000002"


def codex(path: Path, *lines: dict[str, Any]) -> Path:
    told = ({"timestamp": f"2026-01-01T00:00:{n:02}Z", **line} for n, line in enumerate(lines))
    path.write_text("".join(json.dumps(line) + "\n" for line in told))
    return path


def meta(id: str, **more: object) -> dict[str, Any]:
    return {"type": "session_meta", "payload": {"id": id, "cwd": "/p", **more}}


def said(role: str, text: str) -> dict[str, Any]:
    kind = "input_text" if role == "user" else "output_text"
    item = {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}
    return {"type": "response_item", "payload": item}


REPLAY = [said("user", "one"), said("assistant", "1"), said("user", "two"), said("assistant", "2")]


def claude(path: Path, session: str, *texts: str, forked: int = 0) -> Path:
    """A file whose first rows were forked from the session main."""
    lines = [
        {
            "type": ("user", "assistant")[n % 2],
            "uuid": f"{'m' if n < forked or session == 'main' else session}{n}",
            "sessionId": session,
            "message": {"role": ("user", "assistant")[n % 2], "content": text},
            **({"forkedFrom": {"sessionId": "main", "messageUuid": f"m{n}"}} if n < forked else {}),
        }
        for n, text in enumerate(texts)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


async def line_of(service: Service, key: str) -> SessionLine:
    return next(each for each in (await service.sessions(project="*")).sessions if each.key == key)


async def linked(service: Service, key: str) -> tuple[str | None, str | None, str | None]:
    found = await line_of(service, key)
    return found.link, found.parent, found.opener


async def test_a_fork_of_codex_starts_from_the_last_row_that_it_replays(tmp_path: Path) -> None:
    old = codex(tmp_path / "a.jsonl", meta(OLD), *REPLAY, said("user", "three"))
    new = codex(tmp_path / "b.jsonl", meta(NEW, forked_from_id=OLD), meta(OLD), *REPLAY, said("user", "mine"))
    async with serving(tmp_path / "lcm.sqlite") as service:
        for path in (old, new):
            await service.import_file(path, fold=False)
        assert await linked(service, NEW) == ("fork", OLD, "e4")
        assert (await line_of(service, NEW)).rows == 5
        row = (await service.describe("e4", OLD)).row
        assert row is not None
        assert (row.child_sessions, row.child_count) == ((NEW,), 1)
        assert (await service.doctor()).healthy
        again = await service.import_file(new, fold=False)
        assert again.sessions[0].rows_added == 0
        assert await linked(service, NEW) == ("fork", OLD, "e4")


async def test_a_fork_of_claude_code_does_too_wherever_a_batch_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lcm_mcp.transcript import batches

    monkeypatch.setattr(batches, "WHOLE", batches.Most(2, batches.WHOLE.bytes))
    main = claude(tmp_path / "main.jsonl", "main", "one", "1", "two", "2")
    fork = claude(tmp_path / "fork.jsonl", "fork", "one", "1", "two", "other", forked=3)
    async with serving(tmp_path / "lcm.sqlite") as service:
        for path in (main, fork):
            await service.import_file(path, fold=False)
        assert await linked(service, "fork") == ("fork", "main", "e3")
        tree = await service.tree("main")
        assert [(each.link, each.session, each.opener) for each in tree.begun] == [("fork", "fork", "e3")]


async def test_a_fork_that_is_followed_knows_where_it_leaves_once_it_does(tmp_path: Path) -> None:
    main = claude(tmp_path / "main.jsonl", "main", "one", "1", "two", "2")
    fork = claude(tmp_path / "fork.jsonl", "fork", "one", "1", forked=2)
    async with serving(tmp_path / "lcm.sqlite") as service:
        for path in (main, fork):
            await service.import_file(path, fold=False)
        assert await linked(service, "fork") == ("fork", "main", None)
        claude(fork, "fork", "one", "1", "mine", "4", forked=2)
        await service.expand("e1", "fork")
        assert await linked(service, "fork") == ("fork", "main", "e2")
        assert (await line_of(service, "fork")).rows == 4


async def test_a_parent_that_is_not_there_is_not_made_up_and_linked_when_it_comes(tmp_path: Path) -> None:
    main = claude(tmp_path / "main.jsonl", "main", "one", "1")
    fork = claude(tmp_path / "fork.jsonl", "fork", "one", "other", forked=1)
    async with serving(tmp_path / "lcm.sqlite") as service:
        await service.import_file(fork, fold=False)
        assert [each.key for each in (await service.sessions(project="*")).sessions] == ["fork"]
        await service.import_file(main, fold=False)
        await service.import_file(fork, fold=False)
        assert await linked(service, "fork") == ("fork", "main", "e1")


async def test_a_fork_that_says_nothing_of_its_parents_starts_at_no_row(tmp_path: Path) -> None:
    main = claude(tmp_path / "main.jsonl", "main", "one", "1")
    fork = claude(tmp_path / "fork.jsonl", "fork", "else", "other", forked=1)
    async with serving(tmp_path / "lcm.sqlite") as service:
        for path in (main, fork):
            await service.import_file(path, fold=False)
        assert await linked(service, "fork") == ("fork", "main", None)
