"""Documents with marks: Markdown and HTML by their headings, XML by its root and what stands under it,
diffs by the files they change.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from html.parser import HTMLParser
from xml.parsers import expat

from lcm_mcp.transcript.exploring.bodies import Body
from lcm_mcp.transcript.exploring.naming import listed
from lcm_mcp.wording import counted

_MARKDOWN = frozenset(("md", "mdx", "markdown", "mdown", "mkd"))
_HTML = frozenset(("html", "htm", "xhtml"))
_XML = frozenset(("xml", "svg", "xsd", "xsl", "xslt", "plist", "rss", "atom", "pom", "csproj", "xaml"))
_HEADING = re.compile(r"#{1,6} +(.{1,200})")
_FENCE = ("```", "~~~")
_DIFF = re.compile(r"^(?:diff --git a/(\S+) |\+\+\+ b/(\S+))", re.MULTILINE)
_HEADINGS = ("title", "h1", "h2", "h3")
_LEAST_HEADINGS = 2
# The parser is slow on what is no HTML after all.
_HTML_CHARACTERS = 50_000


def marked_up(body: Body) -> tuple[str, str] | None:
    """Of what says in its first characters, or by its path and its headings, what it is."""
    start = body.text[:400].lstrip().lower()
    if start.startswith(("diff --git ", "--- a/")):
        return "diff", listed(_files(body), _changed(body.ruled))
    if start.startswith(("<!doctype html", "<html")):
        return _html(body)
    if start.startswith("<?xml") or (body.extension in _XML and start.startswith("<")):
        return _xml(body)
    if body.extension in _HTML and start.startswith("<"):
        return _html(body)
    return headed(body, least=1) if body.extension in _MARKDOWN else None


def headed(body: Body, least: int = _LEAST_HEADINGS) -> tuple[str, str] | None:
    """A body with Markdown's headings, outside its fenced parts. Lines that begin with # are comments in
    most other files, so what has another extension is not taken for it."""
    if body.extension not in _MARKDOWN and body.extension not in ("", "txt"):
        return None
    headings = list(_headings(body.ruled))
    if len(headings) < least or (least > 1 and "\n## " not in body.ruled):
        return None
    return "markdown", listed(f"{counted(body.lines, 'line')}, headings", headings)


def _headings(text: str) -> Iterator[str]:
    fence = ""
    for line in text.split("\n"):
        if fence:
            fence = "" if line.startswith(fence) else fence
        elif line.startswith(_FENCE):
            fence = line[:3]
        elif found := _HEADING.fullmatch(line.rstrip()[:207]):
            yield found[1].strip(" #").replace("**", "").replace("`", "")


def _files(body: Body) -> str:
    return f"{counted(body.lines, 'line')}, changes"


def _changed(text: str) -> Iterator[str]:
    yield from (found[1] or found[2] for found in _DIFF.finditer(text))


class _Headings(HTMLParser):
    """Keeps the words of titles and headings."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self._open = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _HEADINGS:
            self._open = tag
            self.names.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == self._open:
            self._open = ""

    def handle_data(self, data: str) -> None:
        if self._open and len(self.names[-1]) < 200:
            self.names[-1] += data


def _html(body: Body) -> tuple[str, str]:
    parser = _Headings()
    parser.feed(body.ruled[:_HTML_CHARACTERS])
    return "html", listed(f"{counted(body.lines, 'line')}, headings", parser.names)


def _xml(body: Body) -> tuple[str, str]:
    """The root and the kinds of elements under it, as far as the beginning tells."""
    depth = 0
    names: list[str] = []

    def opened(name: str, _attributes: dict[str, str]) -> None:
        nonlocal depth
        if depth < 2:
            names.append(name)
        depth += 1

    def closed(_name: str) -> None:
        nonlocal depth
        depth -= 1

    parser = expat.ParserCreate()
    parser.StartElementHandler = opened
    parser.EndElementHandler = closed
    with suppress(expat.ExpatError):  # what came before a fault is told
        parser.Parse(body.ruled, body.whole)
    root = f"root {names[0]}" if names else "no element"
    return "xml", listed(f"{counted(body.lines, 'line')}, {root}", names[1:])
