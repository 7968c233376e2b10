"""The read use cases: sessions, nodes, descriptions, and the way back to the original words.

Each is one function of a read-only connection, so an answer shows one state of the store. Nothing is
written here, and every page costs what it holds, not what the session holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

import apsw

from lcm_mcp.dag import observations
from lcm_mcp.dag import store as dag
from lcm_mcp.dag.model import Node, header
from lcm_mcp.dag.redoing import versions
from lcm_mcp.errors import InvalidArgument
from lcm_mcp.ids import (
    FileAddress,
    NodeAddress,
    NodeId,
    RangeAddress,
    RowAddress,
    Seq,
    format_address,
    parse_address,
)
from lcm_mcp.service import cursors
from lcm_mcp.service.answers import (
    Description,
    FileDescription,
    FileLine,
    NodeDescription,
    NodeLine,
    NodePage,
    PartLine,
    RowDescription,
    SessionLine,
    SessionPage,
    SupersededLine,
    TierLine,
)
from lcm_mcp.service.observing import read_observation
from lcm_mcp.service.prepared import Observation
from lcm_mcp.service.times import iso
from lcm_mcp.service.workplace import (
    EVERYWHERE,
    Cover,
    Workplace,
    addressed,
    existing_file,
    existing_node,
    existing_row,
    strategy_of,
    wanted_session,
)
from lcm_mcp.tokens import utf8_length
from lcm_mcp.transcript import files, pins, sessions, store
from lcm_mcp.transcript.model import File, Image, Opaque, Part, Reasoning, Row, Text, ToolCall, ToolResult
from lcm_mcp.transcript.packing import encode
from lcm_mcp.transcript.path import Path
from lcm_mcp.transcript.sealing import readable
from lcm_mcp.transcript.sessions import Session

PREVIEW_CHARACTERS = 200
PAYLOAD_BYTES = 150_000
"""A row's parts beyond this are left to the row's own pages of text; an answer stays far below 400 KB."""
FILES_LISTED = 200
"""A node over more files, or a file with more handles, says how many; a node's children list theirs."""
EMPTY_STORE = (
    "The store is empty. Import what agents left on this machine with `lcm-mcp import --discover`, or a "
    "conversation with `lcm-mcp import FILE`."
)
PARTS_LISTED = 200
"""A row of more parts says how many."""
SESSIONS_LISTED = 50
"""A row that more sessions start from or end at says how many; lcm_sessions names the parent of each."""
VERSIONS_SHOWN = 5
"""Of a node made again more often, the newest; it says how many there are."""
NO_NODES = (
    "This session has no summaries yet. Importing folds older units into some, and so does prepare_context "
    "once the conversation reaches its trigger; lcm_grep and lcm_expand reach every row meanwhile."
)


def list_sessions(
    db: apsw.Connection,
    work: Workplace,
    query: str | None,
    project: str | None,
    limit: int,
    cursor: str | None,
) -> SessionPage:
    """Stored sessions, last active first: of a project, this folder, or (EVERYWHERE) the whole store."""
    wanted, scope = _wanted_sessions(db, work, query, project)
    asked = ("sessions", wanted.query, wanted.project)
    after: tuple[int, int] | None = None
    if cursor is not None:
        at, number = cursors.read(cursor, asked, int, int)
        after = int(at), int(number)
    found = sessions.page(db, wanted, limit + 1, after)
    shown = found[:limit]
    more = len(found) > limit
    total = sessions.count(db, wanted)
    return SessionPage(
        scope,
        tuple(_session_line(db, work, session) for session in shown),
        total,
        cursors.make(asked, (shown[-1].active_at, shown[-1].id)) if more else None,
        None if total or sessions.count(db, sessions.Filter()) else EMPTY_STORE,
    )


def _wanted_sessions(
    db: apsw.Connection, work: Workplace, query: str | None, project: str | None
) -> tuple[sessions.Filter, str]:
    query = None if query is None else readable(query)
    if project is None and sessions.count(db, sessions.Filter(work.project)):
        project = work.project
    if project is None or project == EVERYWHERE:
        return sessions.Filter(None, query), "the whole store"
    return sessions.Filter(readable(project), query), f"project {project}"


