"""The command line in processes of its own: what it loads, how it meets pipes and terminals, the demo."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from transcripts import SAMPLES, neutral_file

from lcm_mcp import __version__
from lcm_mcp.storage.connections import Store

_TINY = SAMPLES / "tiny-queue-operation.jsonl"
on_posix = pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals are of POSIX systems")


def fresh(
    arguments: Sequence[str], stdin: int | None = None, **environment: str
) -> subprocess.CompletedProcess[bytes]:
    """The command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "lcm_mcp", *arguments],
        stdin=stdin,
        env={**os.environ, **environment},
        capture_output=True,
        timeout=120,
        check=False,
    )


def test_the_version_is_told_without_loading_what_it_does_not_need() -> None:
    code = (
        "import sys\nfrom lcm_mcp.cli import main\ntry: main(['--version'])\nexcept SystemExit: pass\n"
        "print(sorted({'mcp', 'rich', 'pydantic', 'apsw', 'anyio'} & set(sys.modules)))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines() == [f"lcm-mcp {__version__}", "[]"]


def test_no_command_but_serve_loads_mcp(tmp_path: Path) -> None:
    calls = (
        ["import", str(_TINY)],
        ["sessions"],
        ["list"],
        ["dag"],
        ["grep", "a"],
        ["describe", "e1"],
        ["expand", "e1"],
        ["context", "--compact", "auto", "--window", "2000"],
        ["compact", "lcm"],
        ["strategy"],
        ["stats"],
        ["doctor"],
        ["demo"],
    )
    code = (
        "import sys\nfrom lcm_mcp.cli import main\n"
        f"for call in {calls!r}:\n"
        "    try: main(['--db', sys.argv[1], *call])\n"
        "    except SystemExit as end: assert end.code == 0, (call, end.code)\n"
        "assert not [name for name in sys.modules if name.split('.')[0] in ('mcp', 'mcp_types', 'starlette')]"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "s.sqlite")], check=True, capture_output=True)


def test_a_reader_that_goes_away_is_no_failure_to_explain(tmp_path: Path) -> None:
    db = str(tmp_path / "s.sqlite")
    talk = neutral_file(tmp_path / "t.jsonl", *("word " * 20_000 for _ in range(20)))
    assert fresh(["--db", db, "import", str(talk)]).returncode == 0
    for extra in ([], ["--json"]):
        command = [sys.executable, "-m", "lcm_mcp", "--db", db, "expand", "e1..e20", "--all", *extra]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
            assert running.stdout is not None
            assert running.stderr is not None
            running.stdout.read(10)
            running.stdout.close()
            assert running.stderr.read() == b""
            assert running.wait(30) == 141


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_full_disk_is_told_in_one_line(tmp_path: Path) -> None:
    Store.open(tmp_path / "s.sqlite").close_now()
    command = [sys.executable, "-m", "lcm_mcp", "--db", str(tmp_path / "s.sqlite"), "sessions"]
    for extra in ([], ["--json"]):
        with open("/dev/full", "wb") as full:
            ended = subprocess.run([*command, *extra], stdout=full, stderr=subprocess.PIPE, check=False)
        assert ended.returncode == 1
        told = "lcm-mcp: The output: No space left on device. Make room there, then run it again.\n"
        assert ended.stderr.decode() == told


@on_posix
def test_a_limit_on_the_size_of_files_is_told_in_one_line_and_nothing_is_lost(tmp_path: Path) -> None:
    talk = neutral_file(tmp_path / "talk.jsonl", *("quay " * 4000 for _ in range(60)))
    ours = ["--db", str(tmp_path / "lcm.sqlite")]
    assert fresh([*ours, "import", str(_TINY)]).returncode == 0
    importing = [sys.executable, "-m", "lcm_mcp", *ours, "import", str(talk)]
    limited = ["sh", "-c", 'ulimit -f 1000; exec "$@"', "sh", *importing]
    ended = subprocess.run(limited, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stderr.count("\n")) == (1, 1)
    assert "a limit on the size of files (ulimit -f), and repeat the call; nothing was lost." in ended.stderr
    assert fresh(importing[3:]).returncode == 0
    stored = json.loads(fresh([*ours, "sessions", "--json"]).stdout)["sessions"]
    assert [(one["source"], one["rows"]) for one in stored][:1] == [("import:neutral", 60)]
    assert len(stored) == 2


def test_alone_without_a_terminal_it_serves_stdio(tmp_path: Path) -> None:
    ended = fresh(["--db", str(tmp_path / "s.sqlite")], stdin=subprocess.DEVNULL)
    assert (ended.returncode, ended.stdout) == (0, b"")


def on_a_terminal(arguments: Sequence[str], **environment: str) -> str:
    """What the command writes where a person sits."""
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "lcm_mcp", *arguments]
    env = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS")}
    env |= {"TERM": "xterm-256color", **environment}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=env):
        os.close(theirs)
        written = b"".join(iter(lambda: _read(ours), b""))
    os.close(ours)
    return written.decode()


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # how Linux says that the other end is closed
        return b""


