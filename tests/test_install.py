"""Installing into clients: each client's own file, on a home of its own, and the very command it starts."""

from __future__ import annotations

import json
import os
import re
import stat
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from client_files import FILES
from commands import Cli

from lcm_mcp.clients import CLIENTS, CONVERSATIONS, entry_for, jsonc, place
from lcm_mcp.clients.installing import BEFORE
from lcm_mcp.clients.places import System
from lcm_mcp.service import hooking
from lcm_mcp.transcript.importers import FORMATS, places

NAMES = list(CLIENTS)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home in which every client was started once and has a file."""
    home = tmp_path / "home"
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(home))
    for name in ("APPDATA", "XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    for name, text in FILES.items():
        where = place(CLIENTS[name])
        where.folder.mkdir(parents=True, exist_ok=True)
        where.file.parent.mkdir(parents=True, exist_ok=True)
        where.file.write_bytes(text.encode())
        where.file.chmod(0o640)
    return home


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Cli:
    return Cli(capsys, tmp_path / "lcm.sqlite")


def content(name: str, text: str) -> dict[str, Any]:
    return tomllib.loads(text) if CLIENTS[name].form == "toml" else jsonc.load(text)


def file(name: str) -> Path:
    return place(CLIENTS[name]).file


def put(name: str, cli: Cli) -> str:
    """Install without the start that proves it, which its own tests have; the file's text then."""
    from lcm_mcp import clients

    client = CLIENTS[name]
    clients.install(client, place(client), entry_for(client, cli.db))
    return file(name).read_bytes().decode()


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("name", NAMES)
def test_the_entry_is_added_and_every_line_that_was_there_stays(name: str, cli: Cli) -> None:
    before, text = FILES[name], put(name, cli)
    client = CLIENTS[name]
    there = content(name, text)
    entry = there[client.key].pop("lcm")
    was = content(name, before)
    was.setdefault(client.key, {})
    assert there == was
    assert Path(entry["command"]).is_absolute()
    assert entry["args"][-4:] == [str(cli.db), "serve", "--toolset", client.toolset]
    assert entry.get("type") == ("stdio" if name in ("claude-code", "vscode") else None)
    if name != "claude-desktop":  # which is one line
        kept = iter(line.rstrip(",") for line in text.splitlines())
        assert all(line.rstrip(",") in kept for line in before.splitlines())


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("name", NAMES)
def test_undoing_gives_back_the_very_file(name: str, cli: Cli) -> None:
    put(name, cli)
    assert stat.S_IMODE(file(name).stat().st_mode) == 0o640
    copy = file(name).with_name(file(name).name + BEFORE)
    assert copy.read_bytes() == FILES[name].encode()
    assert stat.S_IMODE(copy.stat().st_mode) == 0o640
    cli.done("install", name, "--undo")
    assert file(name).read_bytes() == FILES[name].encode()
    assert stat.S_IMODE(file(name).stat().st_mode) == 0o640
    assert [path for path in file(name).parent.iterdir() if path.is_file()] == [file(name)]
    assert "nothing to undo" in cli.refusal("install", name, "--undo")


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("name", NAMES)
def test_undoing_in_a_file_that_changed_since_takes_out_the_entry_alone(name: str, cli: Cli) -> None:
    text = put(name, cli)
    changed = text.replace("16", "17").replace("41", "42").replace("npx", "bunx").replace("search.", "find.")
    changed = changed.replace("Ctrl+Space", "Ctrl+L")
    assert changed != text
    file(name).write_bytes(changed.encode())
    cli.done("install", name, "--undo")
    there, expected = content(name, file(name).read_text()), content(name, changed)
    del expected[CLIENTS[name].key]["lcm"]
    assert {CLIENTS[name].key: {}, **there} == {CLIENTS[name].key: {}, **expected}
    for remark in ("// end of search", "/* the one we pay for */", "# slow to start", '// a "quoted" word'):
        assert (remark in file(name).read_text()) == (remark in FILES[name])


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("name", NAMES)
def test_installing_again_changes_only_the_entry_and_is_still_undone_to_the_first_file(
    name: str, cli: Cli, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    first = put(name, cli)
    assert put(name, cli) == first
    copy = file(name).with_name(file(name).name + BEFORE)
    kept = copy.read_bytes()
    copy.unlink()  # as who tidies up does
    assert put(name, cli) == first
    assert not copy.exists()
    copy.write_bytes(kept)
    moved = put(name, Cli(capsys, tmp_path / "elsewhere.sqlite"))
    assert moved == first.replace("lcm.sqlite", "elsewhere.sqlite")
    cli.done("install", name, "--undo")
    assert file(name).read_bytes() == FILES[name].encode()


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("name", ["cursor", "codex"])
def test_an_entry_that_stood_there_before_comes_back(name: str, cli: Cli) -> None:
    own = {
        "cursor": '{"mcpServers": {"lcm": {"command": "mine"}, "other": {"command": "o"}}}',
        "codex": '[mcp_servers.lcm]\ncommand = "mine" # by hand\n\n[mcp_servers.lcm.env]\nA = "1"\n',
    }[name]
    file(name).write_text(own)
    text = put(name, cli)
    assert content(name, text)[CLIENTS[name].key]["lcm"]["args"]
    assert "env" not in content(name, text)[CLIENTS[name].key]["lcm"]
    cli.done("install", name, "--undo")
    assert file(name).read_text() == own
    put(name, cli)
    added = {"cursor": "\n", "codex": "\n[more]\nb = 1\n"}[name]
    file(name).write_text(file(name).read_text() + added)
    cli.done("install", name, "--undo")
    assert content(name, file(name).read_text()) == content(name, own + added)


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("name", NAMES)
def test_a_file_that_was_not_there_is_made_private_and_goes_with_the_entry(name: str, cli: Cli) -> None:
    file(name).unlink()
    text = put(name, cli)
    assert list(content(name, text)) == [CLIENTS[name].key]
    assert stat.S_IMODE(file(name).stat().st_mode) == 0o600
    printed = cli("install", name, "--print")
    assert (printed.code, printed.out) == (0, text)
    assert str(file(name)) in printed.err
    cli.done("install", name, "--undo")
    assert not file(name).exists()
    assert not file(name).with_name(file(name).name + BEFORE).exists()


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("name", NAMES)
def test_windows_line_ends_stay(name: str, cli: Cli) -> None:
    file(name).write_bytes(FILES[name].replace("\n", "\r\n").encode())
    text = put(name, cli)
    if name == "claude-desktop":
        return
    if name != "codex":  # tomlkit ends the lines of new tables its own way
        assert text.count("\n") == text.count("\r\n")
    file(name).write_bytes((text + "\r\n").encode())
    cli.done("install", name, "--undo")
    assert FILES[name].replace("\n", "\r\n").splitlines()[:4] == file(name).read_text().splitlines()[:4]


def test_a_client_that_is_not_there_is_named_and_nothing_is_made(home: Path, cli: Cli) -> None:
    file("cursor").unlink()
    file("cursor").parent.rmdir()
    said = cli.refusal("install", "cursor")
    assert f"{home / '.cursor'}: there is no such folder" in said
    assert "install cursor --print" in said
    assert not file("cursor").parent.exists()


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("cursor", '{"mcpServers": ', "cannot be read"),
        ("cursor", "[]", "cannot be read"),
        ("zed", '{"context_servers": []}', "no table of servers"),
        ("codex", "model = ", "cannot be read"),
        ("codex", "mcp_servers = 3", "no table of servers"),
        ("codex", 'mcp_servers = { docs = { command = "x" } }', "in a way that we cannot change"),
    ],
)
def test_a_file_that_cannot_be_understood_is_left_alone(name: str, text: str, said: str, cli: Cli) -> None:
    file(name).write_text(text)
    refusal = cli.refusal("install", name)
    assert said in refusal
    assert "--print" in refusal
    assert file(name).read_text() == text
    assert not file(name).with_name(file(name).name + BEFORE).exists()