def _session_line(db: apsw.Connection, work: Workplace, session: Session) -> SessionLine:
    parent = None if session.parent is None else sessions.find_by_id(db, session.parent)
    path = Path(db, session.id, session.leaf)
    first = path.after(Seq(0))
    return SessionLine(
        id=f"s{session.id}",
        key=session.key,
        title=session.title,
        project=session.project,
        source=session.source,
        rows=session.rows,
        tokens=store.path_totals(db, session.id, session.leaf).tokens,
        nodes=dag.count(db, session.id),
        strategy=strategy_of(work, session),
        parent=None if parent is None else parent.key,
        link=session.link,
        opener=None if session.opener is None else f"e{session.opener}",
        outcome=None if session.outcome is None else f"e{session.outcome}",
        first_at=None if first is None else iso(store.time_of(db, session.id, first)),
        last_at=None if first is None else iso(store.time_of(db, session.id, session.leaf)),
    )


def list_nodes(
    db: apsw.Connection,
    work: Workplace,
    key: str | None,
    depth: int | None,
    frontier_only: bool,
    limit: int,
    cursor: str | None,
) -> NodePage:
    """Stored nodes in the order of their rows; those no request shows are among them."""
    session = wanted_session(db, work, key)
    asked = ("nodes", session.id, depth, frontier_only)
    after: dag.Place | None = None
    if cursor is not None:
        first, depth_up, number = (int(value) for value in cursors.read(cursor, asked, int, int, int))
        after = Seq(first), depth_up, NodeId(number)
    path = Path(db, session.id, session.leaf)
    frontier = dag.frontier(db, session.id, path, session.leaf)
    if frontier_only:
        chosen = [node for node in frontier if depth in (None, node.depth)]
        total = len(chosen)
        found = [node for node in chosen if after is None or dag.place_of(node) > after][: limit + 1]
    else:
        total = dag.count(db, session.id, depth)
        found = dag.page(db, session.id, depth, after, limit + 1)
    standing = {node.id for node in frontier}
    shown = found[:limit]
    texts = dag.openings(db, session.id, [node.id for node in shown], PREVIEW_CHARACTERS * 2)
    return NodePage(
        session=session.key,
        nodes=tuple(_node_line(path, node, node.id in standing, texts[node.id]) for node in shown),
        total=total,
        covered_end=f"e{frontier[-1].last}" if frontier else None,
        leaf=f"e{session.leaf}" if session.leaf else None,
        next_cursor=cursors.make(asked, dag.place_of(shown[-1])) if len(found) > limit else None,
        note=None if found or dag.count(db, session.id) else NO_NODES,
    )


def _node_line(path: Path, node: Node, standing: bool, text: str) -> NodeLine:
    """A node in a line; text is how its summary begins."""
    return NodeLine(
        id=f"#{node.id}",
        depth=node.depth,
        span=(f"e{node.first}", f"e{node.last}"),
        rows=node.rows,
        tokens=node.tokens,
        source_tokens=node.source_tokens,
        level=node.level,
        frontier=standing,
        removed=node.last not in path,
        preview=" ".join(text.split())[:PREVIEW_CHARACTERS],
        made_at=iso(node.made_at),
    )


def describe(db: apsw.Connection, work: Workplace, id: str, key: str | None) -> Description:
    """What a node, a row or a file is, and how it hangs together with the rest."""
    session, address = addressed(db, work, parse_address(id), key)
    match address:
        case NodeAddress(node=node):
            return Description(
                session.key, _describe_node(db, session, existing_node(db, session, node)), None
            )
        case RowAddress(seq=seq):
            return Description(
                session.key, None, _describe_row(db, work, session, existing_row(db, session, seq))
            )
        case FileAddress(file=number):
            found = _describe_file(db, session, existing_file(db, session, number))
            return Description(session.key, None, None, found)
        case RangeAddress():
            raise InvalidArgument(
                "id",
                f"{format_address(address)} is a range",
                "Describe a row (e104), a node (#12) or a file (f7).",
            )
        case _:
            assert_never(address)


def _describe_node(db: apsw.Connection, session: Session, node: Node) -> NodeDescription:
    texts = dag.tiers(db, session.id, node.id)
    best = texts.get("rich", texts["primary"])
    path = Path(db, session.id, session.leaf)
    standing = dag.frontier_back(db, session.id, path, session.leaf)
    before = versions(db, session.id, node.id)
    within = files.of_rows(db, session.id, Path(db, session.id, node.last).between(node.first, node.last))
    return NodeDescription(
        id=f"#{node.id}",
        header=header(node.id, node.depth, node.first, node.last),
        depth=node.depth,
        span=(f"e{node.first}", f"e{node.last}"),
        rows=node.rows,
        children=tuple(f"#{child}" for child in dag.children(db, session.id, node.id)),
        parents=tuple(f"#{parent}" for parent in dag.parents(db, session.id, node.id)),
        tokens=node.tokens,
        source_tokens=node.source_tokens,
        level=best.level,
        model=best.model,
        tiers=tuple(
            TierLine(tier.kind, tier.tokens, tier.level, tier.model, tier.cost.tokens, tier.cost.usd)
            for tier in texts.values()
        ),
        frontier=any(one.id == node.id for one in standing),
        removed=node.last not in path,
        made_at=iso(node.made_at),
        text=best.text,
        files=tuple(map(_file_line, within[:FILES_LISTED])),
        file_count=len(within),
        superseded=tuple(
            SupersededLine(iso(old.superseded_at), old.tokens, old.level, old.model, old.text)
            for old in before[:VERSIONS_SHOWN]
        ),
        superseded_count=len(before),
    )


