"""The extractive summary as data: facts under ten headings, and the text form that reads back.

One fact is one line, so quoted text can never pose as a heading; a line opens with the address it was
taken from. A summary parses into the same facts it was rendered from (less what was cut), which is
what makes condensing closed: a parent is read exactly like its children. A text that is not wholly in
this form is prose, and parse refuses it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from lcm_mcp.summarizers.sentences import clean, clip
from lcm_mcp.tokens import utf8_length
from lcm_mcp.values import frozen

ARROW = " ⇒ "
ROOT = "Files in "
# No quote is cut shorter than this for being brief.
BRIEFEST_BYTES = 84
# What Seen quotes out of a file, as against a note on it.
QUOTED = "“"


@frozen
class Section:
    """A heading; share is the part of the page, in percent, it may take before others had theirs."""

    title: str
    share: int
    listed: bool = False


REQUESTS = Section("Requests", 26)
CHANGED = Section("Changed", 14, listed=True)
READ = Section("Read", 4, listed=True)
COMMANDS = Section("Commands", 10)
SAID = Section("Said", 20)
FOUND = Section("Found", 8)
NAMES = Section("Names", 4, listed=True)
ERRORS = Section("Open errors", 12)
LAST = Section("Last", 10)
# What was looked at has no share of its own: it fills what all the others leave.
SEEN = Section("Seen", 0)

IN_ORDER_OF_READING = (REQUESTS, CHANGED, READ, SEEN, COMMANDS, SAID, FOUND, NAMES, ERRORS, LAST)
IN_ORDER_OF_NEED = (REQUESTS, ERRORS, LAST, CHANGED, COMMANDS, SAID, FOUND, READ, NAMES, SEEN)


@frozen
class Fact:
    """One thing worth keeping. ref is its row or range ("" in Names), rank its need within its section.

    Higher ranks are kept longer; the order of a list of facts is the order in which they are shown.
    A spare fact is told only where room is left beside all that are not; a brief one gets half of the
    width that others get.
    """

    section: Section
    ref: str
    text: str
    rank: float = 0.0
    spare: bool = False
    brief: bool = False


@frozen
class Parsed:
    """What a summary in our form says; unshown counts, by section title, what it had to leave out.

    turns is how many sentences it may say where each summary says one in turn.
    """

    facts: tuple[Fact, ...]
    unshown: Mapping[str, int]
    turns: int = 1


_HEADING = re.compile(
    rf"({'|'.join(section.title for section in IN_ORDER_OF_READING)})(?: \(\+(\d{{1,9}}) more\))?:"
)
_ITEM = re.compile(r"(?:(e\d{1,18}(?:\.\.e\d{1,18})?) )?(.+)")
_ENTRY = re.compile(r"(.+?)(?: (e\d{1,18}(?:\.\.e\d{1,18})?))?")
_MORE = re.compile(r" \(\+(\d{1,9}) more\)$")
_NAMES_END = re.compile(r"[,;] | \| ")
_ROW = re.compile(r"e(\d{1,18})", re.ASCII)
_FILES = frozenset((CHANGED.title, READ.title))
_BY_TITLE = {section.title: section for section in IN_ORDER_OF_READING}


def render(facts: Sequence[Fact], unshown: Mapping[str, int], width: int, root: str = "") -> str:
    """Lay facts out under their headings; a quote takes at most `width` bytes.

    Files under `root` are shown relative to it, and a first line names it.
    """
    rooted = root and any(fact.section.title in _FILES and fact.text.startswith(root) for fact in facts)
    lines = [f"{ROOT}{root}"] if rooted else []
    by_title: dict[str, list[Fact]] = {}
    for fact in facts:
        by_title.setdefault(fact.section.title, []).append(fact)
    for section in IN_ORDER_OF_READING:
        if inside := by_title.get(section.title):
            more = unshown.get(section.title, 0)
            lines.append(f"{section.title} (+{more} more):" if more else f"{section.title}:")
            lines += _listed(inside, root) if section.listed else [line(fact, width) for fact in inside]
    return "\n".join(lines)


def line(fact: Fact, width: int) -> str:
    """A fact of a section that is not listed, as its line."""
    width = min(width, max(width // 2, BRIEFEST_BYTES)) if fact.brief else width
    if fact.section == SEEN:
        return f"- {fact.ref} {clip_list(fact.text, width)}"
    return f"- {fact.ref} {clip_outcome(fact.text, width)}" if fact.ref else f"- {clip(fact.text, width)}"


def clip_outcome(text: str, width: int) -> str:
    """Cut a text, but of "what ⇒ outcome" first the longer side, so that the outcome survives."""
    what, arrow, outcome = text.partition(ARROW)
    room = width - len(ARROW.encode())
    if not arrow or room < 24:
        return clip(text, width)
    told = clip(outcome, max(room // 2, room - len(what.encode("utf-8", "replace"))))
    return clip(what, room - len(told.encode("utf-8", "replace"))) + arrow + told


def clip_list(text: str, width: int) -> str:
    """Cut a list after a whole entry and count the entries left out ("a, b (+3 more)"); a quote is cut."""
    if utf8_length(text) <= width:
        return text
    if text.startswith(QUOTED):
        return clip(text, width)
    counted = _MORE.search(text)
    names = text[: counted.start()] if counted else text
    ends = [found.start() for found in _NAMES_END.finditer(names)]
    room = width - len(" (+123456789 more)")
    fitting = len(clip(names, max(4, room)))
    shown = sum(end < fitting for end in ends)
    if not shown or ends[shown - 1] * 2 < fitting:
        return clip(text, width)
    return f"{names[: ends[shown - 1]]} (+{len(ends) - shown + 1 + (int(counted[1]) if counted else 0)} more)"


def _listed(facts: Sequence[Fact], root: str) -> Iterator[str]:
    """Files share the line of their folder; names share one line."""
    if facts[0].section == NAMES:
        yield f"- {', '.join(fact.text for fact in facts)}"
        return
    folders: dict[str, list[str]] = {}
    for fact in facts:
        folder, base = split_path(fact.text)
        folders.setdefault(folder, []).append(f"{base} {fact.ref}")
    for folder, entries in folders.items():
        yield f"- {folder.removeprefix(root) or './'}: {', '.join(entries)}"


def common_root(facts: Sequence[Fact]) -> str:
    """The folder whose naming once saves the most bytes; "" where none does or a path is relative.

    With relative paths about, a path shown without its root could no longer be told from them.
    """
    folders = dict.fromkeys(split_path(fact.text)[0] for fact in facts if fact.section.title in _FILES)
    if not all(folder.startswith("/") for folder in folders):
        return ""
    under = Counter(
        folder[: at + 1] for folder in folders for at, sign in enumerate(folder) if sign == "/" and at
    )
    saved = {root: len(root) * (count - 1) - len(ROOT) for root, count in under.items()}
    best = max(saved, key=lambda root: saved[root], default="")
    return best if best and saved[best] > 0 else ""


def row_of(ref: str) -> int:
    """The number of the row an address begins with."""
    found = _ROW.search(ref)
    return int(found[1]) if found else 0


def split_path(path: str) -> tuple[str, str]:
    """Folder with its closing slash ("" where there is none) and base name."""
    folder, slash, base = path.rpartition("/")
    return (folder + slash, base) if base else ("", path)


def parse(text: str, span: str) -> Parsed | None:
    """Read a summary in our form; facts without an address get `span`. None: it is prose."""
    facts: list[Fact] = []
    unshown: dict[str, int] = {}
    section: Section | None = None
    root = ""
    for row in text.strip().split("\n"):
        heading = _HEADING.fullmatch(row)
        if heading is not None:
            section = _BY_TITLE[heading[1]]
            unshown[section.title] = int(heading[2] or 0)
        elif section is None and not root and row.startswith(ROOT):
            root = clean(row.removeprefix(ROOT))
        elif section is None or not row.startswith("- "):
            return None
        else:
            facts += _read(section, clean(row[2:]), span, root)
    return Parsed(tuple(facts), unshown)


def _read(section: Section, body: str, span: str, root: str) -> Iterator[Fact]:
    if section.listed:
        yield from _read_list(section, body, span, root)
        return
    item = _ITEM.fullmatch(body)
    if item is not None:
        yield Fact(section, item[1] or span, item[2])


def _read_list(section: Section, body: str, span: str, root: str) -> Iterator[Fact]:
    if section == NAMES:
        yield from (Fact(section, "", name) for name in body.split(", ") if name)
        return
    folder, colon, entries = body.rpartition("/: ")
    folder = f"{folder}/" if colon and folder != "." else ""
    folder = folder if folder.startswith("/") else root + folder
    for entry in entries.split(", "):
        found = _ENTRY.fullmatch(entry)
        if found is not None:
            yield Fact(section, found[2] or span, folder + found[1])