def test_a_link_stays_a_link_to_the_file_that_is_changed(home: Path, cli: Cli) -> None:
    real = home / "dotfiles" / "zed.json"
    real.parent.mkdir()
    file("zed").rename(real)
    file("zed").symlink_to(real)
    put("zed", cli)
    assert file("zed").is_symlink()
    assert '"lcm"' in real.read_text()


def test_places_follow_the_system_and_the_variables_of_the_client() -> None:
    mac = "/h/Library/Application Support"

    def at(name: str, platform: str, **variables: str) -> str:
        return CLIENTS[name].place(System(platform, Path("/h"), variables)).file.as_posix()

    assert at("claude-desktop", "darwin") == f"{mac}/Claude/claude_desktop_config.json"
    assert at("claude-desktop", "win32", APPDATA="/r") == "/r/Claude/claude_desktop_config.json"
    assert at("vscode", "linux", XDG_CONFIG_HOME="/x") == "/x/Code/User/mcp.json"
    assert at("vscode", "darwin") == f"{mac}/Code/User/mcp.json"
    assert at("zed", "linux", XDG_CONFIG_HOME="") == "/h/.config/zed/settings.json"
    assert at("zed", "win32", APPDATA="/r") == "/r/Zed/settings.json"
    assert at("codex", "linux", CODEX_HOME="/c") == "/c/config.toml"
    assert at("claude-code", "linux") == "/h/.claude.json"
    assert at("claude-code", "linux", CLAUDE_CONFIG_DIR="/cc") == "/cc/.claude.json"
    assert at("cursor", "win32") == "/h/.cursor/mcp.json"


