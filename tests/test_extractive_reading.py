"""What the extractive summarizer tells of files read, searches, pages and subagents when room is left."""

from __future__ import annotations

import pytest
from growth import LINEAR, growth
from hypothesis import given
from hypothesis import strategies as st

from lcm_mcp.ids import Seq, TextId
from lcm_mcp.summarizers.extractive import extract
from lcm_mcp.summarizers.facts import COMMANDS, FOUND, REQUESTS, SAID, SEEN, Fact, Section, clip_list, parse
from lcm_mcp.summarizers.model import Child, NodesSource, Request, RowsSource
from lcm_mcp.summarizers.sentences import clip
from lcm_mcp.tokens import TokenCount, text_tokens, utf8_length
from lcm_mcp.transcript.model import Json, Part, Role, Row, Text, ToolCall, ToolResult

Entry = tuple[Role, Part]

RUST = """use crate::error::GitAiError;

/// Parameters passed to hook installers of every agent we know
#[derive(Clone)]
pub struct HookInstallerParams {
    pub binary_path: PathBuf,
}

pub trait HookInstaller: Send {
    fn check_hooks(&self) -> Result<(), GitAiError>;
}

pub(crate) async fn install_all() {}
"""
PYTHON = (
    '"""Keeps the answers of the oracle for an hour at most."""\n'
    "import os\n\n\nclass Oracle:\n    def ask(self):\n"
)
GO = "package store\n\nfunc (s *Store) Open(path string) error {\n}\n\ntype Store struct {\n}\n"
TYPESCRIPT = (
    "export const PORT = 3\nexport default async function main() {}\ninterface Options {}\nlet x = 1\n"
)
MARKDOWN = (
    "# The standard\n\n## 1. Logs\n```\n# no heading\n```\n"
    "Every implementation must keep the old notes readable.\n"
)
YAML = "name: build\non:\n  push:\njobs:\n  test:\n"
JSON = '{"name": "x", "scripts": {"test": "y"}}'


def rows_of(*entries: Entry) -> list[Row]:
    return [
        Row(Seq(at), role, 0, None, None, TextId(at), "", (part,))
        for at, (role, part) in enumerate(entries, 1)
    ]


def say(role: Role, text: str) -> Entry:
    return role, Text(text)


def call(call_id: str, name: str, **arguments: Json) -> Entry:
    return "assistant", ToolCall(call_id, name, arguments)


def answer(call_id: str, text: str) -> Entry:
    return "user", ToolResult(call_id, (Text(text),))


def read(path: str, text: str) -> tuple[Entry, Entry]:
    return call(path, "Read", file_path=path), answer(path, text)


def numbered(text: str) -> str:
    return "\n".join(f"{at:>6}→{line}" for at, line in enumerate(text.splitlines(), 1))


def summary(*entries: Entry, target: int = 768) -> str:
    source = RowsSource(rows_of(*entries))
    text = extract(Request(source, 1, TokenCount(target), TokenCount(target)))
    assert text_tokens(text) <= target
    return text


def facts_in(text: str, section: Section) -> list[Fact]:
    parsed = parse(text, "e1..e9")
    assert parsed is not None, text
    return [fact for fact in parsed.facts if fact.section == section]


def told(text: str, section: Section) -> list[str]:
    return [f"{fact.ref} {fact.text}" for fact in facts_in(text, section)]


@pytest.mark.parametrize(
    ("path", "text", "note"),
    [
        (
            "/g/src/hook.rs",
            RUST,
            "struct HookInstallerParams; trait HookInstaller; fn install_all; within: fn check_hooks",
        ),
        (
            "/g/src/oracle.py",
            PYTHON,
            "Keeps the answers of the oracle for an hour at most.; class Oracle; within: def ask",
        ),
        ("/g/src/store.go", GO, "func Open; type Store"),
        ("/g/src/main.ts", TYPESCRIPT, "const PORT; function main; interface Options"),
        ("/g/src/SPEC.md", MARKDOWN, "The standard, 1. Logs"),
        ("/g/src/ci.yml", YAML, "keys name, on, jobs"),
        ("/g/src/package.json", JSON, "keys name, scripts"),
        ("/g/src/notes.bin", "\n\nThe seven bridges of Königsberg\n", "The seven bridges of Königsberg"),
    ],
)
def test_a_file_read_is_told_by_what_it_declares(path: str, text: str, note: str) -> None:
    for shown in (text.rstrip("\n"), numbered(text)):
        notes = told(summary(*read(path, shown)), SEEN)
        assert notes[0].startswith(f"e2 src/{path.rpartition('/')[2]} (")
        assert notes[0].partition(" lines): ")[2] == note


def test_documents_and_comments_that_were_read_are_quoted_after_the_notes() -> None:
    text = summary(*read("/g/SPEC.md", MARKDOWN), *read("/g/a.rs", numbered(RUST)))
    assert "- e2 “Every implementation must keep the old notes readable.”" in text
    assert "- e4 “Parameters passed to hook installers of every agent we know”" in text


