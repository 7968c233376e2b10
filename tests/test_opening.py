"""A server over stdio says what it offers before it has loaded its memory, and never goes on without one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from connecting import OPENING, command, line, piped, tool

LISTS = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")


@pytest.fixture
def no_store(tmp_path: Path) -> Path:
    path = tmp_path / "letter.txt"
    path.write_text("Dear harbour master, pier 4 is 218 metres long.\n" * 100, encoding="utf-8")
    return path


def test_everything_that_is_offered_is_told_with_neither_memory_nor_store(tmp_path: Path) -> None:
    asked = OPENING + "".join(line(method, {}, number) for number, method in enumerate(LISTS, 1))
    code = (
        "import sys\nfrom lcm_mcp.cli import main\n"
        "from lcm_mcp.server import opening\n"
        "opening.QUIET_S = 60\n"
        "try: main(['--db', sys.argv[1], 'serve'])\n"
        "except SystemExit as end: assert end.code == 0\n"
        "loaded = {'lcm_mcp.service', 'lcm_mcp.tools.toolsets', 'apsw'} & set(sys.modules)\n"
        "print(*loaded, file=sys.stderr)"
    )
    db = tmp_path / "s.sqlite"
    ended = subprocess.run(
        [sys.executable, "-c", code, str(db)], input=asked.encode(), capture_output=True, check=True
    )
    replies = [json.loads(each)["result"] for each in ended.stdout.splitlines()]
    assert ended.stderr.strip() == b""
    assert not db.exists()
    found = {
        key
        for reply in replies
        for key in ("tools", "prompts", "resources", "resourceTemplates")
        if reply.get(key)
    }
    assert found == {"tools", "prompts", "resources", "resourceTemplates"}


def test_a_call_to_a_store_that_cannot_be_opened_is_told_why_before_the_server_ends(no_store: Path) -> None:
    messages, ended = piped(no_store, OPENING + tool(1, "lcm_sessions"))
    (said,) = [message["result"] for message in messages if message["id"] == 1]
    assert said["isError"]
    assert "is not a store of lcm-mcp. Name another file" in said["content"][0]["text"]
    assert ended.returncode == 1
    assert ended.stderr.decode().startswith("lcm-mcp: ")
    assert len(ended.stderr.splitlines()) == 1


def test_a_store_that_cannot_be_opened_ends_the_server_though_its_client_is_silent(no_store: Path) -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen(command(no_store), stdin=pipe, stdout=pipe, stderr=pipe) as server:
        assert server.stdin is not None
        assert server.stderr is not None
        server.stdin.write(OPENING.encode())
        server.stdin.flush()  # and stdin stays open
        assert server.wait(timeout=30) == 1
        assert b"is not a store of lcm-mcp" in server.stderr.read()