@pytest.mark.usefixtures("home")
def test_what_was_written_is_started_and_asked_for_its_tools(cli: Cli) -> None:
    said = cli.done("install", "claude-desktop")
    assert "it offers 6 tools" in said
    entry = json.loads(file("claude-desktop").read_text())["mcpServers"]["lcm"]
    assert entry["command"] == str(Path(sys.executable).with_name("lcm-mcp"))
    checks = {check["name"]: check for check in cli.answer("doctor", "--clients")["checks"]}
    assert checks["clients"]["detail"] == "with an entry: Claude Desktop"
    assert checks["claude-desktop"] == {
        "name": "claude-desktop",
        "ok": True,
        "detail": "started, it offers 6 tools",
    }


@pytest.mark.usefixtures("home")
def test_an_entry_that_does_not_serve_is_told_with_the_reason_of_the_server(cli: Cli) -> None:
    cli.db.write_text("no database, but longer than the header of one" * 20)
    ended = cli("install", "zed")
    assert ended.code == 1
    assert "did not serve" in ended.err
    assert "is not a store of lcm-mcp" in ended.err
    assert "lcm-mcp install zed --undo takes it back" in ended.out


def test_the_page_on_clients_lists_them_as_they_are() -> None:
    page = (Path(__file__).parent.parent / "docs" / "clients.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w-]+)` \|.*\| `\[?(\w+)\]?` \| `(\w+)` \|$", page, re.MULTILINE)
    assert rows == [(client.name, client.key, client.toolset) for client in CLIENTS.values()]


def test_how_conversations_come_in_is_what_the_importers_and_discovery_do() -> None:
    searched = {client.name for client in places.CLIENTS}
    for each in CONVERSATIONS.values():
        followed = each.format is not None and FORMATS[each.format].follow is not None
        match each.way:
            case "live":
                assert followed, each
                assert each.format in searched
            case "by import":
                assert not followed, each
                assert each.format in searched
            case "by export only":
                assert each.format in FORMATS.keys() - searched, each
            case "by append only":
                assert each.format is None, each
        assert ("hooks" in each.how) == (each.program in hooking.CLIENTS), each
    assert CLIENTS.keys() <= CONVERSATIONS.keys()
    ours = {"neutral", "messages"}  # of no program
    assert {each.format for each in CONVERSATIONS.values()} == {*FORMATS.keys() - ours, None}


def test_the_readme_and_the_page_on_clients_say_how_conversations_come_in() -> None:
    root = Path(__file__).parent.parent
    page = (root / "docs" / "clients.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w-]+)` \| ([a-z ]+) \| ([^|]+) \|$", page, re.MULTILINE)
    assert rows == [(each.program, each.way, each.how) for each in CONVERSATIONS.values()]
    by_way: dict[str, list[str]] = {}
    for each in CONVERSATIONS.values():
        by_way.setdefault(each.way, []).append(each.title)
    said = "; ".join(f"{way} ({', '.join(titles)})" for way, titles in by_way.items())
    readme = " ".join((root / "README.md").read_text(encoding="utf-8").split())
    assert f"Conversations come in {said}." in readme


@pytest.mark.usefixtures("home")
def test_doctor_fails_where_a_client_starts_what_is_gone_or_does_not_serve(cli: Cli, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho 'no store here' >&2\nexit 1\n")
    broken.chmod(0o755)
    file("cursor").write_text(json.dumps({"mcpServers": {"lcm": {"command": str(broken), "args": []}}}))
    ended = cli.on_empty()("doctor", "--clients", "--json")
    (failed,) = [check for check in ended.answer["checks"] if not check["ok"]]
    assert (ended.code, failed["name"]) == (1, "cursor")
    assert "no store here" in failed["detail"]
    os.unlink(broken)
    ended = cli("doctor", "--json")
    (failed,) = [check for check in ended.answer["checks"] if not check["ok"]]
    assert failed["name"] == "clients"
    assert f"Cursor is to start {broken}, which is not there" in failed["detail"]
