"""Exports of chat services, made up on the spot in the shapes that are documented."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Node = tuple[str, str | None, str | None, str | None]
"""A message: its id, the one above it, its role and its text; without a role it is none."""


TREE: list[Node] = [
    ("root", None, None, None),
    ("empty", "root", "system", ""),
    ("u1", "empty", "user", "what is a monad?"),
    ("a1", "u1", "assistant", "a burrito"),
    ("u2", "a1", "user", "no, really"),
    ("a2", "u2", "assistant", "a monoid"),
    ("a1b", "u1", "assistant", "a box"),
    ("u2b", "a1b", "user", "thanks"),
]

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
OPENAI: list[dict[str, Any]] = [
    {"role": "developer", "content": "be brief"},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "weather?"},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
        ],
    },
    {
        "role": "assistant",
        "content": None,
        "reasoning_content": "hm",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "w", "arguments": '{"city": "B"}'}}
        ],
        "provider_specific_fields": {"x": 1},
    },
    {"role": "tool", "tool_call_id": "c1", "content": "rain"},
    {"role": "assistant", "content": "It rains.", "refusal": None, "annotations": []},
]
ANTHROPIC: dict[str, Any] = {
    "model": "claude-x",
    "max_tokens": 100,
    "system": [{"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}],
    "tools": [{"name": "w", "input_schema": {}}],
    "messages": [
        {"role": "user", "content": "weather?"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "tool_use", "id": "c1", "name": "w", "input": {"city": "B"}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "rain"}]},
        {"role": "assistant", "content": "It rains."},
    ],
}


def chatgpt(
    key: str, nodes: Sequence[Node], current: str | None, times: Mapping[str, float] | None = None
) -> Any:
    """A conversation of a ChatGPT export."""
    mapping: dict[str, Any] = {}
    for name, parent, role, text in nodes:
        message: Any = None
        if role is not None:
            message = {
                "id": name,
                "author": {"role": role, "name": None, "metadata": {}},
                "create_time": (times or {}).get(name),
                "content": {"content_type": "text", "parts": [text]},
                "status": "finished_successfully",
                "weight": 1.0,
                "metadata": {},
                "recipient": "all",
            }
        children = [each for each, above, *_ in nodes if above == name]
        mapping[name] = {"id": name, "message": message, "parent": parent, "children": children}
    return {
        "title": f"About {key}",
        "create_time": 1_700_000_000.5,
        "update_time": None,
        "mapping": mapping,
        "current_node": current,
        "conversation_id": key,
        "id": key,
    }


def claude_ai(key: str, *messages: Mapping[str, Any]) -> Any:
    """A conversation of a Claude.ai export."""
    made: dict[str, Any] = {
        "uuid": key,
        "name": f"About {key}",
        "created_at": "2025-01-01T00:00:00.000000Z",
        "updated_at": "2025-01-01T00:00:00.000000Z",
        "account": {"uuid": "account-1"},
        "chat_messages": [
            {
                "attachments": [],
                "files": [],
                "created_at": "2025-01-01T00:00:00.000000Z",
                "content": [],
                **message,
            }
            for message in messages
        ],
    }
    return made


def written(path: Path, document: object, indent: int | None = None) -> Path:
    path.write_text(json.dumps(document, indent=indent), encoding="utf-8")
    return path


def archive(path: Path, **documents: object) -> Path:
    """A zip archive of JSON files by their names without the ending."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("user.json", "{}")
        packed.writestr("chat.html", "<html></html>")
        for name, document in documents.items():
            packed.writestr(f"export/{name.replace('_', '-')}.json", json.dumps(document))
    return path
