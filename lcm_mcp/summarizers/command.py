"""A program as a summarizer: the prompt on its stdin, the answer on its stdout.

It is started without a shell, in a folder of its own, where agents that keep sessions keep those of our
prompts apart from real ones, and under a variable by which our own programs know that they run inside of
one: there no command is asked, so that none can call itself. It ends with its whole family when its time is
over or nobody waits for it any more.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import anyio.abc

from lcm_mcp.chain import CommandEntry
from lcm_mcp.summarizers.metered import CallFault, Reply
from lcm_mcp.summarizers.prompting import Prompt
from lcm_mcp.summarizers.secrets import scrubbed, short_reason
from lcm_mcp.values import frozen

INSIDE = "INSIDE_LCM_SUMMARIZER"
MOST_BYTES = 1_000_000
"""Of each stream; a summary is far shorter."""
UNKNOWN_OUTPUT_TOKENS = 4096
"""What a program may take beyond the summary; nobody counts it, so this much is put down."""


@frozen
class CommandModel:
    """A program, and the folder it works in, which is made where it is missing."""

    entry: CommandEntry
    name: str
    folder: Path

    @property
    def timeout_s(self) -> float:
        return self.entry.timeout_seconds

    @property
    def mark(self) -> str:
        return hashlib.sha256(self.entry.model_dump_json().encode(errors="replace")).hexdigest()[:16]

    def unready(self) -> str | None:
        if os.environ.get(INSIDE):
            return "this process was itself started to write a summary"
        if shutil.which(self.entry.command[0]) is None:
            return "there is no such program"
        return None

    def window(self) -> int | None:
        return self.entry.context_window_tokens

    def output_tokens(self, limit_tokens: int) -> int:
        return limit_tokens + UNKNOWN_OUTPUT_TOKENS

    def price(self, input_tokens: int, output_tokens: int) -> int | None:
        return None

    async def ask(self, prompt: Prompt) -> Reply:
        code, told, complained = await self._run(f"{prompt.system}\n\n{prompt.user}\n".encode())
        if code != 0:
            last = short_reason(complained.decode(errors="replace")[-2000:].strip().rpartition("\n")[2])
            raise CallFault(f"it ended with code {code}" + (f": {last}" if last else ""))
        return Reply(scrubbed(told.decode(errors="replace")))

    async def _run(self, given: bytes) -> tuple[int, bytes, bytes]:
        told, complained = bytearray(), bytearray()
        async with self._started() as process:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_collect, process.stdout, told)
                tasks.start_soon(_collect, process.stderr, complained)
                assert process.stdin is not None
                # It may answer without having read everything, or at all.
                with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                    await process.stdin.send(given)
                with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                    await process.stdin.aclose()
            return await process.wait(), bytes(told), bytes(complained)

    @contextlib.asynccontextmanager
    async def _started(self):
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            process = await anyio.open_process(
                [*self.entry.command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=self.folder,
                env={**os.environ, INSIDE: "1"},
                start_new_session=True,
            )
        except OSError as error:
            raise CallFault(f"it cannot be started: {error.strerror}", unpaid=True) from None
        try:
            yield process
        finally:
            _kill_family(process)
            with anyio.CancelScope(shield=True):
                await process.aclose()


async def _collect(stream: anyio.abc.ByteReceiveStream | None, into: bytearray) -> None:
    """Read a stream to its end; what is too much is read and thrown away, so that nobody has to wait."""
    assert stream is not None
    async for piece in stream:
        into += piece[: MOST_BYTES - len(into)]


def _kill_family(process: anyio.abc.Process) -> None:
    """End the program and what it started; what has ended already is left alone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            if process.returncode is None:
                process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
