"""Pi's session files are read as the trees that they are."""

from __future__ import annotations

from pathlib import Path

import pytest
from imported import entries, events_of, report_of, sessions, shared_file, told, write
from stores import serving

from lcm_mcp.transcript.importers import detect
from lcm_mcp.transcript.model import BEGINNING, Text, ToolCall, ToolResult

NAMES = (
    *("branching", "compaction", "compaction_missing", "fields", "full_format", "images-glued-line-v1"),
    *("multi_compaction", "real_world", "two-compactions-v1", "v1_legacy"),
)


def header(name: str = "s", **more: object) -> dict[str, object]:
    return {"type": "session", "id": name, "timestamp": "2026-01-01T00:00:00Z", "cwd": "/p", **more}


def message(name: str, under: str | None, role: str, content: object, **more: object) -> dict[str, object]:
    body = {"role": role, "content": content, **more}
    return {"type": "message", "id": name, "parentId": under, "message": body}


@pytest.mark.parametrize("name", NAMES)
def test_every_session_file_is_known_by_its_content_and_wholly_understood(name: str) -> None:
    path = shared_file(f"pi/{name}.jsonl")
    assert detect(path) == "pi"
    assert report_of("pi", path).bad_lines == 0


def test_figures_are_those_of_an_independent_count() -> None:
    long = report_of("pi", shared_file("pi/two-compactions-v1.jsonl"))
    assert (long.objects, long.compact_summaries, long.unanswered) == (1003, 2, 6)
    assert long.user + long.assistant + long.tool - long.compact_summaries == 990
    glued = report_of("pi", shared_file("pi/images-glued-line-v1.jsonl"))
    assert (glued.objects, glued.lines, glued.glued, glued.images) == (1014, 1013, 1, 3)


def test_each_line_without_an_id_has_one_of_its_own() -> None:
    for name in ("two-compactions-v1", "images-glued-line-v1"):
        found = entries(events_of("pi", shared_file(f"pi/{name}.jsonl")))
        assert len({entry.draft.entry_id for entry in found}) == len(found)


def test_every_kind_of_message_is_kept_in_the_context_or_out_of_it() -> None:
    found = entries(events_of("pi", shared_file("pi/full_format.jsonl")))
    rows = {entry.draft.entry_id: entry.draft for entry in found}
    assert rows["a1"].parts[2] == ToolCall("call-1", "bash", {"command": "ls"})
    assert rows["tr1"].parts == (ToolResult("call-1", (Text("file1\nfile2"),), extra={"name": "bash"}),)
    assert rows["cm1"].parts == (Text("Injected context from extension"),)
    assert [name for name, draft in rows.items() if not draft.active] == ["cs1", "cp1"]
    assert rows["brs1"].parent == "a2"
    assert rows["u2"].parent is None  # its compaction hangs under the row before


def test_lines_that_are_not_stored_lead_on_to_the_row_above_them(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.jsonl",
        header(version=3),
        message("u1", None, "user", "one"),
        {"type": "label", "id": "l1", "parentId": "u1"},
        message("a1", "l1", "assistant", [{"type": "text", "text": "1"}]),
        {"type": "custom", "id": "x1", "parentId": "u1"},
        message("a2", "x1", "assistant", "2"),
        message("u0", None, "user", "anew"),
        message("b", "a2", "bashExecution", None, command="ls", output="x", excludeFromContext=True),
    )
    drafts = [entry.draft for entry in entries(events_of("pi", path))]
    assert [draft.parent for draft in drafts] == [None, None, "u1", BEGINNING, "a2"]
    assert (drafts[4].active, drafts[4].parts) == (False, (Text("$ ls\nx"),))


def test_the_title_is_the_name_that_was_given_else_what_was_first_said(tmp_path: Path) -> None:
    said = message("u1", None, "user", [{"type": "text", "text": "please mend"}])
    path = write(tmp_path / "a.jsonl", header(), said)
    assert sessions(events_of("pi", path))[0].title == "please mend"
    path = write(tmp_path / "b.jsonl", header(), said, {"type": "session_info", "name": "Mending"})
    assert sessions(events_of("pi", path))[0].title == "Mending"


async def test_the_branch_written_last_is_the_path_and_the_other_one_stays(tmp_path: Path) -> None:
    path = shared_file("pi/branching.jsonl")
    async with serving(tmp_path / "lcm.sqlite") as service:
        for added in (5, 0):
            outcome = await service.import_file(path, fold=False)
            assert outcome.report.rows_added == added
        tree = await service.tree("branch-uuid")
    assert [branch.rows for branch in tree.branches] == [4, 1]


def test_an_odd_line_is_kept_as_it_is(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.jsonl", header(), message("u1", None, "oracle", "?"), {"type": "message", "message": 5}
    )
    assert [role for role, _ in told(events_of("pi", path))] == ["user", "user"]
    assert report_of("pi", path).opaque == 2
