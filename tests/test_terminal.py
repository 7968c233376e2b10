"""What a person meets on a terminal: a first run that leads on, help that fits, JSON where one reads."""

from __future__ import annotations

import gzip
import io
import json
from importlib import resources
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from commands import Cli
from harbour import call, memory
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len
from test_cli_process import on_a_terminal, on_posix

from lcm_mcp.cli.entry import main, root
from lcm_mcp.cli.output import broken, styled
from lcm_mcp.errors import NoSession
from lcm_mcp.service import troubles
from lcm_mcp.settings import default_db
from lcm_mcp.tools.toolsets import TOOLSETS

_WITHOUT_JSON = {
    "serve": "speaks MCP",
    "hook": "says what its client reads",
    "export": "writes JSON lines, or Markdown for readers",
    "completion": "prints a script",
    "demo": "shows what other commands print",
}
_FILE = "orphaned-sessions.jsonl"
_RUN: dict[str, list[tuple[str, ...]]] = {
    "import": [("--no-fold", "--session", "a" * 200, _FILE), (_FILE,)],
    "sessions": [(), ("--limit", "1")],
    "list": [(), ("--limit", "2")],
    "dag": [()],
    "tree": [()],
    "grep": [("git",), ("session", "--limit", "50"), ("--mode", "words", "why orphaned?"), ("no such",)],
    "describe": [("e1",), ("n1",), ("e150",)],
    "expand": [("e102",), ("e1..e3",)],
    "context": [(), ("--window", "32000"), ("--window", "32000", "--compact", "auto", "--strategy", "lcm")],
    "compact": [(), ("lcm",)],
    "redo": [("n1",)],
    "strategy": [(), ("rolling",)],
    "fork": [("e50", "--as", "tried")],
    "rewind": [("e190",)],
    "pin": [("e1",), ()],
    "stats": [(), ("--all",)],
    "install": [("claude-code", "--print"), ("claude-code",), ("claude-code", "--undo")],
    "doctor": [()],
    "backup": [("copy.sqlite",)],
    "forget": [("tried", "--yes")],
}
"""What is run of each command on the demo's store, in this order; the others run until they are stopped."""
_VERBATIM = {"expand", "install"}
"""These show stored words, or paths and an entry to be copied, as they are; describe ends with words."""
_READS = (
    ("list",),
    ("dag",),
    ("tree",),
    ("grep", "x"),
    ("describe", "e1"),
    ("expand", "e1"),
    ("context",),
    ("strategy",),
    ("stats",),
)
_OF_A_STORE = (
    ("export",),
    *((name, *words) for name, (words, *_) in _RUN.items() if name not in {"import", "install", "doctor"}),
)
_CHECK_IT = (
    "Check the path; to make a new store there, import into it: `lcm-mcp import --discover`, or `lcm-mcp "
    "import FILE`."
)


def _commands() -> list[tuple[str, click.Command]]:
    context = click.Context(root)
    found = [(name, root.get_command(context, name)) for name in root.list_commands(context)]
    return [(name, command) for name, command in found if command is not None]


def test_every_command_but_those_with_a_form_of_their_own_answers_in_json_too() -> None:
    with_json = {
        name for name, command in _commands() if any("--json" in each.opts for each in command.params)
    }
    assert {name for name, _ in _commands()} - with_json == set(_WITHOUT_JSON)
    assert with_json - set(_RUN) == {"watch"}


@pytest.fixture
def at_the_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """An empty store, in a folder with the demo's file, of somebody who has Claude Code."""
    (tmp_path / ".claude").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    for name, value in (("HOME", str(tmp_path)), ("USERPROFILE", str(tmp_path)), ("COLUMNS", "80")):
        monkeypatch.setenv(name, value)
    packed = resources.files("lcm_mcp") / "demo" / f"{_FILE}.gz"
    Path(_FILE).write_bytes(gzip.decompress(packed.read_bytes()))
    return Cli(capsys, tmp_path / "lcm.sqlite")


def test_every_command_fits_into_80_columns(at_the_demo: Cli) -> None:
    for name, runs in _RUN.items():
        for words in runs:
            ended = at_the_demo(name, *words)
            assert ended.code == 0, ended.err
            shown = ended.out.partition("\n\n")[0] if name == "describe" else ended.out
            lines = [] if name in _VERBATIM else shown.splitlines()
            wide = [line for line in lines if cell_len(line) > 80 and "--cursor" not in line]
            assert [
                line for line in wide if len(line.split()[-1]) < 40
            ] == []  # a path or id stays in one piece
            assert [line for line in lines if line.endswith(" ")] == []


_TOLD = st.text(alphabet="ab/ 港湾é\u0301", max_size=300)


@given(_TOLD, st.integers(10, 90))
@example("a " * 100, 80)
@example("    " + "a" * 200 + " b", 80)
def test_a_text_is_broken_at_blanks_and_loses_nothing_else(said: str, width: int) -> None:
    lines = [line.plain for line in broken(styled(said), width)]
    assert [line for line in lines if line.endswith(" ")] == []
    assert "".join(lines).replace(" ", "") == said.replace(" ", "")
    wide = [line.split() for line in lines if cell_len(line) > width and not line.startswith(" " * width)]
    assert all(len(words) == 1 for words in wide)
    if not any(letter > "\u2e80" for letter in said):
        assert [word for line in lines for word in line.split()] == said.split()


