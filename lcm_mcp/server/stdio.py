"""One client over stdin and stdout, and every way in which it can end.

A client that has sent all it wanted gets all its replies before the process ends; a signal ends it at once,
and so does the death of the process that started it.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.abc
from mcp.server.lowlevel import Server

from lcm_mcp.errors import RepliesLost
from lcm_mcp.server.building import build_supplied
from lcm_mcp.server.limits import GRACE_S, Calls
from lcm_mcp.server.opening import Opening
from lcm_mcp.server.wire import Wire

if TYPE_CHECKING:
    from lcm_mcp.service import Service
    from lcm_mcp.tools import ToolsetName

PARENT_POLL_S: Final = 1.0
_PARENT: Final = os.getppid()  # taken early: a parent that dies while the store opens would go unnoticed


async def serve_stdio(open: Callable[[], Service], toolset: ToolsetName = "all") -> None:
    """Serve one client over stdin and stdout until it leaves, a signal asks for it, or the parent dies.

    open gives the service, in a thread, once the client has been told what there is. Raises LcmError.
    """
    stop, opening = anyio.Event(), Opening(open)
    lost: list[str] = []

    def gone(reason: str | None) -> None:
        lost.extend(() if reason is None else (reason,))
        stop.set()

    deadline = threading.Timer(GRACE_S, os._exit, (1,))
    deadline.daemon = True
    try:
        async with anyio.create_task_group() as tasks:
            await tasks.start(_hear_signals, stop)
            tasks.start_soon(_watch_parent, stop)
            tasks.start_soon(opening.hold)
            tasks.start_soon(_converse, build_supplied(opening.service, toolset, Calls()), opening, gone)
            await stop.wait()
            # A client that reads no more can keep a thread in a write for ever.
            deadline.start()
            tasks.cancel_scope.cancel()
    finally:
        deadline.cancel()
    if lost:
        raise RepliesLost(lost[0])


async def _converse(
    server: Server[dict[str, Any]], opening: Opening, gone: Callable[[str | None], None]
) -> None:
    """One client's conversation, to its end; then ask for the end of the process."""
    try:
        with Wire(opening.heard, gone) as wire:
            await server.run(wire.messages, wire.replies, server.create_initialization_options())
    finally:
        gone(None)


async def _hear_signals(stop: anyio.Event, *, task_status: anyio.abc.TaskStatus[None]) -> None:
    """Ask for the end at the first SIGINT, SIGTERM or SIGHUP; without this SIGINT waits for stdin's end."""
    try:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
            task_status.started()
            async for _ in signals:
                stop.set()
    except (NotImplementedError, AttributeError):  # Windows: signals keep their default
        task_status.started()


async def _watch_parent(stop: anyio.Event) -> None:
    """Ask for the end when the process that started this one is gone, even if stdin stays open."""
    while os.getppid() == _PARENT:
        await anyio.sleep(PARENT_POLL_S)
    stop.set()
