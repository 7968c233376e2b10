"""A program as summarizer: what it is given, where it runs, how it ends, and the page that shows one."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from pathlib import Path

import anyio
import pytest
from commands import Cli
from stores import BACKENDS
from turns import turns

from lcm_mcp.chain import CommandEntry
from lcm_mcp.settings import default_folder, load_settings
from lcm_mcp.summarizers.command import INSIDE, MOST_BYTES, CommandModel
from lcm_mcp.summarizers.metered import CallFault
from lcm_mcp.summarizers.prompting import Prompt
from lcm_mcp.transcript.model import Json

_ROOT = Path(__file__).resolve().parent.parent
PROMPT = Prompt("You write summaries.", "The source: ünï", 100)


def program(folder: Path, code: str, *arguments: str) -> CommandModel:
    """A program of so many lines of Python."""
    entry = CommandEntry(kind="command", command=(sys.executable, "-c", code, *arguments))
    return CommandModel(entry, entry.name, folder / "own")


async def fault(model: CommandModel) -> str:
    with pytest.raises(CallFault) as found:
        await model.ask(PROMPT)
    return found.value.reason


async def test_it_reads_the_prompt_and_answers_in_a_folder_of_its_own(tmp_path: Path) -> None:
    code = (
        "import os, sys; print(os.getcwd(), os.environ['INSIDE_LCM_SUMMARIZER'], sys.stdin.read(), sep='|')"
    )
    reply = await program(tmp_path, code, INSIDE).ask(PROMPT)
    folder, inside, prompt = reply.text.strip().split("|")
    assert (Path(folder), inside) == ((tmp_path / "own").resolve(), "1")
    assert prompt.strip() == "You write summaries.\n\nThe source: ünï"
    assert (reply.input_tokens, reply.output_tokens, reply.whole) == (None, None, True)


async def test_one_that_reads_nothing_or_prints_too_much_is_no_trouble(tmp_path: Path) -> None:
    long = Prompt("x" * 1_000_000, "y", 100)
    assert (await program(tmp_path, "print('short')").ask(long)).text.strip() == "short"
    code = f"import sys; sys.stdout.write('z' * {3 * MOST_BYTES})"
    assert len((await program(tmp_path, code).ask(PROMPT)).text) == MOST_BYTES


async def test_its_failure_tells_its_last_line_without_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-of-the-program")
    code = "import os, sys; sys.stderr.write('x\\nno credit for ' + os.environ['SOME_API_KEY']); sys.exit(3)"
    assert await fault(program(tmp_path, code)) == "it ended with code 3: no credit for [key]"
    echo = "import os; print(os.environ['SOME_API_KEY'])"
    assert (await program(tmp_path, echo).ask(PROMPT)).text.strip() == "[key]"


def test_what_is_missing_is_told_without_starting_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    none = CommandModel(CommandEntry(kind="command", command=("no-such-program",)), "command none", tmp_path)
    assert none.unready() == "there is no such program"
    assert program(tmp_path, "").unready() is None
    monkeypatch.setenv(INSIDE, "1")
    assert program(tmp_path, "").unready() == "this process was itself started to write a summary"


_FAMILY = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
open("pids", "w").write(f"{child.pid}")
time.sleep(60)
"""


@pytest.mark.parametrize("anyio_backend", BACKENDS)
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no process groups to end")
async def test_it_ends_with_its_family_when_nobody_waits_any_more(tmp_path: Path) -> None:
    model = program(tmp_path, _FAMILY)
    told = tmp_path / "own" / "pids"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(model.ask, PROMPT)
        with anyio.fail_after(30):
            while not (told.exists() and told.read_text()):
                await anyio.sleep(0.02)
        tasks.cancel_scope.cancel()
    pid = int(told.read_text())
    deadline = time.monotonic() + 10
    while _lives(pid) and time.monotonic() < deadline:
        await anyio.sleep(0.02)
    assert not _lives(pid)


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


# --- in use


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], store_path: Path) -> Cli:
    return Cli(capsys, store_path)


def talk(folder: Path) -> Path:
    file = folder / "talk.jsonl"
    file.write_text("\n".join(json.dumps(entry) for entry in turns(1, 40)))
    return file


