"""Keys are masked where text leaves the store, and before it is stored where the owner wants that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commands import Cli
from endpoint import KEY as OWN_KEY
from endpoint import endpoint
from hypothesis import given
from hypothesis import strategies as st
from paying import TALK, force, lines, told, using
from test_redaction import KEYS, A

from lcm_mcp.service import Service
from lcm_mcp.settings import load_settings
from lcm_mcp.transcript.blocks import part_to_json
from lcm_mcp.transcript.model import Opaque, Reasoning, Text, ToolCall, ToolResult
from lcm_mcp.transcript.redacting import Masking

SECRET = "sk-" + "proj-" + A[:48]
VALUE = A[:32]  # a key only by the name it stands under


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPBACK_KEY", OWN_KEY)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], store_path: Path) -> Cli:
    return Cli(capsys, store_path)


def entries() -> list[dict[str, Any]]:
    """A key in every place that a row has for one."""
    call = {
        "type": "tool_use",
        "id": "c1",
        "name": "login",
        "input": {"api_key": VALUE, "deep": [{"k": SECRET}]},
    }
    result = {"type": "tool_result", "tool_use_id": "c1", "content": f"export TOKEN={SECRET}"}
    thought = {"type": "thinking", "thinking": f"I use {SECRET}", "signature": "c2lnbmVk"}
    odd = {"type": "widget", "state": {"client_secret": VALUE, "size": 3}}
    return [
        {"role": "user", "content": f"My key is {SECRET}, keep it.", "entry_id": "u1"},
        {
            "role": "assistant",
            "content": [thought, {"type": "text", "text": "Good."}, call],
            "entry_id": "a1",
        },
        {"role": "user", "content": [result], "entry_id": "u2"},
        {"role": "assistant", "content": [odd], "entry_id": "a2"},
    ]


# --- to models


@pytest.mark.parametrize("kind", ["anthropic", "openai"])
async def test_no_key_is_sent_to_a_model_and_the_observation_counts_them(kind: str, store_path: Path) -> None:
    with endpoint() as found:
        async with using(store_path, found.entry(kind)) as service:
            await service.append(TALK, [{"role": "user", "content": f"The key is {SECRET}. " * 40}])
            await told(service)
            seen = await force(service)
            await service.expand_query(f"Is it {SECRET}?", query="key", session=TALK)
            row = await service.expand("e1", TALK)
        sent = json.dumps(found.asked)
    assert SECRET not in sent
    assert "The key is [redacted:openai-key]. " in sent
    assert "Is it [redacted:openai-key]?" in sent
    assert lines(seen.notes, "40 key-shaped strings were masked in what models were sent.")
    assert SECRET in row.rows[0].text  # what is stored is as it was said


async def test_a_command_is_sent_no_key_either_and_the_owner_may_turn_that_off(store_path: Path) -> None:
    with endpoint() as found:
        settings = {"redactOutgoing": False}
        async with using(store_path, found.entry("openai"), **settings) as service:
            await service.append(TALK, [{"role": "user", "content": f"The key is {SECRET}. " * 40}])
            await told(service)
            seen = await force(service)
        assert SECRET in json.dumps(found.asked)
    assert not lines(seen.notes, "masked")
    heard = store_path.parent / "heard"
    program = ["sh", "-c", f"cat >> '{heard}'; echo It was said."]
    async with using(store_path, {"kind": "command", "command": program}) as service:
        await service.append("t", [{"role": "user", "content": f"The key is {SECRET}. " * 40}])
        await service.append("t", [{"role": "user", "content": "and then? " * 300} for _ in range(3)])
        await service.compact("t", "lcm")
    assert SECRET not in heard.read_text()
    assert "[redacted:openai-key]" in heard.read_text()


# --- exports


@pytest.mark.parametrize("form", ["jsonl", "markdown"])
def test_an_export_is_masked_on_demand_and_else_verbatim(form: str, cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "talk.jsonl"
    file.write_text("".join(json.dumps(entry) + "\n" for entry in entries()))
    cli.done("import", file, "--session", "s")
    plain = cli.done("export", "--session", "s", "--format", form)
    assert SECRET in plain
    masked = cli("export", "--session", "s", "--format", form, "--redact")
    assert (masked.code, masked.err) == (0, "6 keys masked.\n")
    assert SECRET not in masked.out
    assert VALUE not in masked.out
    if form == "jsonl":
        rows = [json.loads(line) for line in masked.out.splitlines()][1:]
        assert [row["entry_id"] for row in rows] == ["u1", "a1", "u2", "a2"]
        thought, _, call = rows[1]["content"]
        assert thought == {"type": "reasoning", "text": "I use [redacted:openai-key]"}
        assert call["arguments"] == {"api_key": "[redacted:secret]", "deep": [{"k": "[redacted:openai-key]"}]}
        # It is what import reads.
        copy = tmp_path / "copy.jsonl"
        copy.write_text(masked.out.replace('{"session":"s"', '{"session":"copy"'))
        cli.done("import", copy)
        assert "[redacted:openai-key]" in cli.done("expand", "e1", "--session", "copy")


# --- before anything is stored


async def test_with_the_setting_no_key_is_stored_and_a_repeat_changes_nothing(store_path: Path) -> None:
    service = Service.open(load_settings({"db": store_path, "redactStored": True}, {}))
    try:
        receipt = await service.append("s", entries())
        assert receipt.notes == (
            "Masked before it was stored, for good (redactStored): 4 openai-key, 2 secret.",
        )
        again = await service.append("s", entries())
        assert (again.duplicates, again.conflicts) == (receipt.refs, ())
        page = await service.expand("e1..e4", "s", include_payload=True)
        assert page.rows[0].text == f"My key is [redacted:openai-key of {len(SECRET)} characters], keep it."
        assert SECRET not in repr(page)
        assert (await service.doctor()).healthy
    finally:
        await service.close()
    stored = b"".join(file.read_bytes() for file in store_path.parent.glob(f"{store_path.name}*"))
    assert SECRET.encode() not in stored
    assert VALUE.encode() not in stored


def test_an_import_counts_what_it_did_not_store(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LCM_REDACT_STORED", "true")
    file = tmp_path / "talk.jsonl"
    file.write_text("".join(json.dumps(entry) + "\n" for entry in entries()))
    assert "masked  4 openai-key, 2 secret (not stored)" in cli.done("import", file, "--session", "s")
    assert cli.answer("grep", SECRET, "--session", "s")["hits"] == []
    # What the followed file grows by is masked as well.
    with file.open("a") as more:
        more.write(json.dumps({"role": "user", "content": f"Again {SECRET}", "entry_id": "u3"}) + "\n")
    assert "Again [redacted:openai-key of" in cli.done("expand", "e5", "--session", "s")


# --- parts


def test_a_call_keeps_its_shape_and_a_signature_of_other_words_goes() -> None:
    masking = Masking()
    parts = masking.parts(
        [
            Reasoning("plain", {"signature": "s"}),
            Reasoning(f"has {SECRET}", {"signature": "s", "id": "r1"}),
            ToolCall("c", "login", f"token={VALUE}"),
            ToolResult("c", (Text(f"password: {VALUE}"), Opaque({"type": "x", "token": VALUE}))),
        ]
    )
    assert parts[0] == Reasoning("plain", {"signature": "s"})
    assert parts[1] == Reasoning("has [redacted:openai-key]", {"id": "r1"})
    assert parts[2] == ToolCall("c", "login", "token=[redacted:secret]")
    assert parts[3] == ToolResult(
        "c", (Text("password: [redacted:secret]"), Opaque({"type": "x", "token": "[redacted:secret]"}))
    )
    assert masking.masked == {"openai-key": 1, "secret": 3}


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(value=_JSON, key=st.sampled_from([key for _, key in KEYS]), path=st.lists(st.booleans(), max_size=4))
def test_no_key_survives_at_any_depth_and_what_is_none_is_left(
    value: Any, key: str, path: list[bool]
) -> None:
    nested: Any = f"see {key} there"
    for in_list in path:
        nested = [value, nested] if in_list else {"a": nested, "b": value}
    (masked,) = Masking().parts([ToolCall("c", "n", nested)])
    assert key not in json.dumps(part_to_json(masked))
    (plain,) = Masking().parts([ToolCall("c", "n", {"v": value})])
    assert plain == ToolCall("c", "n", {"v": value})