@pytest.mark.parametrize("columns", ["40", "80", "1000"])
def test_folders_that_discovery_shows_can_be_copied(
    at_the_demo: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    home = tmp_path / f"a folder whose name is long, {'and has blanks in it, ' * 4}as some do"
    folder = home / ".claude" / "projects"
    folder.mkdir(parents=True)
    (folder / "a.jsonl").write_text("{}\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    lines = at_the_demo("import", "--discover").out.splitlines()
    assert [line for line in lines if line.endswith(f"  {folder}")] == [lines[0]]
    assert [line for line in lines if line.endswith(" ")] == []


def test_a_store_is_named_in_one_piece_wherever_it_is(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    at = tmp_path / f"{'a folder with blanks ' * 4}s"
    at.mkdir()
    cli = Cli(capsys, at / "lcm.sqlite").on_empty()
    lines = cli.done("doctor").splitlines()
    assert [line.split("flag")[-1].strip() for line in lines if line.endswith(str(cli.db))] == [
        str(cli.db)
    ] * 2
    assert cli.done("backup", at / "copy").startswith(f"{at / 'copy'}:")


def test_every_command_gives_one_document_of_json(at_the_demo: Cli) -> None:
    for name, runs in _RUN.items():
        for words in runs:
            ended = at_the_demo(name, *words, "--json")
            assert ended.code == 0, ended.err
            assert isinstance(json.loads(ended.out), dict), name
            assert ended.err == "", name


def test_every_help_fits_into_80_columns() -> None:
    for name, _ in [("", root), *_commands()]:
        ended = CliRunner().invoke(root, [*([name] if name else []), "--help"], terminal_width=80)
        assert ended.exit_code == 0
        assert [line for line in ended.output.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("words", _READS, ids=" ".join)
def test_every_read_of_an_empty_store_says_so_and_how_to_fill_it(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], store_path: Path
) -> None:
    assert Cli(capsys, store_path).on_empty().refusal(*words) == f"lcm-mcp: {NoSession()}\n"


@pytest.mark.parametrize("words", _OF_A_STORE, ids=" ".join)
def test_what_needs_a_store_makes_none_where_there_is_none_and_says_so(
    words: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mistyped = tmp_path / "hoem" / "lcm.sqlite"
    said = Cli(capsys, mistyped).refusal(*words)
    assert said == f"lcm-mcp: There is no store at {mistyped}, as --db says. {_CHECK_IT}\n"
    monkeypatch.setenv("LCM_DB", str(mistyped))
    assert (
        _refused(capsys, *words) == f"lcm-mcp: There is no store at {mistyped}, as LCM_DB says. {_CHECK_IT}\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", _OF_A_STORE, ids=" ".join)
def test_before_anything_was_imported_it_says_how_to_and_makes_no_store(
    words: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("HOME", "XDG_DATA_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    place = default_db()
    said = _refused(capsys, *words)
    assert said.startswith(
        f"lcm-mcp: There is no store yet, since nothing was imported; it will be {place}. "
    )
    assert "`lcm-mcp import --discover` reads in" in said
    assert (place.exists(), list(tmp_path.iterdir())) == (False, [])


def test_an_empty_file_is_no_store_to_read_and_stays_empty(
    capsys: pytest.CaptureFixture[str], store_path: Path
) -> None:
    store_path.touch()
    assert "There is no store at " in Cli(capsys, store_path).refusal("sessions")
    assert store_path.read_bytes() == b""


def test_doctor_without_a_store_says_so_shows_settings_and_trouble_of_hooks_and_makes_none(
    capsys: pytest.CaptureFixture[str], store_path: Path
) -> None:
    troubles.note(store_path, "claude-code", "the folder is read-only")
    cli = Cli(capsys, store_path)
    for words in ((), ("--repair",)):
        ended = cli("doctor", *words, "--json")
        checks = {check["name"]: check for check in ended.answer["checks"]}
        assert (ended.code, ended.answer["healthy"]) == (1, False)
        assert checks["opening"]["detail"] == f"There is no store at {store_path}, as --db says. {_CHECK_IT}"
        assert "the folder is read-only" in checks["hooks"]["detail"]
        assert {line["name"]: line["origin"] for line in ended.answer["settings"]}["db"] == "flag"
        assert not store_path.exists()


def _refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What is said of a call without --db that is refused."""
    with pytest.raises(SystemExit) as end:
        main(words)
    out, err = capsys.readouterr()
    assert (end.value.code, out) == (1, "")
    return err


async def test_every_tool_that_reads_says_so_too(store_path: Path) -> None:
    arguments = {"lcm_grep": {"pattern": "x"}, "lcm_describe": {"id": "e1"}, "lcm_expand": {"id": "e1"}}
    async with memory(store_path) as service:
        sessions = await call(service, "lcm_sessions")
        assert "The store is empty. Import " in sessions.text
        for tool in TOOLSETS["read"]:
            if tool.name != "lcm_sessions":
                with pytest.raises(NoSession, match="lcm-mcp import --discover"):
                    await tool.call(service, arguments.get(tool.name, {}))


@on_posix
def test_a_first_run_says_what_there_is_to_read_in(tmp_path: Path) -> None:
    folder = tmp_path / ".claude" / "projects" / "farm"
    folder.mkdir(parents=True)
    for name in ("a", "b"):
        (folder / f"{name}.jsonl").touch()
    text = on_a_terminal(["--db", str(tmp_path / "s.sqlite")], NO_COLOR="1", HOME=str(tmp_path))
    assert "2 session files of claude-code" in text
    assert "lcm-mcp import --discover" in text
