"""lcm_fork and lcm_rewind as clients use them: what comes along, what is removed, how sessions are linked."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from asking import dump, look, same
from commands import Cli
from connecting import answered, connected
from harbour import call, folded, memory
from turns import KEY, Writer, ask, said, turns, using
from viewbook import canonical

from lcm_mcp.errors import LcmError
from lcm_mcp.projection.model import FORMATS
from lcm_mcp.service import Service
from lcm_mcp.service.answers import Hit
from lcm_mcp.service.requests import GrepQuery, PrepareQuery

NOW = PrepareQuery(window_tokens=4000)


def row(role: str, text: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": text, **more}


async def active(service: Service, key: str) -> list[str]:
    """The rows of a request that shows the plain history."""
    query = PrepareQuery(key, strategy="none", compact="never", detail=True)
    return [ref for shown in (await service.prepare(query)).messages for ref in shown.sources]


# --- forks


async def test_the_first_request_of_a_fork_is_its_parents_byte_for_byte(store_path: Path) -> None:
    async with memory(store_path) as service:
        await folded(service)
        texts = len((await dump(service))["text"])
        fork = (await call(service, "lcm_fork", session="harbour", new_session="try")).structured
        assert (fork["rows"], fork["at"], fork["nodes_omitted"], fork["created"]) == (160, "e160", 0, True)
        nodes = (await service.list_nodes("harbour", limit=100)).total
        assert fork["nodes_copied"] == nodes > 0
        views = [await look(service, PrepareQuery(key, window_tokens=4000)) for key in ("harbour", "try")]
        assert views[0]["messages"].cut is not None
        for form in FORMATS:
            assert canonical(views[0][form].messages) == canonical(views[1][form].messages)
        assert len((await dump(service))["text"]) == texts


async def test_a_fork_in_the_midst_leaves_behind_the_nodes_that_reach_beyond(store_path: Path) -> None:
    async with using(store_path, Writer(), settings={"lcm.leafChunkTokens": 512}) as service:
        await service.append(KEY, turns(1, 12))
        await ask(service, strategy="lcm", compact="force")
        nodes = (await service.list_nodes(KEY, limit=100)).nodes
        at = nodes[1].span[1]
        fork = await service.fork(KEY, f"e{int(at[1:]) + 1}", "mid")
        kept = (await service.list_nodes("mid", limit=100)).nodes
        ends = int(at[1:])
        assert [node.id for node in kept] == [node.id for node in nodes if int(node.span[1][1:]) <= ends]
        assert (fork.nodes_copied, fork.nodes_omitted) == (len(kept), len(nodes) - len(kept))
        assert fork.nodes_omitted > 0


async def test_leaves_over_a_unit_that_is_not_complete_at_the_checkpoint_are_left_behind(
    store_path: Path,
) -> None:
    async with using(store_path, Writer(), settings={"lcm.leafChunkTokens": 512}) as service:
        work = [said("assistant", f"step {number}", 300) for number in range(8)]
        await service.append(KEY, [said("user", "one long request", 100), *work, *turns(2, 6)])
        await ask(service, strategy="lcm", compact="force")
        leaf = (await service.list_nodes(KEY, depth=0)).nodes[0]
        assert int(leaf.span[1][1:]) < 9
        assert (await service.fork(KEY, "e9", "whole")).nodes_copied > 0
        assert (await service.fork(KEY, "e8", "cut short")).nodes_copied == 0


async def test_a_running_summary_stays_with_the_session_it_was_made_for(store_path: Path) -> None:
    async with using(store_path, Writer()) as service:
        await service.append(KEY, turns(1, 12))
        assert (await ask(service, strategy="rolling", compact="force")).cut == "c1"
        await service.fork(KEY, None, "try")
        view = (await look(service, PrepareQuery("try", window_tokens=9000)))["messages"]
        assert (view.cut, len(view.tail)) == (None, 24)


async def test_the_same_fork_again_says_that_it_is_there_and_another_is_refused(store_path: Path) -> None:
    async with memory(store_path) as service:
        await folded(service)
        first = (await call(service, "lcm_fork", session="harbour", at="u20", new_session="try")).structured
        before = await dump(service)
        again = await call(service, "lcm_fork", session="harbour", at="u20", new_session="try")
        assert again.structured == first | {"created": False}
        assert "was there already" in again.text
        await same(service, before)
        with pytest.raises(
            LcmError, match="there is a session 'try' already, and it is no fork from this row"
        ):
            await call(service, "lcm_fork", session="harbour", at="u21", new_session="try")
        keys = [(await service.fork("harbour", "u20")).session for _ in range(2)]
        assert keys == ["harbour/fork-e81", "harbour/fork-e81-2"]


async def test_a_fork_takes_along_identities_pins_and_open_calls_but_no_removed_row(store_path: Path) -> None:
    async with memory(store_path) as service:
        called: dict[str, Any] = {"type": "tool_use", "id": "c", "name": "measure", "input": {}}
        await service.append("s", [row("user", "a", entry_id="a", pin=True), row("assistant", "b")])
        await service.append("s", [row("user", "other way", parent="a")])
        await service.append("s", [{"role": "assistant", "content": [called], "parent": "e2"}])
        assert await active(service, "s") == ["e1", "e2", "e4"]
        fork = await service.fork("s", None, "try")
        assert (fork.rows, fork.last_seq) == (3, 4)
        line = next(line for line in (await service.sessions(project="*")).sessions if line.key == "try")
        assert (line.rows, line.parent, line.link, line.opener) == (3, "s", "fork", "e4")
        answer = {"role": "tool", "tool_call_id": "c", "content": "7"}
        receipt = await service.append("try", [row("user", "a", entry_id="a"), answer])
        assert (receipt.duplicates, receipt.refs[1]) == (("e1",), "e5")
        messages = (await service.prepare(PrepareQuery("try", format="anthropic", compact="never"))).messages
        assert messages[-1].message["content"][0]["type"] == "tool_result"  # pyright: ignore
        assert [pin.ref for pin in (await service.pin([], "try")).pinned] == ["e1"]


async def test_a_marker_says_where_a_fork_came_from_and_an_outcome_leads_back(store_path: Path) -> None:
    async with connected("memory", "auto", store_path) as client:
        await answered(
            client, "lcm_append", session="s", entries=[row("user", "Try both."), row("user", "b")]
        )
        fork = await answered(client, "lcm_fork", session="s", at="e1", new_session="try", marker=True)
        assert (fork["marker"], fork["last_seq"]) == ("e2", 2)
        (marker,) = (await answered(client, "lcm_expand", id="e2", session="try"))["rows"]
        assert marker["text"] == "[lcm:fork] This conversation was forked from session 's' at s1/e1."
        told = [row("assistant", "The other way failed.", outcome_of="try")]
        await answered(client, "lcm_append", session="s", entries=told)
        begun = (await answered(client, "lcm_describe", id="e1", session="s"))["row"]
        ended = (await answered(client, "lcm_describe", id="e3", session="s"))["row"]
        assert (begun["child_sessions"], begun["outcome_of"]) == (["try"], [])
        assert (ended["child_sessions"], ended["outcome_of"]) == ([], ["try"])
        lines = (await answered(client, "lcm_sessions", project="*"))["sessions"]
        line = next(line for line in lines if line["key"] == "try")
        assert (line["parent"], line["opener"], line["outcome"]) == ("s", "e1", "e3")


async def test_a_row_that_many_sessions_start_from_names_the_first_and_counts_the_others(
    store_path: Path,
) -> None:
    async with memory(store_path) as service:
        await service.append("s", [row("user", "Try them all.")])
        for number in range(53):
            await service.fork("s", "e1", f"try{number}")
        begun = (await service.describe("e1", "s")).row
        assert begun is not None
        assert (begun.child_sessions[0], len(begun.child_sessions), begun.child_count) == ("try0", 50, 53)
        text = (await call(service, "lcm_describe", id="e1", session="s")).text
        assert "'try49' (+3 more; lcm_sessions names each's parent)" in text.replace('"', "'")
        (shown,) = (await service.converse("s")).rows
        assert (len(shown.starts), shown.more_starts) == (50, 3)


async def test_a_row_that_stands_in_several_sessions_is_one_hit_that_says_so(store_path: Path) -> None:
    async with memory(store_path) as service:
        await service.append("s", [row("user", "the needle"), row("assistant", "found")])
        for name in ("one", "two"):
            await service.fork("s", None, name)
        (hit,) = (await service.grep(GrepQuery("needle", session="*"))).hits
        assert (hit.session, hit.ref, hit.also) == ("s", "s1/e1", ("one", "two"))


async def test_pages_give_each_text_of_several_sessions_once_and_show_one_that_has_it_still(
    store_path: Path,
) -> None:
    async with memory(store_path) as service:
        await service.append("s", [row("user", f"needle {number}") for number in range(6)])
        for name in ("one", "two"):
            await service.fork("s", None, name)
        await service.rewind("e2", "s")
        orders: tuple[Literal["newest", "oldest"], ...] = ("newest", "oldest")
        for order in orders:
            hits: list[Hit] = []
            query = GrepQuery("needle", session="*", order=order, limit=1)
            while True:
                page = await service.grep(query)
                hits += page.hits
                if page.next_cursor is None:
                    break
                query = replace(query, cursor=page.next_cursor)
            found = [(hit.session, hit.ref[3:], hit.removed) for hit in hits]
            wanted = [("s" if number < 3 else "one", f"e{number}", False) for number in range(1, 7)]
            assert found == (wanted if order == "oldest" else wanted[::-1])


# --- rewinds and branches


async def test_a_rewind_removes_rows_and_a_way_back_restores_them(store_path: Path) -> None:
    async with connected("memory", "auto", store_path) as client:
        entries = [row("user", f"word {number}", entry_id=f"u{number}") for number in range(1, 7)]
        await answered(client, "lcm_append", session="s", entries=entries)
        moved = await answered(client, "lcm_rewind", session="s", to="u2")
        assert (moved["removed"], moved["restored"], moved["leaf"]) == (4, 0, "e2")
        assert (await answered(client, "lcm_grep", pattern="word 5", session="s"))["hits"] == []
        (hit,) = (await answered(client, "lcm_grep", pattern="word 5", session="s", include_removed=True))[
            "hits"
        ]
        assert (hit["ref"], hit["removed"]) == ("e5", True)
        assert (await answered(client, "lcm_expand", id="e5", session="s"))["rows"][0]["removed"]
        assert (await answered(client, "lcm_describe", id="e5", session="s"))["row"]["removed"]
        await answered(client, "lcm_append", session="s", entries=[row("user", "another way")])
        moved = await answered(client, "lcm_rewind", session="s", to="e6")
        assert (moved["removed"], moved["restored"], moved["leaf"]) == (1, 4, "e6")
        assert (await answered(client, "lcm_grep", pattern="word 5", session="s"))["hits"]


async def test_a_branch_that_comes_back_brings_its_nodes_and_its_cut(store_path: Path) -> None:
    async with using(store_path, Writer()) as service:
        await service.append(KEY, turns(1, 12))
        before = await ask(service, strategy="lcm", compact="force")
        await service.rewind("e2", KEY)
        assert (await ask(service, compact="never")).cut is None
        nodes = (await service.list_nodes(KEY)).nodes
        assert all(node.removed and not node.frontier for node in nodes)
        await service.rewind("e24", KEY)
        after = await ask(service, compact="never")
        assert (after.cut, canonical(after.messages)) == (before.cut, canonical(before.messages))
        assert not any(node.removed for node in (await service.list_nodes(KEY)).nodes)


async def test_a_running_summary_counts_while_its_tail_is_on_the_path(store_path: Path) -> None:
    async with using(store_path, Writer()) as service:
        await service.append(KEY, turns(1, 12))
        view = await ask(service, strategy="rolling", compact="force")
        start = int(view.tail[0][1:])
        await service.rewind(f"e{start}", KEY)
        assert (await ask(service, compact="never")).cut == view.cut
        await service.rewind(f"e{start - 1}", KEY)
        assert (await ask(service, compact="never")).cut is None


async def test_an_entry_under_an_earlier_row_starts_a_branch_and_says_what_it_removed(
    store_path: Path,
) -> None:
    async with memory(store_path) as service:
        await service.append("s", [row("user", "a", entry_id="a"), row("assistant", "b"), row("user", "c")])
        receipt = await service.append("s", [row("assistant", "d", entry_id="d", parent="a")])
        assert receipt.notes == (
            "2 rows after e1 are off the path now: a branch starts there. lcm_rewind to e3 brings them back.",
        )
        assert await active(service, "s") == ["e1", "e4"]
        back = await service.append("s", [row("user", "on", parent="e2")])
        assert back.notes == (
            "1 row after e1 is off the path now: a branch starts there. lcm_rewind to e4 brings it back.",
            "1 removed row up to e2 is on the path again.",
        )
        await service.rewind("e4", "s")
        chain = [row("user", "e", parent="d", entry_id="e"), row("assistant", "f", parent="e")]
        assert (await service.append("s", chain)).notes == ()
        assert await active(service, "s") == ["e1", "e4", "e6", "e7"]


async def test_blocks_and_results_of_one_message_are_siblings_and_all_stay(store_path: Path) -> None:
    def block(part: dict[str, Any], **more: Any) -> dict[str, Any]:
        return {"role": "assistant", "content": [part], "message_id": "m", **more}

    def used(call_id: str) -> dict[str, Any]:
        return {"type": "tool_use", "id": call_id, "name": "measure", "input": {}}

    def result(call_id: str, **more: Any) -> dict[str, Any]:
        return {"role": "tool", "tool_call_id": call_id, "content": call_id, **more}

    async with memory(store_path) as service:
        entries = [
            row("user", "measure both", entry_id="u"),
            block(used("x"), entry_id="x", parent="u"),
            block(used("y"), entry_id="y", parent="x"),
            result("x", entry_id="rx", parent="x"),
            result("y", entry_id="ry", parent="y"),
            row("system", "progress", parent="x"),
            row("assistant", "done", parent="rx", entry_id="done"),
        ]
        assert (await service.append("s", entries)).notes == ()
        assert await active(service, "s") == [f"e{seq}" for seq in range(1, 8)]
        again = await service.append("s", [row("assistant", "done otherwise", parent="ry")])
        assert len(again.notes) == 1
        assert "e7" not in await active(service, "s")


async def test_a_result_answers_a_call_again_on_another_branch(store_path: Path) -> None:
    called: dict[str, Any] = {"type": "tool_use", "id": "c", "name": "measure", "input": {}}
    result = {"role": "tool", "tool_call_id": "c", "content": "7"}
    async with memory(store_path) as service:
        await service.append("s", [row("user", "a"), {"role": "assistant", "content": [called]}, result])
        await service.rewind("e2", "s")
        await service.append("s", [result])
        messages = (await service.prepare(PrepareQuery("s", format="openai", compact="never"))).messages
        assert messages[-1].message["role"] == "tool"
        assert messages[-1].sources == ("e4",)


# --- files with branches, and the tree


def branching_file(path: Path) -> Path:
    def line(uuid: str, parent: str | None, text: str, kind: str = "user", **more: object) -> str:
        message = {"role": kind, "content": text}
        return json.dumps({"type": kind, "uuid": uuid, "parentUuid": parent, "message": message, **more})

    lines = [
        line("u1", None, "How is it opened?"),
        line("a1", "u1", "So.", "assistant"),
        json.dumps({"type": "system", "uuid": "s1", "parentUuid": "a1", "content": "turn ended"}),
        line("u2", "s1", "How is it closed?"),
        line("a2", "u2", "So.", "assistant"),
        line("m3", "s1", "A note of the client", isMeta=True),
        line("u3", "s1", "How is it kept open?"),
        line("a3", "u3", "Hold it.", "assistant"),
        line("u4", "gone", "And then?"),
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


async def test_a_second_prompt_under_one_row_of_a_file_makes_a_branch(store_path: Path) -> None:
    async with memory(store_path) as service:
        file = branching_file(store_path.parent / "branches.jsonl")
        await service.import_file(file, session="s", fold=False)
        assert await active(service, "s") == ["e1", "e2", "e6", "e7", "e8"]
        before = await dump(service)
        await service.import_file(file, session="s", fold=False)
        await same(service, before)


def test_the_tree_shows_branches_forks_and_where_they_start(
    capsys: pytest.CaptureFixture[str], store_path: Path
) -> None:
    run = Cli(capsys, store_path)
    run.done("import", branching_file(store_path.parent / "branches.jsonl"), "--session", "s", "--no-fold")
    assert run.done("--session", "s", "fork", "u2", "--as", "try", "--marker") == (
        "try (s2): forked from s at e3; 3 rows, 0 nodes copied, 0 omitted.\n"
    )
    assert run.done("--session", "s", "tree").splitlines() == [
        "s  3 units, 5 rows, 75 tokens; 1 removed branch",
        "├── e1..e2  2 rows, 29 tokens  How is it opened?",
        "│   └── [removed] after e2  3 rows, 46 tokens",
        "│       ├── e3..e4  2 rows, 29 tokens  How is it closed?",
        "│       │   └── fork try (s2) from e3  4 rows",
        "│       └── e5  1 row, 17 tokens  A note of the client",
        "├── e6..e7  2 rows, 31 tokens  How is it kept open?",
        "└── e8  1 row, 15 tokens  And then?",
    ]
    assert run.done("--session", "s", "rewind", "a2") == "s ends at e4 now: 3 rows removed, 2 restored.\n"
    tree = run.answer("--session", "s", "tree")
    assert [branch["active"] for branch in tree["branches"]] == [True, False, False]
    assert run.refusal("--session", "s", "rewind", "e99").startswith("lcm-mcp: to: 'e99' is neither a row")
    assert run.answer("--session", "try", "tree")["opener"] == "e3"
