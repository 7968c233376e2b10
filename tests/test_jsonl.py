"""JSON lines are read object by object, whatever lies between them."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

from lcm_mcp.transcript.importers.jsonl import MAX_LINE_BYTES, BadLine, Object, read_objects


def write(path: Path, *lines: object) -> Path:
    """A file of JSON lines; bytes and strings are written as they are."""
    written = [
        line if isinstance(line, bytes) else (line if isinstance(line, str) else json.dumps(line)).encode()
        for line in lines
    ]
    path.write_bytes(b"".join(line + b"\n" for line in written))
    return path


def contents(path: Path) -> list[object]:
    return [found.value if isinstance(found, Object) else found.problem for found in read_objects(path)]


def test_blank_lines_bom_and_crlf_are_no_trouble_and_offsets_are_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a":1}\r\n\r\n  \n\t{"b":"\xc3\xa9"}{"c":2}\n\x00\x00{"d":3}')
    content = path.read_bytes()
    found = [item for item in read_objects(path) if isinstance(item, Object)]
    assert [(item.line, item.value, item.glued) for item in found] == [
        (1, {"a": 1}, False),
        (4, {"b": "é"}, False),
        (4, {"c": 2}, True),
        (5, {"d": 3}, False),
    ]
    assert [content[item.offset : item.offset + 4] for item in found] == [b'{"a"', b'{"b"', b'{"c"', b'{"d"']


def test_a_half_written_last_line_is_unfinished_and_what_was_glued_before_it_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a":1}\n{"b":2}{"c":')
    *whole, last = read_objects(path)
    assert [item.value for item in whole if isinstance(item, Object)] == [{"a": 1}, {"b": 2}]
    assert isinstance(last, BadLine)
    assert (last.line, last.offset, last.unfinished) == (2, 15, True)


def test_lone_surrogates_huge_integers_and_nan_are_read_exactly(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.jsonl", r'{"a":"\ud800"}', b'{"a":123456789012345678901234567890}', b'{"a":Infinity}'
    )
    assert contents(path) == [{"a": "\ud800"}, {"a": 123456789012345678901234567890}, {"a": float("inf")}]


def test_nesting_without_end_is_a_bad_line(tmp_path: Path) -> None:
    lines = [b'{"a":' + b"[" * depth + b"]" * depth + b"}" for depth in (150, 300, 2000, 200_000)]
    found = list(read_objects(write(tmp_path / "a.jsonl", *lines, {"b": 1})))
    assert [isinstance(item, Object) for item in found] == [True, False, False, False, True]
    assert {item.problem for item in found if isinstance(item, BadLine)} == {"nested more than 200 deep"}


def test_values_that_are_no_objects_are_bad_lines_one_a_line(tmp_path: Path) -> None:
    found = contents(
        write(tmp_path / "a.jsonl", "3", "null", '"a"', "[]", "true", "1 2 3", "12:30 [x] y", {"a": 1})
    )
    assert found[-1] == {"a": 1}
    assert len(found) == 8


def test_a_number_of_too_many_digits_is_a_bad_line(tmp_path: Path) -> None:
    assert contents(write(tmp_path / "a.jsonl", '{"a":' + "9" * 5000 + "}", "{}")) == [
        "a number has too many digits to be read",
        {},
    ]


def test_many_objects_glued_into_one_line_are_read_in_linear_time(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"a":"é"} ' * 60_000)
    found = list(read_objects(path))
    assert len(found) == 60_000
    assert found[-1].offset == 59_999 * 11


def test_a_line_of_70_mb_is_passed_over_in_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with path.open("wb") as file:
        file.write(b'{"a":1}\n{"b":"')
        for _ in range(70):
            file.write(b"x" * 1024 * 1024)
        file.write(b'"}\n{"c":2}\n')
    tracemalloc.start()
    try:
        found = list(read_objects(path))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [item.line for item in found] == [1, 2, 3]
    bad = found[1]
    assert isinstance(bad, BadLine)
    assert "longer than 64 MB" in bad.problem
    assert found[2].offset == path.stat().st_size - len(b'{"c":2}\n')
    assert peak_bytes < 2.5 * MAX_LINE_BYTES