def _file_line(file: File) -> FileLine:
    return FileLine(f"f{file.id}", f"e{file.seq}", file.path, file.kind, file.characters, file.summary)


def _describe_file(db: apsw.Connection, session: Session, file: File) -> FileDescription:
    cover = Cover(db, session)
    others, number = files.same_body(db, session.id, file, FILES_LISTED)
    return FileDescription(
        id=f"f{file.id}",
        ref=f"e{file.seq}",
        path=file.path,
        kind=file.kind,
        characters=file.characters,
        content=file.content,
        summary=file.summary,
        head=file.head,
        node=cover.node_of(file.seq),
        removed=file.seq not in cover.path,
        same_content=tuple(f"s{own}/f{id}" for own, id in others),
        same_content_count=number,
    )


def _describe_row(db: apsw.Connection, work: Workplace, session: Session, row: Row) -> RowDescription:
    cover, begun = Cover(db, session), sessions.begun_by(db, session.id)
    children = [one.key for one in begun if one.opener == row.seq]
    outcomes = [one.key for one in begun if one.outcome == row.seq]
    mark = store.read_mark(db, session.id, row.seq)
    assert mark is not None
    return RowDescription(
        ref=f"e{row.seq}",
        role=row.role,
        at=iso(row.at),
        entry_id=row.entry_id,
        tokens=mark.size.tokens,
        characters=len(row.text),
        parts=_part_lines(row, files.of_row(db, session.id, row.seq), work.settings.large_file_chars),
        part_count=len(row.parts),
        unit=f"e{mark.unit}",
        node=cover.node_of(row.seq),
        removed=row.seq not in cover.path,
        pinned=pins.is_pinned(db, session.id, row.seq),
        variants=store.count_variants(db, session.id, row.seq),
        child_sessions=tuple(children[:SESSIONS_LISTED]),
        child_count=len(children),
        outcome_of=tuple(outcomes[:SESSIONS_LISTED]),
        outcome_count=len(outcomes),
    )


def _part_lines(row: Row, read: Sequence[File], large_chars: int) -> tuple[PartLine, ...]:
    handles = {file.part: f"f{file.id}" for file in read}
    shown = enumerate(row.parts[:PARTS_LISTED])
    return tuple(_part_line(part, large_chars, handles.get(place)) for place, part in shown)


def _part_line(part: Part, large_chars: int, handle: str | None = None) -> PartLine:
    """A part in a line; a tool's result of more than so many characters is a file or called large."""
    match part:
        case Text(text):
            return PartLine("text", utf8_length(text), None)
        case Reasoning(text):
            return PartLine("reasoning", utf8_length(text), None)
        case ToolCall(name=name, arguments=arguments):
            return PartLine("tool_call", len(encode(arguments)), readable(name))
        case ToolResult(content=content, is_error=is_error):
            size = sum(_part_line(piece, large_chars).bytes for piece in content)
            said = sum(len(piece.text) for piece in content if isinstance(piece, Text))
            large = handle or ("large-inline" if said > large_chars else None)
            marks = [*(["error"] if is_error else []), *([large] if large else [])]
            return PartLine("tool_result", size, ", ".join(marks) or None)
        case Image(media_type, _, size_bytes, width, height):
            sides = f" {width}x{height}" if width and height else ""
            return PartLine("image", size_bytes, readable(media_type) + sides)
        case Opaque(raw):
            return PartLine(readable(part.kind), len(encode(raw)), None)
        case _:
            assert_never(part)


def last_observation(db: apsw.Connection, work: Workplace, key: str | None) -> Observation | None:
    """The newest observation of a session; None where nothing was prepared yet."""
    session = wanted_session(db, work, key)
    found = observations.last(db, session.id)
    return None if found is None else read_observation(*found)
