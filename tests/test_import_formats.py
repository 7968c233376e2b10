"""Neutral files are read as sessions, and files of no known format are refused with the reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lcm_mcp.errors import ImportRefused
from lcm_mcp.transcript.importers import Entry, Event, SessionFound, Trouble, detect, neutral, tally


def write(path: Path, *lines: object) -> Path:
    """A file of JSON lines; bytes and strings are written as they are."""
    written = [
        line if isinstance(line, bytes) else (line if isinstance(line, str) else json.dumps(line)).encode()
        for line in lines
    ]
    path.write_bytes(b"".join(line + b"\n" for line in written))
    return path


def entries(events: list[Event]) -> list[Entry]:
    return [event for event in events if isinstance(event, Entry)]


def sessions(events: list[Event]) -> list[SessionFound]:
    return [event for event in events if isinstance(event, SessionFound)]


def test_a_neutral_file_names_its_session_and_numbers_nameless_entries(tmp_path: Path) -> None:
    path = write(
        tmp_path / "notes.jsonl",
        {"session": "s-1", "title": "T", "project": "/p"},
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b", "entry_id": "mine"},
        "not json",
        {"role": "judge", "content": "c"},
        {"role": "user", "content": "d", "at": 5},
    )
    events = list(neutral.read(path))
    assert sessions(events) == [SessionFound("s-1", "T", "/p")]
    assert [(entry.draft.entry_id, entry.line) for entry in entries(events)] == [
        ("@1", 2),
        ("mine", 3),
        ("@5", 6),
    ]
    report = tally("n", "neutral", events)
    assert [line for line, _ in report.bad] == [4, 5]
    assert "'judge' is not one of" in report.bad[1][1]
    assert detect(path) == "neutral"


def test_a_neutral_file_without_a_header_is_named_by_the_caller_or_its_own_name(tmp_path: Path) -> None:
    path = write(tmp_path / "notes.jsonl", {"role": "user", "content": "a"})
    # The name is only a name: what the file is known by is its path.
    assert sessions(list(neutral.read(path))) == [SessionFound("notes", None, None, native_id=str(path))]
    assert sessions(list(neutral.read(path, "given"))) == [SessionFound("given", None, None)]
    assert detect(path) == "neutral"


def test_what_is_wrong_in_a_header_is_reported_and_the_entries_read(tmp_path: Path) -> None:
    path = write(tmp_path / "n.jsonl", {"session": 5, "colour": 1}, {"role": "user", "content": "a"})
    events = list(neutral.read(path))
    assert sessions(events) == [SessionFound("n", None, None, native_id=str(path))]
    assert len(entries(events)) == 1
    assert [event.line for event in events if isinstance(event, Trouble)] == [1, 1]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "it is empty"),
        (b" \n\n", "nothing but blanks"),
        (b"SQLite format 3\0 and so on", "an SQLite database"),
        (b"\x1f\x8b\x08\0\0", "gzip"),
        (b"PK\x03\x04...", "zip"),
        ('{"a":1}\n'.encode("utf-16"), "UTF-16"),
        (b"\x7fELF\0\0\0", "a binary file"),
        (b"# Notes\n\nHello\n", "not JSON lines at all"),
        (b"[DEBUG] 1\n[INFO] 2\n", "not JSON lines at all"),
        (b'[\n  {"role": "user"}\n]\n', "one JSON document"),
        (b'{\n  "messages": []\n}\n', "one JSON document"),
        (b'{"type":"response"}\n', "unknown kind (the first object has type 'response')"),
        (b'[{"colour": "red"}]', "one JSON document"),
        (b'[\n  {"colour": "red"},\n  {}\n]\n', "one JSON document"),
        (b'{"type":"user","mess', "no whole line of JSON"),
        (b'{"b":1,"a":2}\n', "unknown kind (the first object has keys a, b)"),
    ],
)
def test_a_file_that_is_no_transcript_is_refused_with_what_it_looks_like(
    content: bytes, words: str, tmp_path: Path
) -> None:
    path = tmp_path / "claimed.jsonl"
    path.write_bytes(content)
    with pytest.raises(ImportRefused) as caught:
        detect(path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)


def test_directories_and_missing_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ImportRefused, match="it is a directory"):
        detect(tmp_path)
    with pytest.raises(ImportRefused, match="No such file"):
        detect(tmp_path / "absent.jsonl")
