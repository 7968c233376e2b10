"""Files that cannot be read on from where they were left: documents, databases, compressed ones.

Once one has changed it is read again whole, which adds what is new: entries are known by their ids at the
source, and those that have none as in a file that was written anew (see followed.py). What the file system
said before a reading is noted after it, so a change meanwhile is seen the next time.
"""

from __future__ import annotations

from dataclasses import replace

import anyio.to_thread
import apsw

from lcm_mcp.service.intake import facts_at
from lcm_mcp.service.workplace import Workplace
from lcm_mcp.transcript import followed
from lcm_mcp.transcript.followed import Followed
from lcm_mcp.transcript.importers import can_follow


async def is_reread(file: Followed) -> bool:
    """Whether a followed file is one of these. Raises OSError."""
    return not await anyio.to_thread.run_sync(can_follow, file.path, file.wish.format)


async def begin(work: Workplace, file: Followed) -> Followed:
    """The record of a file that is about to be read whole, with what the file system says of it now."""
    facts = facts_at(str(file.path))
    if facts is None:
        return file
    if facts != file.facts:
        await work.store.write(_start_over, file)
        file = await work.store.read(followed.find_by_id, file.id) or file
    return replace(file, facts=facts)


def _start_over(db: apsw.Connection, file: Followed) -> None:
    """Another version of it, unless nothing was taken in of it yet."""
    fed = file.offset > 0 or followed.main_session(db, file) is not None
    followed.start_over(db, file, anew=fed)


async def finish(work: Workplace, file: Followed) -> None:
    """Note that a file was read to its end as it was when that began."""
    await work.store.write(followed.took_whole, file)
