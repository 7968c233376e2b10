"""JSON documents as files: which are taken and refused, what is broken, and how much memory they take."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from commands import Cli
from exported import ANTHROPIC, OPENAI, TREE, archive, chatgpt, claude_ai, written
from stores import serving

from lcm_mcp.cli.importing import FORMAT_NAMES
from lcm_mcp.errors import ImportRefused
from lcm_mcp.transcript.importers import FORMATS, detect, documents, tally
from lcm_mcp.transcript.importers.jsonl import Object

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


def test_the_command_names_every_format() -> None:
    assert set(FORMAT_NAMES) == set(FORMATS)


@pytest.mark.parametrize(
    ("format", "content", "words"),
    [
        ("chatgpt", b"hello", "it is no JSON document"),
        ("claude-code", b'[\n  {"a": 1}\n]', "it is one JSON document"),
        ("neutral", b"PK\x03\x04", "it is a zip archive"),
    ],
)
async def test_a_file_of_the_wrong_kind_is_refused(
    format: str, content: bytes, words: str, tmp_path: Path, store_path: Path
) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    async with serving(store_path) as service:
        with pytest.raises(ImportRefused, match=words):
            await service.import_file(path, format)


def test_a_document_of_another_kind_is_named_and_gives_nothing(tmp_path: Path) -> None:
    path = written(tmp_path / "x.json", {"role": "user", "content": "a"})
    report = tally("x", "chatgpt", FORMATS["chatgpt"].read(path, None))
    assert report.bad == ((1, "conversation 1: it is no conversation"),)
    assert report.objects == 0


def test_an_archive_without_conversations_or_a_broken_one_is_named(tmp_path: Path) -> None:
    with pytest.raises(ImportRefused, match=r"zip archive that holds no conversations\.json"):
        detect(archive(tmp_path / "a.zip"))
    whole = archive(tmp_path / "b.zip", conversations=[chatgpt("c", TREE, "a2")]).read_bytes()
    (tmp_path / "c.zip").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ImportRefused, match="zip"):
        detect(tmp_path / "c.zip")


def test_a_document_is_cut_as_json_cuts_it(tmp_path: Path) -> None:
    value: dict[str, Any] = {
        "a": ['x]"\\', {"b": "}{"}, [], {}, 1.5, None, True, "ü"],
        "c\n": {"d": [[["]"]]]},
        "e": -1,
    }
    for indent in (None, 1):
        path = written(tmp_path / "d.json", value, indent)
        for document in documents.documents(path):
            members = document.members()
            assert [document.value(span) for span in members.values()] == list(value.values())
            found = list(document.elements(members["a"]))
            assert [each.value for each in found if isinstance(each, Object)] == [{"b": "}{"}, {}]
            assert len(found) == 8


@pytest.mark.parametrize("format", ["chatgpt", "claude-ai", "messages", "swe-agent"])
def test_documents_that_are_cut_or_scrambled_lose_no_more_than_what_is_broken(
    format: str, tmp_path: Path
) -> None:
    whole: dict[str, Any] = {
        "chatgpt": [chatgpt(f"c{n}", TREE, "a2") for n in range(3)],
        "claude-ai": [claude_ai(f"c{n}", {"uuid": "m", "sender": "human", "text": "hi"}) for n in range(3)],
        "messages": ANTHROPIC,
        "swe-agent": {"trajectory": [{"action": "a", "observation": "b"}], "history": OPENAI},
    }
    raw = json.dumps(whole[format]).encode()
    path = tmp_path / "x.json"
    chance = random.Random(1)
    best = 0
    for trial in range(300):
        broken = bytearray(raw[: chance.randrange(1, len(raw))] if trial % 2 else raw)
        for _ in range(trial % 4):
            broken[chance.randrange(len(broken))] = chance.choice(b'"[]{},:\\\x00\xff1n')
        path.write_bytes(bytes(broken))
        report = tally("x", format, FORMATS[format].read(path, None))
        best = max(best, report.user)
        with suppress(ImportRefused):
            detect(path)
    path.write_bytes(raw)
    assert 0 < best <= tally("x", format, FORMATS[format].read(path, None)).user


# The rusage of a process begins with that of the one that started it; its own peak is told by Linux.
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_a_large_export_is_read_in_bounded_memory(tmp_path: Path) -> None:
    talk = json.dumps(chatgpt("KEY", [*TREE, ("a3", "a2", "assistant", "word " * 40_000)], "a3"))
    path = tmp_path / "conversations.json"
    with path.open("w") as file:
        file.write("[" + ",\n".join(talk.replace("KEY", f"key-{n}") for n in range(200)) + "]")
    size = path.stat().st_size
    script = (
        "import sys; from pathlib import Path\n"
        "from lcm_mcp.transcript.importers import FORMATS, detect, tally\n"
        "path = Path(sys.argv[1]); name = detect(path)\n"
        "report = tally('x', name, FORMATS[name].read(path, None))\n"
        "status = Path('/proc/self/status').read_text()\n"
        "print(report.sessions, status.partition('VmHWM:')[2].split()[0])\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script, path], capture_output=True, text=True, timeout=120, check=True
    )
    sessions, peak_kb = map(int, ran.stdout.split())
    assert size > 35_000_000
    assert sessions == 200
    assert peak_kb * 1024 < size + 150_000_000  # the mapped file counts, though it can be given back


@pytest.mark.skipif(not os.path.exists("/proc/self/io"), reason="needs what Linux counts of bytes read")
def test_to_tell_what_a_document_is_it_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "session.json"
    said = [{"id": str(n), "type": "user", "content": "the tide at pier 7 " * 50} for n in range(9_000)]
    about = {"sessionId": "s", "projectHash": "p", "startTime": "2026-01-01T00:00:00Z", "lastUpdated": ""}
    path.write_text(json.dumps(about | {"messages": said}, indent=1))
    before = _bytes_read()
    assert detect(path) == "gemini"
    assert _bytes_read() - before < 1.2 * path.stat().st_size


def _bytes_read() -> int:
    """How many bytes this process has read so far; what it maps does not count."""
    return int(Path("/proc/self/io").read_text(encoding="ascii").split()[1])


def test_a_document_that_is_cut_short_while_it_is_read_is_read_as_it_was(tmp_path: Path) -> None:
    path = written(tmp_path / "x.json", [chatgpt(f"c{n}", TREE, "a2") for n in range(300)])
    script = (
        "import os, sys; from pathlib import Path\n"
        "from lcm_mcp.transcript.importers import FORMATS\n"
        "path = Path(sys.argv[1]); events = FORMATS['chatgpt'].read(path, None)\n"
        "first = next(events); os.truncate(path, 10)\n"
        "print(1 + sum(type(event) is type(first) for event in events))\n"
    )
    ran = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "300\n", "")
    assert path.stat().st_size == 10


def test_what_a_damaged_file_is_refused_with_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "rollout.jsonl.zst"
    path.write_bytes(zstd.compress(b'{"type": "session_meta"}\n')[:-3])
    with pytest.raises(ImportRefused, match=r"damaged: .*\)\. Get it whole\.$"):
        detect(path)
    path.write_bytes(b'[{"role": "user", "content": "a"}, {"role": "us')
    (_, problem) = tally("x", "messages", FORMATS["messages"].read(path, None)).bad[0]
    assert "string starting at character" in problem


def test_the_command_takes_an_unpacked_export_by_its_folder(
    tmp_path: Path, store_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "export"
    folder.mkdir()
    written(folder / "conversations-000.json", [chatgpt("c1", TREE, "a2")])
    written(folder / "conversations-001.json", [chatgpt("c2", TREE, "a2")])
    written(folder / "user.json", {})
    cli = Cli(capsys, store_path)
    cli.done("--quiet", "import", folder)
    assert {each["key"] for each in cli.answer("sessions", "--project", "*")["sessions"]} == {"c1", "c2"}
