"""Transcript files are read whole, in order, whatever is wrong with them."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from lcm_mcp.errors import ImportRefused
from lcm_mcp.transcript.importers import (
    FORMATS,
    Entry,
    Event,
    ImportReport,
    Other,
    SessionFound,
    Trouble,
    claude_code,
    detect,
    tally,
)
from lcm_mcp.transcript.importers.jsonl import Object, read_objects
from lcm_mcp.transcript.model import Opaque, Text

SMALL = Path(__file__).parent / "data" / "claude-code"
LARGE = Path(__file__).resolve().parents[2] / "shared" / "data" / "claude-code"


class Figures(NamedTuple):
    """What an independent parser counted, file by file.

    bad includes the line of two glued objects, which that parser passed over: its two objects (an
    assistant message and another) are added here.
    """

    lines: int
    user: int
    assistant: int
    other: int
    tool_calls: int
    tool_results: int
    unanswered: int
    orphans: int
    reasoning: int
    images: int
    sidechain: int
    compact_summaries: int
    bad: int


COUNTED = {
    "ansi-escapes.jsonl": Figures(460, 180, 278, 2, 152, 152, 0, 0, 0, 0, 0, 0, 0),
    "compact-and-microcompact.jsonl": Figures(236, 70, 127, 39, 60, 60, 0, 0, 49, 0, 0, 1, 0),
    "fork-heavy-dangling-parents.jsonl": Figures(1309, 264, 439, 606, 208, 207, 1, 0, 128, 0, 0, 2, 0),
    "glued-objects.jsonl": Figures(170, 47, 104, 20, 41, 41, 0, 0, 42, 0, 0, 0, 1),
    "image-twice-961kb-line.jsonl": Figures(362, 60, 111, 191, 58, 58, 0, 0, 20, 1, 0, 0, 0),
    "inline-sidechains.jsonl": Figures(1164, 421, 742, 1, 388, 388, 0, 0, 143, 0, 233, 2, 0),
    "interrupted.jsonl": Figures(5, 3, 2, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0),
    "late-timestamps.jsonl": Figures(1179, 189, 313, 677, 160, 159, 1, 0, 26, 0, 0, 1, 0),
    "no-messages.jsonl": Figures(23, 0, 0, 23, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    "not-jsonl-at-all.jsonl": Figures(1146, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1146),
    "orphans-both-ways.jsonl": Figures(272, 51, 91, 130, 38, 38, 1, 1, 25, 0, 0, 0, 0),
    "planted-bad-lines.jsonl": Figures(19, 10, 4, 2, 3, 1, 2, 0, 0, 0, 0, 0, 3),
    "resumed.jsonl": Figures(5, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    "series-growing/1.jsonl": Figures(45, 9, 22, 14, 7, 7, 0, 0, 8, 0, 0, 0, 0),
    "series-growing/2.jsonl": Figures(89, 14, 34, 41, 11, 11, 0, 0, 13, 0, 0, 0, 0),
    "series-growing/3.jsonl": Figures(113, 19, 46, 48, 15, 15, 0, 0, 18, 0, 0, 0, 0),
    "series-growing/4.jsonl": Figures(147, 27, 63, 57, 22, 22, 0, 0, 25, 0, 0, 0, 0),
    "series-growing/5.jsonl": Figures(181, 34, 79, 68, 28, 28, 0, 0, 32, 0, 0, 0, 0),
    "series-same-uuid-changed-text/1.jsonl": Figures(802, 179, 370, 253, 168, 168, 0, 0, 173, 0, 0, 1, 0),
    "series-same-uuid-changed-text/2.jsonl": Figures(808, 182, 370, 256, 168, 168, 0, 0, 173, 0, 0, 1, 0),
    "series-slices/4.jsonl": Figures(38, 7, 11, 20, 7, 7, 1, 1, 0, 0, 0, 0, 0),
    "series-slices/5.jsonl": Figures(160, 48, 85, 27, 46, 47, 0, 1, 0, 0, 0, 1, 0),
    "series-slices/6.jsonl": Figures(111, 27, 70, 14, 26, 26, 0, 0, 27, 0, 0, 0, 0),
    "series-slices/7.jsonl": Figures(27, 6, 12, 9, 4, 4, 0, 0, 6, 0, 0, 0, 0),
    "series-stale-shorter/3.jsonl": Figures(1028, 244, 464, 320, 220, 220, 0, 0, 165, 0, 0, 2, 0),
    "series-stale-shorter/4.jsonl": Figures(81, 18, 36, 27, 15, 15, 0, 0, 11, 0, 0, 0, 0),
    "series-stale-shorter/5.jsonl": Figures(401, 102, 186, 113, 92, 92, 0, 0, 67, 0, 0, 1, 0),
    "subagent-task.jsonl": Figures(10, 3, 5, 2, 2, 1, 1, 0, 0, 0, 0, 0, 0),
    "three-compactions.jsonl": Figures(893, 260, 518, 115, 206, 206, 0, 0, 225, 0, 0, 3, 0),
    "tiny-queue-operation.jsonl": Figures(9, 2, 4, 3, 1, 1, 0, 0, 2, 0, 0, 0, 0),
    "tiny.jsonl": Figures(6, 1, 3, 2, 1, 0, 1, 0, 1, 0, 0, 0, 0),
    "two-session-ids.jsonl": Figures(221, 62, 126, 33, 58, 58, 0, 0, 56, 0, 0, 0, 0),
}


def figures(report: ImportReport) -> Figures:
    return Figures(
        lines=report.lines,
        user=report.user,
        assistant=report.assistant,
        other=sum(report.other.values()),
        tool_calls=report.tool_calls,
        tool_results=report.tool_results,
        unanswered=report.unanswered,
        orphans=report.orphans,
        reasoning=report.reasoning,
        images=report.images,
        sidechain=report.sidechain,
        compact_summaries=report.compact_summaries,
        bad=report.bad_lines + report.glued,
    )


def data_file(name: str) -> Path:
    """A file of the conversations kept with these tests, or of the large ones beside the checkout."""
    for folder in (SMALL, LARGE):
        if (folder / name).is_file():
            return folder / name
    pytest.skip(f"{name} is one of the large files, and {LARGE} is absent")


def count(path: Path) -> ImportReport:
    return tally(str(path), "claude-code", claude_code.read(path))


def write(path: Path, *lines: object) -> Path:
    """A file of JSON lines; bytes and strings are written as they are."""
    written = [
        line if isinstance(line, bytes) else (line if isinstance(line, str) else json.dumps(line)).encode()
        for line in lines
    ]
    path.write_bytes(b"".join(line + b"\n" for line in written))
    return path


def message(uuid: str, text: object, *, kind: str = "user", **envelope: object) -> dict[str, object]:
    body = {"role": kind, "content": text}
    return {"type": kind, "uuid": uuid, "sessionId": "main", "cwd": "/p", "message": body, **envelope}


def entries(events: list[Event]) -> list[Entry]:
    return [event for event in events if isinstance(event, Entry)]


def sessions(events: list[Event]) -> list[SessionFound]:
    return [event for event in events if isinstance(event, SessionFound)]


# Counted figures


@pytest.mark.parametrize("name", COUNTED)
def test_a_session_file_is_counted_as_an_independent_parser_counted_it(name: str) -> None:
    assert figures(count(data_file(name))) == COUNTED[name]


def test_both_objects_of_a_glued_line_are_kept() -> None:
    report = count(data_file("glued-objects.jsonl"))
    assert (report.lines, report.objects, report.glued, report.bad_lines) == (170, 171, 1, 0)


def test_a_debug_log_under_a_transcripts_name_is_refused_in_words() -> None:
    with pytest.raises(ImportRefused, match="not JSON lines at all"):
        detect(data_file("not-jsonl-at-all.jsonl"))


@pytest.mark.parametrize("name", [name for name in COUNTED if name != "not-jsonl-at-all.jsonl"])
def test_every_session_file_is_known_by_its_content(name: str, tmp_path: Path) -> None:
    disguised = tmp_path / "notes.txt"
    disguised.write_bytes(data_file(name).read_bytes())
    assert detect(disguised) == "claude-code"


def test_a_prefix_of_a_growing_file_gives_a_prefix_of_its_entries() -> None:
    grown = entries(list(claude_code.read(data_file("series-growing/5.jsonl"))))
    for earlier in range(1, 5):
        some = entries(list(claude_code.read(data_file(f"series-growing/{earlier}.jsonl"))))
        assert some == grown[: len(some)]


def test_no_base64_of_an_image_is_left_in_the_entries() -> None:
    for entry in entries(list(claude_code.read(data_file("image-twice-961kb-line.jsonl")))):
        assert not any(isinstance(part, Opaque) for part in entry.draft.parts)
        assert "iVBORw0KGgo" not in repr(entry)


# Claude Code sessions


def test_entries_keep_the_order_of_lines_and_their_own_identity() -> None:
    events = list(claude_code.read(data_file("tiny.jsonl")))
    assert [(entry.line, entry.draft.role) for entry in entries(events)] == [
        (3, "user"),
        (4, "assistant"),
        (5, "assistant"),
        (6, "assistant"),
    ]
    first, *answers = [entry.draft for entry in entries(events)]
    assert (first.entry_id, first.at) == ("3eaf2139-bd08-4062-a3db-b67c9541d4ca", 1_768_262_439_236)
    assert {draft.message_id for draft in answers} == {"msg_01DXz95EngKhCikEApygZbA7"}
    assert [event.kind for event in events if isinstance(event, Other)] == [
        "summary",
        "file-history-snapshot",
    ]


def test_a_file_is_one_session_whatever_session_ids_its_lines_bear() -> None:
    events = list(claude_code.read(data_file("two-session-ids.jsonl")))
    assert len(sessions(events)) == 1
    assert {entry.session_key for entry in entries(events)} == {sessions(events)[0].key}


def test_the_title_is_a_summary_of_this_conversation_else_what_the_user_wrote(tmp_path: Path) -> None:
    events = list(claude_code.read(data_file("subagent-task.jsonl")))
    assert sessions(events)[0].title == "Task Tool Web Search: AI Developments Explored"
    foreign = {"type": "summary", "summary": "Another talk", "leafUuid": "elsewhere"}
    meta = message("m", "Hidden", isMeta=True)
    command = message("c", "<command-name>/clear</command-name>")
    path = write(tmp_path / "a.jsonl", foreign, meta, command, message("u", "Please\n  mend " + "x" * 99))
    title = sessions(list(claude_code.read(path)))[0].title
    assert title is not None
    assert title.startswith("Please mend xxx")
    assert title.endswith("…")
    assert len(title) == 80


def test_a_callers_key_stands_for_the_files_own() -> None:
    events = list(claude_code.read(data_file("tiny.jsonl"), "mine"))
    assert sessions(events)[0].key == "mine"
    assert {entry.session_key for entry in entries(events)} == {"mine"}


def test_compact_summaries_are_kept_off_the_active_path() -> None:
    drafts = [entry.draft for entry in entries(list(claude_code.read(data_file("three-compactions.jsonl"))))]
    assert [draft.active for draft in drafts].count(False) == 3
    assert len(drafts) == 260 + 518


def test_odd_messages_are_kept_as_they_are() -> None:
    events = list(claude_code.read(data_file("planted-bad-lines.jsonl")))
    by_line = {entry.line: entry.draft for entry in entries(events)}
    assert by_line[11].parts == (Text("error"),)
    assert by_line[11].at is None
    assert isinstance(by_line[10].parts[0], Opaque)
    assert by_line[18].parts == (Text("wow error"),)
    troubles = [(event.line, event.problem) for event in events if isinstance(event, Trouble)]
    assert troubles == [
        (13, "a text stands where an object should"),
        (15, "a number stands where an object should"),
        (16, "a list stands where an object should"),
    ]


def test_a_message_line_without_an_identity_is_known_by_its_line(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", {"type": "user", "message": {"content": "a"}}, {"type": "assistant"})
    events = list(claude_code.read(path))
    assert [entry.draft.entry_id for entry in entries(events)] == ["line:1", "line:2"]
    assert sessions(events)[0].key == "a"
    assert entries(events)[1].draft.parts == (Opaque({"type": "assistant"}),)


def test_each_inline_subagent_is_a_child_opened_by_the_row_that_called_it() -> None:
    path = data_file("inline-sidechains.jsonl")
    events = list(claude_code.read(path))
    main, *children = sessions(events)
    assert main.parent_key is None
    assert len(children) == 7
    calls = {found.value["uuid"]: found.line for found in read_objects(path) if isinstance(found, Object)}
    assert [calls[child.opener_entry_id or ""] for child in children] == [6, 42, 163, 212, 607, 761, 1095]
    for child in children:
        assert child.parent_key == main.key
        assert child.key.startswith(f"{main.key}/")
        assert len(child.key) == len(main.key) + 9
    assert sum(entry.session_key != main.key for entry in entries(events)) == 233


def test_interleaved_subagents_are_told_apart_by_their_parents_and_by_agent(tmp_path: Path) -> None:
    def call(number: int) -> dict[str, object]:
        return {"type": "tool_use", "id": f"t{number}", "name": "Task", "input": {"prompt": f"do {number}"}}

    def side(uuid: str, text: str, parent: str | None, **more: object) -> dict[str, object]:
        return {**message(uuid, text), "isSidechain": True, "parentUuid": parent, **more}

    path = write(
        tmp_path / "a.jsonl",
        message("m1", "go"),
        message("m2", [call(1)], kind="assistant"),
        message("m3", [call(2)], kind="assistant"),
        side("rooot-22-a", "do 2", None),
        side("rooot-11-a", "do 1", "m1"),
        side("x2", "b", "rooot-22-a"),
        side("x1", "b", "rooot-11-a"),
        side("y2", "c", "x2"),
        side("z", "other", "nowhere", agentId="ag1"),
        side("rooot-22-b", "do 3", None),
        side("z2", "other", None, agentId="ag1"),
    )
    events = list(claude_code.read(path))
    found = {session.key: session.opener_entry_id for session in sessions(events)[1:]}
    assert found == {
        "main/rooot-22": "m3",
        "main/rooot-11": "m2",
        "main/ag1": "m3",
        "main/rooot-22-b": "m3",
    }
    rows = [(entry.session_key, entry.draft.entry_id) for entry in entries(events)[3:]]
    assert rows == [
        ("main/rooot-22", "rooot-22-a"),
        ("main/rooot-11", "rooot-11-a"),
        ("main/rooot-22", "x2"),
        ("main/rooot-11", "x1"),
        ("main/rooot-22", "y2"),
        ("main/ag1", "z"),
        ("main/rooot-22-b", "rooot-22-b"),
        ("main/ag1", "z2"),
    ]


def test_a_file_of_one_subagent_alone_is_a_child_of_a_session_it_does_not_hold(tmp_path: Path) -> None:
    path = write(tmp_path / "agent-1.jsonl", message("r", "do", isSidechain=True, agentId="1"))
    assert sessions(list(claude_code.read(path))) == [SessionFound("main/1", "do", "/p", "main", None)]


# Damage to Claude Code files


def test_every_cut_of_a_session_file_keeps_all_lines_before_it(tmp_path: Path) -> None:
    whole = data_file("interrupted.jsonl").read_bytes()
    path = tmp_path / "a.jsonl"
    for cut in range(1, len(whole), 7):
        path.write_bytes(whole[:cut])
        report = count(path)
        assert report.bad_lines == 0
        assert report.user + report.assistant >= whole[:cut].count(b"\n")
        assert report.unfinished_last_line == (
            report.objects == whole[:cut].count(b"\n") and whole[cut - 1] != 10
        )


def test_a_line_with_broken_utf8_is_reported_and_kept(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.jsonl", b'{"type":"user","uuid":"u","message":{"content":"a\xff\xed\xa0\x80b"}}'
    )
    events = list(claude_code.read(path))
    assert entries(events)[0].draft.parts == (Text("a\ufffd\ufffd\ufffd\ufffdb"),)
    report = tally("a", "claude-code", events)
    assert (report.repaired, report.bad_lines, report.user) == (1, 0, 1)


# Any damage


def damaged(source: bytes, chance: random.Random) -> bytes:
    """The bytes cut, glued, doubled or flipped at a few random places."""
    data = bytearray(source)
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(5):
            case 0:
                del data[at : at + chance.randint(1, 300)]
            case 1:
                data[at:at] = data[chance.randrange(len(data) + 1) :][:300]
            case 2:
                data[at : at + 1] = bytes([chance.randrange(256)])
            case 3:
                data = data.replace(b"\n", b"", chance.randint(1, 3))
            case _:
                data = data[: max(at, 1)]
    return bytes(data)


@pytest.mark.parametrize("seed", range(150))
def test_no_damage_to_a_file_ends_in_anything_but_a_report_or_a_refusal(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    sources = sorted(SMALL.glob("*.jsonl"))
    path = tmp_path / "a.jsonl"
    path.write_bytes(damaged(chance.choice(sources).read_bytes(), chance))
    with suppress(ImportRefused):
        detect(path)
    for known in FORMATS.values():
        report = tally(str(path), known.name, known.read(path, None))
        if known.takes_documents:  # it counts messages
            continue
        assert report.lines <= path.read_bytes().count(b"\n") + 1
