"""The command line, run as a user runs it, on real stores."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest
from commands import Cli
from harbour import memory
from transcripts import SAMPLES, neutral_file

from lcm_mcp.cli import main

_TINY = SAMPLES / "tiny-queue-operation.jsonl"
_BAD = SAMPLES / "planted-bad-lines.jsonl"


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], store_path: Path) -> Cli:
    return Cli(capsys, store_path)


def test_a_folder_without_a_file_of_the_format_that_was_said_is_not_followed(
    cli: Cli, tmp_path: Path
) -> None:
    folder = tmp_path / "talks"
    folder.mkdir()
    neutral_file(folder / "one.jsonl", "the harbour")
    refused = cli.refusal("import", folder, "--format", "codex")
    assert "nothing in it is of the format codex. It looks like neutral: import it as that." in refused
    neutral_file(folder / "two.jsonl", "the quay")
    assert "no session yet" in cli.refusal("grep", "quay")
    assert _following(cli) == "0 files are followed"
    cli.done("import", folder)
    assert _following(cli) == "2 files are followed"


def _following(cli: Cli) -> str:
    return next(check["detail"] for check in cli.answer("doctor")["checks"] if check["name"] == "following")


def test_help_names_every_command(cli: Cli) -> None:
    text = cli.done("--help")
    for name in (
        "import",
        "sessions",
        "list",
        "dag",
        "grep",
        "describe",
        "expand",
        "context",
        "compact",
        "strategy",
        "pin",
        "stats",
        "serve",
        "demo",
    ):
        assert f"\n  {name} " in text


@pytest.mark.parametrize(
    ("command", "fields"),
    [
        (["sessions"], {"sessions", "total", "next_cursor", "note"}),
        (["list"], {"session", "nodes", "total", "next_cursor", "note"}),
        (["dag"], {"session", "nodes", "children", "note"}),
        (["grep", "the"], {"hits", "total", "complete", "searched", "next_cursor"}),
        (["describe", "e1"], {"session", "row", "node"}),
        (["expand", "e1"], {"session", "id", "rows", "next_cursor"}),
        (["context", "--window", "9000"], {"prepared", "status", "messages", "observation"}),
        (["context"], {"prepared", "status", "sections", "provider_input_tokens", "done"}),
        (["compact"], {"prepared", "status", "sections", "strategy", "window_source", "done"}),
        (["strategy"], {"session", "strategy", "chosen_by", "rows"}),
        (["stats"], {"rows", "rows_by_role", "nodes", "cuts", "file_bytes"}),
        (["stats", "--all"], {"rows", "sessions"}),
        (["doctor"], {"path", "healthy", "checks", "settings"}),
    ],
)
def test_a_reading_command_answers_a_reader_in_80_columns_and_a_script_in_one_document(
    cli: Cli, command: list[str], fields: set[str]
) -> None:
    cli.done("import", _TINY)
    cli.done("context", "--window", "9000", "--compact", "auto")
    assert fields <= cli.answer(*command).keys()
    text = cli.done(*command)
    assert text.strip()
    assert "\x1b" not in text
    if command[0] != "expand":  # whose lines are the conversation's own
        assert [line for line in text.splitlines() if len(line) > 80 and str(cli.db) not in line] == []


def test_global_options_stand_before_or_after_the_command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    db = str(tmp_path / "a.sqlite")
    for arguments in (["--db", db, "import", str(_TINY)], ["import", str(_TINY), "--db", db]):
        with pytest.raises(SystemExit) as end:
            main(arguments)
        assert end.value.code == 0
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["sessions", "--json", "--db", db])
    assert json.loads(capsys.readouterr().out)["total"] == 1


def test_a_flag_wins_over_the_variable(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LCM_DB", str(tmp_path / "other.sqlite"))
    settings = {line["name"]: line for line in cli.on_empty().answer("doctor")["settings"]}
    assert settings["db"] == {"name": "db", "value": str(cli.db), "origin": "flag"}
    assert not (tmp_path / "other.sqlite").exists()


def test_what_is_searched_elsewhere_is_told_as_a_shell_takes_it(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.done("import", _TINY)
    monkeypatch.chdir(tmp_path)

    async def append() -> None:
        async with memory(cli.db) as service:
            await service.append("here", [{"role": "user", "content": "hello"}], project=str(tmp_path))

    anyio.run(append)
    said = " ".join(cli.done("grep", "nowhere").split())
    assert "(sessions: 1; 1 elsewhere, searched with --session '*')" in said


def test_hits_of_a_folder_come_with_how_many_sessions_elsewhere_were_left_out(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async def append() -> None:
        async with memory(cli.db) as service:
            for key, project in (("here", tmp_path), ("there", tmp_path / "a"), ("beyond", tmp_path / "b")):
                await service.append(key, [{"role": "user", "content": "hello"}], project=str(project))

    anyio.run(append)
    told = f"Searched: project {tmp_path} (sessions: 1; 2 elsewhere, searched with --session '*')."
    for mode in ("literal", "words", "regex"):
        assert cli.done("grep", "hello", "--mode", mode).splitlines()[-1] == told
    for named in ("*", "here"):
        assert "Searched" not in cli.done("grep", "hello", "--session", named)


def test_doctor_shows_a_switch_as_the_settings_file_has_it(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LCM_FOLD_IMPORTS", "0")
    lines = [line.split() for line in cli.on_empty().done("doctor").splitlines()]
    assert ["foldImports", "environment", "false"] in lines
    assert ["redactOutgoing", "default", "true"] in lines


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["expand", "e1", "--session", "nobody"], "'nobody'. lcm-mcp sessions lists those stored"),
        (["expand", "e999"], "lcm-mcp list shows its nodes, lcm-mcp grep finds rows"),
        (["expand", "everything"], "not an address"),
        (["--session", "", "list"], "session"),
        (["grep", ""], "pattern"),
        (["grep", "x", "--since", "yesterday"], "since"),
        (["sessions", "--cursor", "forged"], "cursor"),
        (["stats", "--session", "nobody"], "nobody"),
        (["strategy", "lcm", "--session", "nobody"], "nobody"),
        (["compact", "--session", "nobody"], "nobody"),
        (["backup", ""], "it names no file. Name another"),
    ],
)
def test_a_refusal_is_one_line_and_exit_1(cli: Cli, arguments: list[str], words: str) -> None:
    cli.done("import", _TINY)
    assert words in cli.refusal(*arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        ["remember"],
        ["grep"],
        ["list", "--depth", "x"],
        ["import", "no-such-file"],
        ["serve", "--transport", "x"],
        ["strategy", "rollling"],
        ["compact", "none"],
        ["stats", "--all", "--session", "a"],
        ["context", "--window", "1" + "0" * 32, "--compact", "force"],
        ["context", "--preamble", "1" + "0" * 32],
    ],
)
def test_wrong_usage_is_exit_2(cli: Cli, arguments: list[str]) -> None:
    said = cli.refusal(*arguments, code=2)
    assert said.startswith("lcm-mcp: ")
    assert "See lcm-mcp" in said
    assert said.endswith(" --help.\n")
    assert not cli.db.exists()


def test_a_list_in_which_nothing_matches_says_so(cli: Cli, tmp_path: Path) -> None:
    cli.done(
        "import", neutral_file(tmp_path / "talk.jsonl", *("about the harbour. " * 80 for _ in range(40)))
    )
    for arguments in (["sessions", "nowhere"], ["sessions", "--project", ""], ["list", "--depth", "8"]):
        assert f"matches. lcm-mcp {arguments[0]} alone lists them all." in cli.done(*arguments)


def test_a_terminal_that_says_it_is_wider_than_any_is_not_believed(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.done("import", _TINY)
    monkeypatch.setenv("COLUMNS", "99999999")
    assert max(map(len, cli.done("context", "--window", "8000").splitlines())) <= 1000


def test_a_misspelt_setting_stops_every_command(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LCM_STRATEGEY", "lcm")
    assert "LCM_STRATEGEY" in cli.refusal("sessions")
    assert not cli.db.exists()


def test_a_file_that_is_no_store_is_left_alone(cli: Cli) -> None:
    cli.db.write_text("a shopping list, not a database, but it is long enough to be looked at " * 20)
    before = cli.db.read_bytes()
    assert str(cli.db) in cli.refusal("sessions")
    assert cli.db.read_bytes() == before


def test_import_accounts_for_every_line(cli: Cli) -> None:
    text = cli.done("import", _BAD)
    assert "planted-bad-lines.jsonl  claude-code" in text
    lines = _BAD.read_text().splitlines()
    planted = [number for number, line in enumerate(lines, 1) if line.strip() and not _is_object(line)]
    assert len(planted) == 3
    for number in planted:
        assert f"not understood  line {number}: " in text


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def test_import_twice_adds_nothing_and_says_so(cli: Cli) -> None:
    first = cli.answer("import", _TINY)["files"][0]["sessions"][0]
    again = cli.answer("import", _TINY)["files"][0]["sessions"][0]
    assert first["rows_added"] > 0
    assert (again["rows_added"], again["duplicates"]) == (0, first["rows_added"])
    assert "0 new rows" in cli.done("import", _TINY)


def test_a_refused_file_does_not_stop_the_next(cli: Cli, tmp_path: Path) -> None:
    log = tmp_path / "debug.jsonl"
    log.write_text("12:00 started\n12:01 stopped\n")
    ended = cli("import", log, _TINY)
    assert ended.code == 1
    assert "debug.jsonl" in ended.err
    assert ended.err.count("\n") == 1
    assert _TINY.name in ended.out
    assert cli.answer("sessions")["total"] == 1


def test_a_folder_stands_for_the_transcripts_below_it(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "in" / "deep").mkdir(parents=True)
    neutral_file(tmp_path / "in" / "deep" / "one.jsonl", "hello", "hi")
    neutral_file(tmp_path / "in" / "two.jsonl", "good day", "and to you")
    (tmp_path / "in" / "notes.txt").write_text("no transcript")
    assert len(cli.answer("import", tmp_path / "in")["files"]) == 2
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "1.json").write_text("{}")
    assert f"below {tmp_path / 'empty'}. A file" in cli.refusal("import", tmp_path / "empty")


def test_a_folder_without_transcripts_is_told_beside_one_that_has_some(cli: Cli, tmp_path: Path) -> None:
    for folder in ("empty", "full"):
        (tmp_path / folder).mkdir()
    neutral_file(tmp_path / "full" / "one.jsonl", "hello", "hi")
    ended = cli("import", tmp_path / "empty", tmp_path / "full")
    assert ended.code == 1
    assert f"no transcript, by its name, is below {tmp_path / 'empty'}." in ended.err
    assert cli.answer("sessions")["total"] == 1


def test_no_fold_stores_the_conversation_without_summaries(cli: Cli, tmp_path: Path) -> None:
    talk = neutral_file(
        tmp_path / "talk.jsonl", *("a long sentence about the harbour. " * 80 for _ in range(40))
    )
    cli.done("import", "--no-fold", talk)
    assert cli.answer("list")["total"] == 0
    other = Cli(cli.capsys, tmp_path / "folded.sqlite")
    assert "folded" in other.done("import", talk)
    assert other.answer("list")["total"] > 0


def test_what_was_stored_cannot_drive_the_terminal_but_json_has_it_verbatim(cli: Cli, tmp_path: Path) -> None:
    text = "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x1b[0m needle\x9b5n \u202egnp.exe\r over \x08\x7f"
    cli.done("import", neutral_file(tmp_path / "t.jsonl", text, "fine"))
    for command in (["expand", "e1"], ["grep", "needle"], ["context", "--format", "text"], ["sessions"]):
        shown = cli.done(*command)
        assert not set(shown) & set("\x1b\x07\x08\x7f\x9b\u202e\r")
    assert "␛]0;owned␇" in cli.done("expand", "e1")
    assert "red needle" in cli.done("grep", "needle")
    assert cli.answer("expand", "e1")["rows"][0]["text"] == text


def test_json_can_say_what_utf8_cannot(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_text('{"role": "user", "content": "half \\ud83d of a pair"}\n')
    cli.done("import", path)
    rows = cli.answer("expand", "e1", "--include-payload")["rows"]
    assert "half" in rows[0]["text"]
    assert "\ud83d" in json.dumps(rows[0]["payload"], ensure_ascii=False)


def test_expand_all_gives_every_page(cli: Cli, tmp_path: Path) -> None:
    texts = [f"{n}: " + "words and words " * 100 for n in range(8)]
    cli.done("import", "--no-fold", neutral_file(tmp_path / "t.jsonl", *texts))
    paged = cli.answer("expand", "e1..e8", "--max-bytes", "2000")
    assert paged["next_cursor"]
    assert "--cursor" in cli.done("expand", "e1..e8", "--max-bytes", "2000")
    whole = cli.answer("expand", "e1..e8", "--max-bytes", "2000", "--all")
    assert whole["next_cursor"] is None
    assert "".join(row["text"] for row in whole["rows"]) == "".join(texts)


def test_grep_pages_and_marks_what_covers_a_hit(cli: Cli, tmp_path: Path) -> None:
    texts = [f"the harbour, number {n}. " * 60 for n in range(30)]
    cli.done("import", neutral_file(tmp_path / "t.jsonl", *texts))
    page = cli.answer("grep", "HARBOUR", "--scope", "rows", "--limit", "5")
    assert len(page["hits"]) == 5
    following = cli.answer(
        "grep", "HARBOUR", "--scope", "rows", "--limit", "5", "--cursor", page["next_cursor"]
    )
    assert not {hit["ref"] for hit in page["hits"]} & {hit["ref"] for hit in following["hits"]}
    assert "under #" in cli.done("grep", "harbour", "--scope", "rows", "--order", "oldest")
    assert "No match" in cli.done("grep", "lighthouse")


def test_what_a_search_advises_is_an_option_of_the_command(cli: Cli, tmp_path: Path) -> None:
    cli.done("import", neutral_file(tmp_path / "t.jsonl", "the quay", "the lighthouse"))
    cli.done("rewind", "e1")
    nothing = " ".join(cli.done("grep", "lighthouse").split())
    assert "1 match (--include-removed)" in nothing
    assert "e2" in cli.done("grep", "lighthouse", "--include-removed")
    assert "use --mode literal" in cli.refusal("grep", "(", "--mode", "regex")
    refused = cli.refusal("grep", "quay", "--cursor", "no-such-page")
    assert "without --cursor" in refused
    assert "next_cursor" not in refused
    unknown = " ".join(cli.done("context").split())
    assert "The window is unknown: give --window or" in unknown


def test_quiet_leaves_only_what_was_asked_for(cli: Cli) -> None:
    assert cli.done("--quiet", "import", _TINY) == ""
    assert cli.done("strategy", "lcm", "--quiet") == ""
    assert cli.done("compact", "--quiet") == ""


def test_an_interrupt_ends_with_130_and_no_traceback(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("lcm_mcp.service.Service.sessions", interrupted)
    assert cli.on_empty()("sessions").code == 130
