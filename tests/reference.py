"""docs/tools.md and docs/configuration.md as the code has them: `make reference` writes, a test compares.

What a setting is for, and its default in words, stand in the page's own table and are kept; its name and
limits come from the settings, tools from their own descriptions and schemas. The examples are calls that are
made while the page is written.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import chdir
from pathlib import Path
from typing import Any

import anyio
from harbour import call, memory
from refresh_readme import README

from lcm_mcp.server.published import FILE, derived
from lcm_mcp.settings import KEYS, Settings, variable
from lcm_mcp.tools.tool import Tool
from lcm_mcp.tools.toolsets import TOOLS, TOOLSETS

DOCS = README.parent / "docs"
EXAMPLES: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "lcm_append",
        {
            "session": "harbour",
            "entries": [
                {"role": "user", "content": "How long is pier 4?", "at": "2026-01-31T10:00:00Z"},
                {"role": "assistant", "content": "Pier 4 is 218 metres long.", "at": "2026-01-31T10:00:05Z"},
            ],
        },
    ),
    ("lcm_sessions", {"query": "harb"}),
    ("lcm_grep", {"pattern": "218 metres", "session": "*"}),
    ("lcm_expand", {"id": "s1/e2"}),
    ("prepare_context", {"session": "harbour", "window_tokens": 200000, "format": "openai"}),
)
_MADE_FROM = "<!-- Made from the code by `make reference`; what is wrong here is wrong there. -->"


def pages() -> dict[Path, str]:
    published = derived().model_dump_json(by_alias=True, exclude_none=True, indent=1) + "\n"
    return {DOCS / "tools.md": tools_page(), DOCS / "configuration.md": configuration_page(), FILE: published}


def tools_page() -> str:
    listed = "\n".join(line for tool in TOOLS for line in _tool(tool))
    return _TOOLS.format(made=_MADE_FROM, tools=listed, examples="\n".join(anyio.run(_examples)))


def _tool(tool: Tool[Any, Any]) -> Iterator[str]:
    schema = tool.input_schema
    yield from (f"## {tool.name}", "", f"{tool.title}. {_effects(tool)}", "")
    yield from (f"> {line}".rstrip() for line in tool.description.replace("\n", "\n\n").split("\n"))
    yield from ("", "| argument | | default | |", "|---|---|---|---|")
    for name, one in schema["properties"].items():
        wanted = "required" if name in schema.get("required", ()) else _code(one.get("default"))
        yield f"| `{name}` | {_kind(one)} | {wanted} | {_cell(one.get('description', ''))} |"
    yield from ("", f"Answers {_fields(tool.output_schema)}.", "")


def _effects(tool: Tool[Any, Any]) -> str:
    sets = [name for name, tools in TOOLSETS.items() if tool.name in {each.name for each in tools}]
    does = "It only reads." if tool.effects.read_only else "It changes what is stored."
    if tool.effects.destructive:
        does += " What it takes off the path stays stored."
    return f"Toolsets: {', '.join(sets)}. {does}"


def _fields(schema: Mapping[str, Any]) -> str:
    return ", ".join(f"`{name}`{_inner(one)}" for name, one in schema["properties"].items())


def _inner(schema: Mapping[str, Any]) -> str:
    """The fields of the objects that a field holds."""
    held = (schema, *schema.get("anyOf", ()), schema.get("items", {}))
    found = next((each["required"] for each in held if "required" in each), ())
    return f" ({', '.join(found)})" if found else ""


def _kind(schema: Mapping[str, Any]) -> str:
    """What a value may be, in words."""
    match schema:
        case {"enum": [*values]}:
            return " or ".join(map(_code, values))
        case {"type": "integer", "minimum": least, "maximum": most}:
            return f"{least:,} to {most:,}"
        case {"type": "integer"}:
            return "a whole number"
        case {"type": "string", "maxLength": most}:
            return f"a text of at most {most} characters"
        case {"type": "boolean"}:
            return "`true` or `false`"
        case {"type": "array"}:
            return "a list of objects"
        case {"type": "object"}:
            return f"an object: {', '.join(f'`{name}`' for name in schema.get('properties', ()))}"
        case _:
            return "a text"


def _code(value: object) -> str:
    return "" if value is None else f"`{value if isinstance(value, str) else json.dumps(value)}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


async def _examples() -> list[str]:
    lines: list[str] = []
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        async with memory(Path(folder) / "lcm.sqlite") as service:
            for name, arguments in EXAMPLES:
                answer = await call(service, name, **arguments)
                lines += ["```", f"{name} {json.dumps(arguments)}", "```", "", "````"]
                lines += [*answer.text.replace(os.getcwd(), "/home/ada/harbour").split("\n"), "````", ""]
    return lines[:-1]


def configuration_page() -> str:
    schema = Settings.model_json_schema(by_alias=True, mode="serialization")
    told = _told()
    rows = [
        f"| `{key}` | `{variable(key)}` | {_setting(schema, key)} | {' | '.join(told[key])} |" for key in KEYS
    ]
    return _CONFIGURATION.format(rows="\n".join(rows), made=_MADE_FROM)


def _setting(schema: Mapping[str, Any], key: str) -> str:
    one = schema
    for name in key.split("."):
        one = one["properties"][name]
        while "$ref" in one:
            one = schema["$defs"][one["$ref"].rpartition("/")[2]]
        one = next((each for each in one.get("anyOf", ()) if each.get("type") != "null"), one)
    return _SPECIAL.get(key) or _kind({**one, **_limits(one)})


def _limits(schema: Mapping[str, Any]) -> dict[str, int]:
    """The limits of a number that is checked before it is read; its schema has them by pydantic's names."""
    least = schema.get("ge", schema.get("gt", -1) + 1)
    most = schema.get("le", schema.get("lt", 0) - 1)
    return {"minimum": least, "maximum": most} if "type" in schema and most > 0 else {}