def test_a_search_is_told_by_its_counts_and_first_paths() -> None:
    globbed = "\n".join(f"/g/src/deep/f{at}.rs" for at in range(20))
    text = summary(
        call("a", "Glob", pattern="**/*.rs"),
        call("b", "Grep", pattern="hook"),
        call("c", "Grep", pattern="nope"),
        answer("a", globbed),
        answer("b", "src/a.py:7:def hook():\nsrc/a.py-8-    pass\nsrc/b.py:9:hook()"),
        answer("c", "No matches found"),
    )
    notes = told(text, SEEN)
    assert notes[0].startswith("e4 Glob **/*.rs: 20 found under /g/src/deep/: f0.rs, f1.rs, ")
    assert notes[0].endswith("(+8 more)")
    assert notes[1] == "e5 Grep hook: 2 matches in 2 files under src/: a.py, b.py | def hook(): | hook()"
    assert notes[2] == "e6 Grep nope: nothing found"


def test_what_a_tool_answered_is_found_in_its_own_row_and_never_said() -> None:
    text = summary(
        say("user", "look into the notes please"),
        call("a", "Task", description="Explore notes", prompt="x"),
        call("b", "Skill", skill="brainstorming"),
        call("c", "mcp__tracker__get", id="7"),
        answer(
            "a",
            "The notes become orphaned because a squash makes a new commit.\nagentId: abc123 (for resuming)",
        ),
        answer("b", "Launching skill: brainstorming"),
        answer("c", '{"id": 7, "title": "Orphaned notes after squash merges", "state": "open"}'),
        say(
            "assistant", "The squash is the culprit, so we must migrate notes afterwards on the server side."
        ),
        say("user", "good"),
    )
    assert told(text, FOUND) == ["e5 The notes become orphaned because a squash makes a new commit."]
    assert [fact.ref for fact in facts_in(text, SAID)] == ["e8"]
    assert "e7 mcp__tracker__get 7: keys id, title, state" in told(text, SEEN)
    assert "Launching" not in text
    assert "agentId" not in text
    assert '{"id"' not in text


def test_plans_between_calls_are_told_in_order_where_room_is_left() -> None:
    entries = (
        say("assistant", "Let me read the specification first."),
        *read("/g/SPEC.md", MARKDOWN),
        say("assistant", "Now I'll look for the installer hooks."),
        *read("/g/a.rs", RUST),
        say("assistant", "Both are read."),
    )
    assert told(summary(*entries), SAID) == [
        "e1 Let me read the specification first.",
        "e4 Now I'll look for the installer hooks.",
    ]


def test_what_was_seen_never_takes_room_from_what_was_asked_and_done() -> None:
    entries: list[Entry] = []
    for at in range(30):
        entries += [
            say("user", f"please rename the option number {at} everywhere in the code and in its manual"),
            call(f"c{at}", "Bash", command=f"make check-{at}"),
            answer(f"c{at}", f"{at} passed in 0.1s"),
        ]
    seen = [step for at in range(30) for step in read(f"/g/src/f{at}.rs", RUST)]
    plain, full = summary(*entries, target=128), summary(*entries, *seen, target=128)
    for section in (REQUESTS, COMMANDS):
        assert len(facts_in(full, section)) >= len(facts_in(plain, section)) - 1


def test_a_stretch_of_reads_uses_its_room() -> None:
    declared = "\n".join(
        f"/// Keeps the ledger number {at} in good order for its readers\npub fn ledger_{at}() {{}}"
        for at in range(90)
    )
    text = summary(*(step for at in range(4) for step in read(f"/g/src/f{at}.rs", declared)))
    assert text_tokens(text) > 500
    assert "fn ledger_0, ledger_1" in text
    assert " more)" in text


def test_a_parent_merges_what_was_seen_and_drops_it_first() -> None:
    child = summary(
        say("user", "compare both installers"), *read("/g/SPEC.md", MARKDOWN), *read("/g/a.rs", RUST)
    )
    children = [Child("e1..e5", child), Child("e6..e9", child)]

    def condensed(target: int) -> str:
        return extract(Request(NodesSource(children), 1, TokenCount(target), TokenCount(target)))

    assert told(condensed(768), SEEN) == told(child, SEEN)
    assert facts_in(condensed(60), REQUESTS)
    assert not facts_in(condensed(40), SEEN)


def test_a_list_is_cut_after_an_entry_and_counts_the_rest() -> None:
    assert (
        clip_list("a.py (3 lines): def one, two, three, four, five, six, seven", 48)
        == "a.py (3 lines): def one (+6 more)"
    )
    assert clip_list("x: aaaaaaaaaa, bbbbbbbbbb, cccccccccc, dddddddd (+4 more)", 48).endswith("(+6 more)")
    assert clip_list("x" * 100, 48).endswith("…")


@given(
    st.text("ab ., é漢…", max_size=60).filter(lambda text: "……" not in text),
    st.lists(st.integers(4, 60), max_size=6),
)
def test_however_often_a_text_is_cut_it_ends_in_one_ellipsis(text: str, widths: list[int]) -> None:
    for width in widths:
        text = clip(text, width)
        assert utf8_length(text) <= width
        assert "……" not in text
    assert clip("Then it went on... and on", 22) == "Then it went on…"


@pytest.mark.parametrize("piece", ["x", "pub ", "a:1:", "{[", "# \n", "a, "])
def test_giant_outputs_of_every_kind_are_fine(piece: str) -> None:
    def work(size: int) -> None:
        giant = piece * (size // len(piece))
        summary(
            *read("/g/a.rs", giant),
            *read("/g/a.md", giant),
            *read("/g/a.json", giant),
            call("g", "Grep", pattern="x"),
            answer("g", giant),
            call("t", "Task", description="x"),
            answer("t", giant),
            call("b", "Bash", command="git log"),
            answer("b", giant),
        )

    assert growth(work, 300_000) < LINEAR