@on_posix
def test_alone_on_a_terminal_it_shows_the_state_and_makes_no_store(tmp_path: Path) -> None:
    db = tmp_path / "s.sqlite"
    text = on_a_terminal(["--db", str(db)], NO_COLOR="1")
    assert "not made yet" in text
    assert "lcm-mcp import" in text
    assert not db.exists()
    assert fresh(["--db", str(db), "import", str(_TINY)]).returncode == 0
    assert "1 session" in on_a_terminal(["--db", str(db)], NO_COLOR="1")


@on_posix
def test_compacting_is_shown_to_a_person_and_to_no_one_else(tmp_path: Path) -> None:
    db = str(tmp_path / "s.sqlite")
    talk = neutral_file(tmp_path / "t.jsonl", *("a sentence about the harbour. " * 90 for _ in range(40)))
    assert fresh(["--db", db, "import", "--no-fold", str(talk)]).returncode == 0
    for name in ("a", "b", "c"):
        shutil.copy(db, tmp_path / name)
    watched = on_a_terminal(["--db", str(tmp_path / "a"), "compact", "lcm"])
    assert "compacting" in watched
    assert "compacted" in watched
    assert "compacting" not in on_a_terminal(["--db", str(tmp_path / "b"), "compact", "lcm", "--quiet"])
    assert fresh(["--db", str(tmp_path / "c"), "compact", "lcm"]).stderr == b""


@on_posix
@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["import", str(_TINY)], "index  0 texts left"),
        (["doctor"], "looking at every page and row 0:00"),
        (["backup", "copy.sqlite"], "copying and checking 0:00"),
    ],
)
def test_what_may_take_long_says_that_it_is_under_way_to_a_person_alone(
    words: list[str], shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert shown in on_a_terminal(["--db", "s.sqlite", *words], NO_COLOR="1")
    assert shown not in on_a_terminal(["--db", "s.sqlite", "--quiet", *words], NO_COLOR="1")
    assert shown.encode() not in fresh(["--db", "t.sqlite", *words]).stderr


@on_posix
def test_a_compaction_that_is_interrupted_ends_cleanly_and_leaves_a_sound_store(tmp_path: Path) -> None:
    db = str(tmp_path / "s.sqlite")
    texts = (f"{n}: I changed src/file{n}.py and ran the tests, which passed. " * 16 for n in range(1600))
    talk = neutral_file(tmp_path / "t.jsonl", *texts)
    assert fresh(["--db", db, "import", "--no-fold", str(talk)]).returncode == 0
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "lcm_mcp", "--db", db, "compact", "lcm"]
    env = os.environ | {"TERM": "xterm-256color"}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=env) as running:
        os.close(theirs)
        written = b""
        while b"tokens folded" not in written and (more := _read(ours)):
            written += more
        running.send_signal(signal.SIGINT)
        written += b"".join(iter(lambda: _read(ours), b""))
    os.close(ours)
    # A machine that is quick enough has compacted before it is told to stop.
    assert running.returncode == 130 or b"compacted" in written
    assert b"Traceback" not in written
    assert fresh(["--db", db, "doctor"]).returncode == 0
    # Which of the two made the cut, only the machine's speed tells.
    assert b"t  c1.e1600  " in fresh(["--db", db, "compact", "lcm"]).stdout


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no names that are not UTF-8")
def test_names_that_are_no_utf8_are_read_but_not_followed_and_no_store_has_one(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    (folder / os.fsdecode(b"below\xff")).mkdir(parents=True)
    shutil.copy(_TINY, folder / os.fsdecode(b"t\xff.jsonl"))
    db = str(tmp_path / "s.sqlite")
    for command in (["import", str(folder)], ["import", str(folder)], ["sessions"], ["doctor"]):
        ended = fresh(["--db", db, *command])
        assert (ended.returncode, ended.stderr) == (0, b"")
    refused = fresh(["--db", str(folder / "s.sqlite"), "sessions"])
    assert refused.returncode == 1
    assert b"should be a path in UTF-8" in refused.stderr
    assert refused.stderr.count(b"\n") == 1


@on_posix
def test_colours_are_for_terminals_that_want_them(tmp_path: Path) -> None:
    db = str(tmp_path / "s.sqlite")
    assert fresh(["--db", db, "import", str(_TINY)]).returncode == 0
    assert "\x1b[" in on_a_terminal(["--db", db, "sessions"])
    assert "\x1b[3" not in on_a_terminal(["--db", db, "sessions"], NO_COLOR="1")
    assert b"\x1b" not in fresh(["--db", db, "sessions"]).stdout


def test_demo_prints_the_same_each_time_in_80_columns(tmp_path: Path) -> None:
    first, second = fresh(["demo"]), fresh(["demo"], LCM_STRATEGY="none")
    assert first.returncode == second.returncode == 0
    assert (first.stderr, second.stdout) == (b"", first.stdout)
    text = first.stdout.decode()
    for word in ("lcm-mcp dag", "lcm-mcp grep", "lcm-mcp expand", "lcm-mcp context", "▓", "█"):
        assert word in text