def _told() -> dict[str, tuple[str, str]]:
    """Of each setting its default and what it is for, from the page as it is; a new one is told there."""
    table = re.compile(r"^\| `([\w.]+)` \| `LCM_\w+` \| .*? \| (.*?) ?\| (.*) \|$", re.MULTILINE)
    rows = table.findall((DOCS / "configuration.md").read_text(encoding="utf-8"))
    told = {key: (default, words) for key, default, words in rows}
    return {key: told.get(key, ("?", "?")) for key in KEYS}


_SPECIAL = {
    "db": "a path",
    "token": "16 to 512 characters without spaces",
    "summarizers": "a list, see [Models](models.md)",
}
_TOOLS = """# Tools

{made}

What a model sees of each tool: its description, its arguments and its answer. Every answer is given as text and, with
the fields named here, as structured content. An argument without a default may be left out, unless it is required.
[Serving](serving.md) says what a toolset is.

{tools}
## Examples

Calls on an empty store, one after another, and the text that each answers.

{examples}
"""  # noqa: E501
_CONFIGURATION = """# Configuration

{made}

Every setting has a key, written nested in `settings.json`, and a variable. The file is read first (in the platform's
config folder, or where `LCM_SETTINGS` says), then the environment, then flags such as `--db`; the later wins. An empty
variable counts as unset. `lcm-mcp doctor` shows each value in force and where it came from.

| key | variable | takes | default | |
|---|---|---|---|---|
{rows}

A file that sets a few:

```json
{{"strategy": "lcm", "lcm": {{"triggerPercent": 80, "swapPercent": 60}}, "foldImports": false}}
```

A name that is no setting, and a value that cannot hold, stop every command with one line that names it:

```
$ LCM_STRATEGIE=lcm lcm-mcp sessions
lcm-mcp: LCM_STRATEGIE in the environment is no setting. Did you mean LCM_STRATEGY? Allowed: …
$ LCM_LCM_TRIGGER_PERCENT=120 lcm-mcp sessions
lcm-mcp: lcm.triggerPercent cannot be "120" (from LCM_LCM_TRIGGER_PERCENT): it should be less than 100.
```

What a compaction leaves standing must stay below the line that starts it: `rolling.tailPercent` and
`pinnedRowsPercent` together below `rolling.triggerPercent`; `lcm.tailPercent`, `lcm.summaryPercent` and
`pinnedRowsPercent` below `lcm.swapPercent`, or where that is unset below `lcm.triggerPercent`.
"""  # noqa: E501


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
