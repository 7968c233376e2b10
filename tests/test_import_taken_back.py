"""What an agent took back at the end of a file leaves the path, and comes back under nothing that follows."""

from __future__ import annotations

from pathlib import Path

import pytest
from imported import write
from stores import serving

from lcm_mcp.service import Service

HEADER = {"sessionId": "s", "projectHash": "h"}


def codex(kind: str, **payload: object) -> dict[str, object]:
    return {"timestamp": "2026-01-01T00:00:00Z", "type": kind, "payload": payload}


def codex_said(role: str, text: str) -> dict[str, object]:
    return codex("response_item", type="message", role=role, content=[{"type": "input_text", "text": text}])


def gemini_said(name: str, kind: str) -> dict[str, object]:
    return {"id": name, "type": kind, "content": name, "timestamp": "2026-01-01T00:00:00Z"}


FILES: dict[str, tuple[list[object], list[object]]] = {
    "codex": (
        [
            codex("session_meta", id="s", cwd="/p"),
            codex_said("user", "u1"),
            codex_said("assistant", "m1"),
            codex_said("user", "u2"),
            codex_said("assistant", "m2"),
            codex("event_msg", type="thread_rolled_back", num_turns=1),
        ],
        [codex_said("user", "u3"), codex_said("assistant", "m3")],
    ),
    "gemini": (
        [
            HEADER,
            gemini_said("u1", "user"),
            gemini_said("m1", "gemini"),
            gemini_said("u2", "user"),
            gemini_said("m2", "gemini"),
            {"$rewindTo": "u2"},
        ],
        [gemini_said("u3", "user"), gemini_said("m3", "gemini")],
    ),
}


async def branches(service: Service) -> list[int]:
    return [branch.rows for branch in (await service.tree("s")).branches]


@pytest.mark.parametrize("follow", [True, False])
@pytest.mark.parametrize("name", FILES)
async def test_a_path_ends_before_what_was_taken_back(name: str, follow: bool, tmp_path: Path) -> None:
    first, then = FILES[name]
    path = tmp_path / "a.jsonl"
    async with serving(tmp_path / "lcm.sqlite") as service:
        for lines, wanted in (
            (first[:-1], [4]),
            (first, [2, 2]),
            (first, [2, 2]),
            ([*first, *then], [4, 2]),
            ([*first, *then], [4, 2]),
        ):
            await service.import_file(write(path, *lines), name, fold=False, follow=follow)
            assert await branches(service) == wanted


@pytest.mark.parametrize("name", FILES)
async def test_a_read_takes_in_that_something_was_taken_back(name: str, tmp_path: Path) -> None:
    first, then = FILES[name]
    path = tmp_path / "a.jsonl"
    async with serving(tmp_path / "lcm.sqlite") as service:
        await service.import_file(write(path, *first[:-1]), name, fold=False)
        for lines, wanted in ((first, [2, 2]), ([*first, *then], [4, 2])):
            write(path, *lines)
            await service.sessions(project="*")
            assert await branches(service) == wanted


async def test_a_rollout_that_was_rewritten_keeps_its_branches(tmp_path: Path) -> None:
    first, then = FILES["codex"]
    path = tmp_path / "a.jsonl"
    async with serving(tmp_path / "lcm.sqlite") as service:
        await service.import_file(write(path, *first), "codex", fold=False)
        other = codex_said("user", "u0")
        await service.import_file(write(path, first[0], other, *first[1:], *then), "codex", fold=False)
        tree = await service.tree("s")
    assert [(branch.rows, branch.after) for branch in tree.branches][1:] == [(2, "e2"), (1, "e2")]
