"""What an owner does with the store itself: keep a copy of it, or take a conversation out of it.

A backup is one instant of the whole file. An export is one session, read page by page, so that a long one
needs no more memory than a short one. Neither changes the store.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import apsw

from lcm_mcp.service.workplace import Workplace, wanted_session
from lcm_mcp.transcript import exporting
from lcm_mcp.transcript.exporting import Export, ExportFormat
from lcm_mcp.transcript.sessions import existing
from lcm_mcp.values import frozen


@frozen
class BackedUp:
    """A backup that was made, looked through and found sound."""

    path: str
    file_bytes: int


async def back_up(work: Workplace, to: Path) -> BackedUp:
    """Copy the store to a new file. Raises StoreUnavailable where there is one."""
    return BackedUp(str(to), await work.store.back_up(to))


async def export(
    work: Workplace, key: str | None, form: ExportFormat, redacting: bool, on_masked: Callable[[int], None]
) -> AsyncGenerator[bytes]:
    """A session's rows as a file would hold them, up to the last that was there when it began; on_masked is
    told at the end how many keys were masked. Raises SessionForgotten where it goes before it was written."""
    export = await work.store.read(_begin, work, key, redacting)
    while (written := await work.store.read(_page, export, form)) is not None:
        yield written
    if export.masking is not None:
        on_masked(sum(export.masking.masked.values()))


def _begin(db: apsw.Connection, work: Workplace, key: str | None, redacting: bool) -> Export:
    return exporting.begin(db, wanted_session(db, work, key), redacting=redacting)


def _page(db: apsw.Connection, export: Export, form: ExportFormat) -> bytes | None:
    """Nothing more of a session that is gone would look like its end."""
    existing(db, export.session.id)
    return exporting.jsonl_page(db, export) if form == "jsonl" else exporting.markdown_page(db, export)
