"""Work beside the requests or at the end of a command: feeding the search indexes, putting their pieces
together, and bringing earlier rows up to date (their file handles, and how their payloads are packed).

All goes slice by slice, each a short transaction of its own, so whoever wants to write waits for one slice at
most. Searches do not depend on it: what is not indexed yet is read. Of the indexes nothing is synced: it goes
to the disk with the next rows that are acknowledged, and what a power cut takes of it is indexed again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import anyio

from lcm_mcp.errors import SettingsError, StoreClosed, StoreError
from lcm_mcp.search import index, segments, vectors, words
from lcm_mcp.search.meaning import Meaning, is_installed
from lcm_mcp.service.workplace import Workplace
from lcm_mcp.settings import Settings
from lcm_mcp.transcript import files, repacking

PAUSE_S = 0.2
"""After a commit, so that what comes in together is indexed together: many slices cost more than one."""
QUIET_S = 5.0
"""Without a commit, after which nobody seems to be about to write."""
LOOK_S = 30.0
"""Texts of another process that died before it indexed them are found by looking now and then."""


def meaning_of(settings: Settings) -> Meaning | None:
    """The model of semantic search where that is on. Raises SettingsError where its packages are missing."""
    if not settings.semantic_search:
        return None
    if not is_installed():
        raise SettingsError(
            "semanticSearch needs packages that are missing: pip install 'lcm-mcp[semantic]', or turn it off."
        )
    return Meaning()


async def feed_all(work: Workplace, on_left: Callable[[int], None] | None = None) -> bool:
    """Index all there is; whether there was anything. on_left is told how many texts are left, counting what
    both indexes lack twice. Large results of earlier builds become files first."""
    fed = False
    store, meaning = work.store, work.meaning
    while await store.read(files.behind):
        await store.write(files.catch_up, work.settings.large_file_chars)
    for one in (index, words):
        while await store.read(one.behind):
            await store.write_derived(one.feed)
            fed = True
            if on_left is not None:
                on_left(await store.read(index.unindexed) + await store.read(words.unindexed))
    while meaning is not None and await store.read(vectors.behind, meaning):
        await store.write_derived(vectors.feed, meaning)
    while await store.read(repacking.behind):
        await store.write(repacking.catch_up)
    return fed


async def tidy(work: Workplace, until: anyio.Event) -> None:
    """Put the pieces of the indexes together where they are many, until that happens."""
    for one in segments.INDEXES:
        more = await work.store.read(segments.count, one) > segments.MANY
        while more and not until.is_set():
            more = await work.store.write_derived(segments.put_together, one)


async def keep_fed(work: Workplace) -> None:
    """Index what is committed as long as this runs. A store that cannot be written is tried again later."""
    told, tidied = False, False
    while True:
        committed = work.store.committed
        try:
            tidied = not await feed_all(work) and tidied
            with anyio.move_on_after(QUIET_S):
                await committed.wait()
            if not tidied:
                await tidy(work, committed)
                tidied = not committed.is_set()
        except StoreClosed:
            return
        except StoreError as error:
            if not told:
                sys.stderr.write(f"lcm-mcp cannot index for now: {error}\n")
            told = True
        with anyio.move_on_after(LOOK_S):
            await committed.wait()
            await anyio.sleep(PAUSE_S)
