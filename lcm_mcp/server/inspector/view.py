"""Summaries and context as one document that a client shows beside a tool's answer (MCP Apps).

It is the inspector's own code: the same modules in one script, with the client asked where the page asks the
server. A client that shows no views sees the tool's text, which says all of it. Refused: any address but its
own, and anything from elsewhere.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any, Final

import mcp_types as types

from lcm_mcp import __version__
from lcm_mcp.server.inspector.pages import FOLDER

URI: Final = "ui://lcm/inspector.html"
MEDIA_TYPE: Final = "text/html;profile=mcp-app"
SHOWN_FOR: Final = ("lcm_list", "prepare_context")
"""The tools beside whose answers it is shown."""
_OWN: Final = Path(__file__).parent / "view"
# In the order in which they need each other; the client stands in for the server.
_MODULES: Final = (
    ("dom.js", FOLDER / "dom.js"),
    ("host.js", _OWN / "host.js"),
    ("conversation.js", FOLDER / "conversation.js"),
    ("dag.js", FOLDER / "dag.js"),
    ("context.js", FOLDER / "context.js"),
)
_IMPORT: Final = re.compile(r'^import (?:\* as (\w+)|\{(.*?)\}) from "\./([\w.]+)";$', re.MULTILINE)
_EXPORT: Final = re.compile(r"^export (?=(?:async function|function|class|const) (\w+))", re.MULTILINE)


def meta_of(tool: str) -> dict[str, Any] | None:
    """What tells a client that a tool's answer has a view."""
    return {"ui": {"resourceUri": URI}} if tool in SHOWN_FOR else None


def view_contents() -> types.ReadResourceResult:
    contents = types.TextResourceContents(
        uri=URI, mime_type=MEDIA_TYPE, text=document(), _meta={"ui": {"prefersBorder": True}}
    )
    return types.ReadResourceResult(contents=[contents])


@cache
def document() -> str:
    """The whole document: no address in it is fetched."""
    styles = "\n".join((FOLDER / name).read_text(encoding="utf-8") for name in ("page.css", "pictures.css"))
    modules = "\n".join(_module(name, path) for name, path in _MODULES)
    script = f"const modules = {{}};\n{modules}\n{_imported((_OWN / 'view.js').read_text(encoding='utf-8'))}"
    assert "</script" not in script
    return _PAGE.format(version=__version__, styles=styles, script=script)


def _module(name: str, path: Path) -> str:
    """A module as a function that gives what it exports."""
    text = path.read_text(encoding="utf-8")
    exported = ", ".join(_EXPORT.findall(text))
    body = _EXPORT.sub("", _imported(text))
    return f'modules["{name}"] = (() => {{\n{body}\nreturn {{ {exported} }};\n}})();'


def _imported(text: str) -> str:
    def taken(found: re.Match[str]) -> str:
        whole, some, name = found.groups()
        source = "host.js" if name == "ask.js" else name
        return f'const {whole or f"{{{some}}}"} = modules["{source}"];'

    return _IMPORT.sub(taken, text)


_PAGE: Final = """<!doctype html>
<html lang="en" data-version="{version}">
<head><meta charset="utf-8"><title>lcm-mcp</title><style>
{styles}
</style></head>
<body><main><p>Loading …</p></main><script type="module">
{script}
</script></body>
</html>
"""
