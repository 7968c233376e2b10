"""How the service's answers look to a reader, in lines that fit 80 columns.

A renderer prints one answer and asks nothing. Every piece of stored text goes through text.clean or
one that builds on it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from lcm_mcp.cli.output import role_style, show_columns, styled, write
from lcm_mcp.cli.text import as_commands, clean, one_line, shorten, unbroken, when
from lcm_mcp.wording import counted

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from lcm_mcp.service.answers import (
        Expansion,
        FileDescription,
        Hit,
        HitPage,
        NodeDescription,
        NodeLine,
        NodePage,
        RowDescription,
        SessionLine,
        SessionPage,
    )


def show_sessions(out: Console, page: SessionPage) -> None:
    for line in page.sessions:
        _show_session(out, line)
    if not page.sessions and page.note is None:
        out.print("No session matches. lcm-mcp sessions alone lists them all.")
    _show_rest(out, len(page.sessions), page.total, "session", page.next_cursor)
    _show_notes(out, [page.note] if page.note else [])


def _show_session(out: Console, line: SessionLine) -> None:
    figures = f"{counted(line.rows, 'row')}, {line.tokens:,} tokens, {counted(line.nodes, 'node')}"
    title = shorten(line.title or line.key, max(20, out.width - len(line.id) - len(figures) - 4))
    gap = " " * max(2, out.width - len(line.id) - len(title) - len(figures) - 2)
    out.print(styled((line.id, "bold cyan"), "  ", title, gap, (figures, "dim")))
    place = [f"{when(line.first_at)} to {when(line.last_at)}" if line.last_at else "empty", line.source]
    if line.parent is not None:
        begins = f" from {line.opener}" if line.opener else ""
        place.append(f"{line.link or 'child'} of {one_line(line.parent)}{begins}")
    if line.project:
        place.append(one_line(line.project))
    out.print(styled("    ", (shorten(" · ".join(place), out.width - 4), "dim")))


def show_nodes(out: Console, page: NodePage) -> None:
    for node in page.nodes:
        out.print(node_line(node))
        out.print(styled("    ", shorten(node.preview, out.width - 4)))
    if not page.nodes and page.note is None:
        out.print("No node matches. lcm-mcp list alone lists them all.")
    if page.covered_end is not None and page.covered_end != page.leaf:
        out.print(styled((f"Summarized up to {page.covered_end} of {page.leaf}.", "dim")))
    _show_rest(out, len(page.nodes), page.total, "node", page.next_cursor)
    _show_notes(out, [page.note] if page.note else [])


def node_line(node: NodeLine) -> Text:
    figures = f"  depth {node.depth}  {span(node.span)}  {counted(node.rows, 'row')}"
    size = f"  {node.source_tokens:,} → {node.tokens:,} tokens"
    return styled((node.id, "bold cyan"), figures, (size, "dim"), _state(node))


def _state(node: NodeLine) -> tuple[str, str]:
    return ("  [removed]" if node.removed else "" if node.frontier else "  (covered)"), "dim"


def span(first_last: tuple[str, str]) -> str:
    first, last = first_last
    return first if first == last else f"{first}..{last}"


def show_hits(out: Console, page: HitPage, pattern: str | None = None) -> None:
    """pattern, where it is literal, is marked in the snippets."""
    for hit in page.hits:
        _show_hit(out, hit, pattern)
    if not page.hits:
        out.print(styled(f"No match: {one_line(as_commands(page.searched))}."))
    if page.near:
        out.print(styled(("Not matches, but they hold all the words:", "dim")))
        for hit in page.near:
            _show_hit(out, hit, None)
    if not page.complete:
        why = one_line(as_commands(page.reason or ""))
        out.print(styled((f"The search did not come to its end: {why}", "yellow")))
    if page.total is None:
        more = f"{len(page.hits)} shown of at least {page.at_least:,}."
        out.print(styled((more, "dim"))) if page.hits else None
    _show_rest(out, len(page.hits), page.total, "hit", page.next_cursor)
    if page.hits and " elsewhere, " in page.scope:
        left_out = f"Searched: {one_line(as_commands(page.scope))}."
        out.print(styled((left_out, "dim")), soft_wrap=True)


def _show_hit(out: Console, hit: Hit, pattern: str | None) -> None:
    marks = [when(hit.at)]
    if hit.node is not None:
        marks.append(f"under {hit.node}")
    if hit.removed:
        marks.append("[removed]")
    if hit.also:
        marks.append(f"also {', '.join(hit.also[:3])}{'…' if len(hit.also) > 3 else ''}")
    kind = hit.role or hit.kind
    out.print(
        styled((hit.ref, "bold cyan"), "  ", (kind, role_style(hit.role)), ("  " + "  ".join(marks), "dim"))
    )
    marked = None if pattern is None else re.compile(re.escape(one_line(pattern)), re.IGNORECASE)
    snippet = styled("    ", one_line(hit.snippet))
    if marked is not None:
        snippet.highlight_regex(marked, "bold yellow")
    out.print(snippet)


def show_rows(out: Console, expansion: Expansion) -> None:
    for row in expansion.rows:
        place = "" if row.offset == 0 else f"  from character {row.offset:,}"
        marks = (
            place + ("  [removed]" if row.removed else "") + ("" if row.complete else "  (to be continued)")
        )
        head = styled(
            (row.ref, "bold cyan"), "  ", (row.role, role_style(row.role)), (f"  {when(row.at)}", "dim")
        )
        out.print(head.append(marks, "dim"))
        # Past rich, which wraps lines and expands tabs: whoever copies this gets what was said.
        write(f"{clean(row.text)}\n".encode())
        if not row.text and row.complete and row.offset == 0:
            out.print(styled(("(no text; lcm-mcp describe tells its parts)", "dim")))
        for part in row.payload or ():
            out.print(styled((clean(compact_json(part)), "dim")), soft_wrap=True)
    if expansion.next_cursor:
        out.print(
            styled((f"More: repeat with --cursor {expansion.next_cursor}, or with --all.", "dim")),
            soft_wrap=True,
        )


def compact_json(value: object) -> str:
    import json

    return json.dumps(value, ensure_ascii=False)


def show_node(out: Console, node: NodeDescription) -> None:
    frontier = "in the frontier" if node.frontier else "not in the frontier"
    frontier += ", [removed]: its rows are off the active path" if node.removed else ""
    facts = [
        ("covers", f"{span(node.span)}, {counted(node.rows, 'row')}, {node.source_tokens:,} tokens"),
        ("size", f"{node.tokens:,} tokens, level {node.level}, by {one_line(node.model)}"),
        ("tiers", ", ".join(f"{tier.kind} {tier.tokens:,} tokens" for tier in node.tiers)),
        ("children", ", ".join(node.children) or "none (a leaf)"),
        ("parents", ", ".join(node.parents) or "none"),
        ("made", f"{when(node.made_at)}, {frontier}"),
    ]
    out.print(styled((node.id, "bold cyan"), f"  depth {node.depth}"))
    show_facts(out, facts)
    out.print()
    out.print(styled(clean(node.text)), soft_wrap=True)
    if node.files:
        out.print()
        out.print(styled((f"{counted(node.file_count, 'file')} that tools read", "dim")))
    for file in node.files:
        size = f"  {file.ref}  {file.kind}, {counted(file.characters, 'character')}"
        out.print(styled((file.id, "bold cyan"), "  ", unbroken(file.path), (size, "dim")))
        out.print(styled("    ", shorten(file.summary, out.width - 4)))
    for old in node.superseded:
        out.print()
        out.print(styled((f"superseded {when(old.superseded_at)}, by {one_line(old.model)}", "dim")))
        out.print(styled(clean(old.text)), soft_wrap=True)
    if node.superseded_count > len(node.superseded):
        out.print(styled((f"(+{node.superseded_count - len(node.superseded):,} earlier ones)", "dim")))


def show_file(out: Console, file: FileDescription) -> None:
    facts = [
        ("path", unbroken(file.path)),
        ("read in", file.ref + (", [removed]: it is off the active path" if file.removed else "")),
        ("size", counted(file.characters, "character")),
        ("in it", one_line(file.summary)),
        ("content", file.content),
        ("same body", _keys(file.same_content, file.same_content_count)),
        ("node", file.node or "none covers it"),
    ]
    out.print(styled((file.id, "bold cyan"), f"  {file.kind}"))
    show_facts(out, facts)
    out.print()
    out.print(styled(clean(file.head)), soft_wrap=True)


def show_row(out: Console, row: RowDescription) -> None:
    parts = [
        f"{part.kind} {part.bytes:,} bytes" + (f" ({part.detail})" if part.detail else "")
        for part in row.parts
    ]
    if row.part_count > len(parts):
        parts.append(f"+{row.part_count - len(parts):,} more")
    facts = [
        ("time", when(row.at)),
        ("entry id", unbroken(row.entry_id or "none")),
        ("size", f"{row.tokens:,} tokens, {counted(row.characters, 'character')}"),
        ("parts", "; ".join(map(one_line, parts)) or "none"),
        ("unit", f"begins at {row.unit}"),
        ("node", row.node or "none covers it"),
        ("variants", f"{row.variants} of other content came under its id" if row.variants else ""),
        ("children", _keys(row.child_sessions, row.child_count)),
        ("outcome of", _keys(row.outcome_of, row.outcome_count)),
        ("removed", "yes: it is off the active path" if row.removed else ""),
        ("pinned", "yes: quoted where a request no longer shows it" if row.pinned else ""),
    ]
    out.print(styled((row.ref, "bold cyan"), "  ", (row.role, role_style(row.role))))
    show_facts(out, facts)


def _keys(keys: Sequence[str], all_of_them: int) -> str:
    more = [f"+{all_of_them - len(keys):,} more"] if all_of_them > len(keys) else []
    return ", ".join([*map(unbroken, keys), *more])


def show_facts(out: Console, facts: Iterable[tuple[str, str]]) -> None:
    """Names and values in two columns; a fact without a value is left out."""
    show_columns(out, [((f"  {name}", "dim"), value) for name, value in facts if value])


def _show_rest(out: Console, shown: int, total: int | None, noun: str, cursor: str | None) -> None:
    if cursor is None:
        return
    known = f"{shown} of {counted(total, noun)} shown. " if total is not None else ""
    out.print(styled((f"{known}More: repeat with --cursor {cursor}", "dim")), soft_wrap=True)


def _show_notes(out: Console, notes: Iterable[str]) -> None:
    for note in notes:
        out.print(styled((one_line(as_commands(note)), "dim")))