def test_the_example_on_the_page_writes_summaries(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (_ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```json\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    example = next(block for block in shown if "docs/examples/summarize.py" in block)
    here = example.replace("docs/examples", str(_ROOT / "docs" / "examples")).replace(
        '"python3"', json.dumps(sys.executable)
    )
    settings = tmp_path / "settings.json"
    settings.write_text(here)
    monkeypatch.setenv("LCM_SETTINGS", str(settings))
    cli.done("--quiet", "import", talk(tmp_path), "--session", "talk", "--no-fold")
    seen = cli("compact", "lcm", "--json").answer
    assert seen["status"] == "compacted"
    assert "Summarizer" not in str(seen["notes"])
    assert seen["done"]["model_calls"] > 0
    node = cli("--session", "talk", "describe", "n1", "--json").answer["node"]
    assert re.match(r"- e\d+ the user: turn \d+ asked", node["text"])
    assert node["model"] == f"command {Path(sys.executable).name}"
    assert f"command {Path(sys.executable).name}" in cli.done("stats")


def test_every_list_on_the_page_is_one_that_the_settings_take() -> None:
    page = (_ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```json\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    assert len(shown) > 1
    for block in shown:
        assert len(load_settings(json.loads(block), {}).summarizers) > 1


def test_sessions_that_its_programs_leave_behind_are_not_imported(cli: Cli, tmp_path: Path) -> None:
    projects = tmp_path / "projects"
    own = projects / re.sub(r"[^A-Za-z0-9]", "-", str(default_folder()))
    other = projects / "-home-someone-work"
    for folder in (own, other):
        folder.mkdir(parents=True)
        shutil.copy(talk(tmp_path), folder / f"{folder.name[-4:]}.jsonl")
    files: Json = cli("import", projects, "--no-fold", "--json").answer["files"]
    assert isinstance(files, list)
    assert len(files) == 1


def test_what_is_shown_of_a_list_has_no_arguments_and_no_path(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = [
        {"kind": "command", "command": ["curl", "-H", "Authorization: sk-in-an-argument"]},
        {"kind": "openai", "model": "m", "baseUrl": "https://example.org/sk-in-a-path/v1"},
    ]
    monkeypatch.setenv("LCM_SUMMARIZERS", json.dumps(entries))
    for shown in (cli("doctor"), cli("doctor", "--json")):
        assert "sk-in" not in shown.out + shown.err
    settings = {line["name"]: line["value"] for line in cli("doctor", "--json").answer["settings"]}
    assert settings["summarizers"] == "command curl, then m at example.org (no key), then extractive"


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"kind": "anthropic"}, "summarizers[0].model: "),
        ({"kind": "anthropic", "model": "m", "apiKey": "sk-secret"}, "summarizers[0].apiKey is no setting"),
        (
            {"kind": "openai", "model": "m", "keyVariable": "sk-secret"},
            "summarizers[0].keyVariable should be",
        ),
        ({"kind": "openai", "model": "m", "keyVariable": "gsk_secret"}, "not a key"),
        ({"kind": "openai", "model": "m", "baseUrl": "https://sk-secret:x@h/v1"}, "summarizers[0].baseUrl: "),
        ({"kind": "openai", "model": "m", "timeoutSeconds": "sk-secret"}, "summarizers[0].timeoutSeconds: "),
        ({"kind": "openai", "model": {"sk-secret": 1}}, "summarizers[0].model: "),
        ({"kind": "sk-secret"}, "summarizers[0].kind should be anthropic, openai, command or extractive"),
        ({}, "summarizers[0].kind should be anthropic, openai, command or extractive"),
        ({"kind": "command", "command": []}, "summarizers[0].command: "),
        ("sk-secret", "summarizers[0]"),
    ],
)
def test_a_fault_in_a_list_is_told_by_its_place_and_never_by_its_value(
    entry: object, told: str, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LCM_SUMMARIZERS", json.dumps([entry]))
    ended = cli("doctor")
    assert ended.code == 1
    assert told in ended.err
    assert "LCM_SUMMARIZERS" in ended.err
    assert "secret" not in ended.err


def test_a_list_ends_in_the_extractive_one_and_that_stands_nowhere_else() -> None:
    some = {"kind": "command", "command": ["llm"]}
    for given in ([], [some], [some, {"kind": "extractive"}], [some, some]):
        kinds = [entry.kind for entry in load_settings({"summarizers": given}, {}).summarizers]
        assert kinds.count("extractive") == 1
        assert kinds[-1] == "extractive"
    with pytest.raises(Exception, match="it should stand last"):
        load_settings({"summarizers": [{"kind": "extractive"}, some]}, {})
    with pytest.raises(Exception, match="a JSON list"):
        load_settings({}, {**os.environ, "LCM_SUMMARIZERS": "claude -p"})
