"""Everything that can be refused, as one tree.

Each class builds its own sentence: what was wrong, then what to do next. Expected outcomes (stale,
nothing to do, limited) are values elsewhere, never exceptions. This module knows no other.
"""

from __future__ import annotations

from collections.abc import Sequence


class LcmError(Exception):
    """The root of every error a user can meet; `str(error)` is fit to be shown as it is."""


class InvalidArgument(LcmError):
    """An argument has a value the operation cannot use."""

    def __init__(self, name: str, problem: str, remedy: str) -> None:
        self.name = name
        super().__init__(f"{name}: {problem}. {remedy}")


class UnknownSession(LcmError):
    """No session has that key or number; near are keys that begin so."""

    def __init__(self, wanted: str, near: Sequence[str] = ()) -> None:
        meant = " or ".join(map(repr, near))
        super().__init__(
            f"There is no session {wanted!r}. "
            + (f"Did you mean {meant}? " if near else "")
            + "lcm_sessions lists those stored; lcm_append and prepare_context with append create one."
        )


class NoSession(LcmError):
    """A call named no session and the store holds none to fall back on."""

    def __init__(self) -> None:
        super().__init__(
            "The store holds no session yet. Import what agents left on this machine with `lcm-mcp import "
            "--discover`, a file with `lcm-mcp import FILE`, or append to a new session with lcm_append."
        )


class SessionForgotten(LcmError):
    """A session was taken out of the store while a call was at work on it, with what the call began."""

    def __init__(self, number: int) -> None:
        super().__init__(f"Session s{number} was forgotten meanwhile. lcm_sessions lists those stored.")


class UnknownAddress(LcmError):
    """An address is well formed but names nothing stored."""

    def __init__(self, address: str, session: str) -> None:
        super().__init__(
            f"{address} names nothing in session {session!r}. lcm_list shows its nodes, lcm_grep finds rows."
        )


class MalformedAddress(LcmError):
    """A text is not an address at all, or one that cannot be, and why."""

    def __init__(self, text: str, why: str | None = None) -> None:
        said = f"{text[:80]!r} is not an address" + ("" if why is None else f": {why}")
        super().__init__(
            f"{said}. Use e104 for a row, #12 for a node, e104..e238 for a range, f7 for a file, with s7/ in "
            "front for another session."
        )


class BadCursor(LcmError):
    """A cursor was not made by this query, or not by this tool at all."""

    def __init__(self) -> None:
        super().__init__(
            "cursor: it does not belong to this query. Repeat the query without cursor for its first page, "
            "then pass next_cursor unchanged with the same arguments."
        )


class AppendConflict(LcmError):
    """The session moved on since the client last saw it; nothing was written."""

    def __init__(self, expected: str, actual: str) -> None:
        super().__init__(
            f"Nothing was appended: the session ends at {actual}, not at {expected}. "
            "Read what was added since, then append after that."
        )


class SessionExists(LcmError):
    """A session of that key is there, and is not what this call would make; nothing was written."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"new_session: there is a session {key!r} already, and it is no fork from this row. "
            "Give another key, or none to have one made."
        )


class MalformedEntry(LcmError):
    """An entry or message cannot be understood; nothing of its batch was written."""

    def __init__(self, index: int, problem: str) -> None:
        super().__init__(
            f"entries[{index}]: {problem}. Nothing was appended. An entry is "
            '{"role": "user|assistant|tool|system", "content": text or parts}.'
        )


class SettingsError(LcmError):
    """A setting has an unknown name or a value that cannot hold."""


class ImportRefused(LcmError):
    """A file cannot be imported as what it was said or found to be; why is what it is made of."""

    def __init__(self, path: str, problem: str, remedy: str) -> None:
        super().__init__(f"{path}: {problem}. {remedy}")
        self.why = path, problem, remedy


class InstallRefused(LcmError):
    """A client's file cannot be given our entry, or relieved of it; it was not changed."""

    def __init__(self, path: str, problem: str, remedy: str) -> None:
        super().__init__(f"{path}: {problem}. {remedy}")


class RepliesLost(LcmError):
    """What the client is to be told cannot be written to it."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"The replies cannot be written ({reason}). What was stored stays stored: make room, or give it "
            "another stdout, and start it again."
        )


class NotServing(LcmError):
    """A client's command was started and did not answer as a server."""

    def __init__(self, command: str, reason: str) -> None:
        super().__init__(f"{command} was started and did not serve: {reason.rstrip('.')}.")


class StoreError(LcmError):
    """The root of what can go wrong with the database file itself."""


class NoStore(StoreError):
    """Something is to be read, and there is no file; said_by is what named it, None for the default place."""

    def __init__(self, path: str, said_by: str | None) -> None:
        super().__init__(
            f"There is no store yet, since nothing was imported; it will be {path}. `lcm-mcp import "
            "--discover` reads in what agents left on this machine, `lcm-mcp import FILE` a file."
            if said_by is None
            else f"There is no store at {path}, as {said_by} says. Check the path; to make a new store "
            "there, import into it: `lcm-mcp import --discover`, or `lcm-mcp import FILE`."
        )


class NotAStore(StoreError):
    """The file is a database, or not even that, of something else."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} is not a store of lcm-mcp. Name another file with --db or LCM_DB.")


class StoreTooNew(StoreError):
    """The file was written by a newer version; opening it could lose what that version knows."""

    def __init__(self, path: str, found: int, known: int) -> None:
        super().__init__(
            f"{path} has schema version {found}; this version of lcm-mcp knows up to {known}. "
            "Upgrade lcm-mcp; the file was not touched."
        )


class StoreUnavailable(StoreError):
    """The file cannot be opened, read or written; SQLite's own word is included."""

    def __init__(self, path: str, reason: str, remedy: str) -> None:
        super().__init__(f"{path}: {reason}. {remedy}")


class StoreBusy(StoreError):
    """Another process kept the write lock longer than we wait."""

    def __init__(self, path: str, waited_s: float) -> None:
        super().__init__(
            f"{path} was locked by another process for {waited_s:g} s; nothing was written. Try again."
        )


class StoreDamaged(StoreError):
    """A page fails its checksum or the file is malformed."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(
            f"{path} is damaged ({reason}). Run `lcm-mcp doctor --repair`: it mends what can be mended, "
            "keeps a copy of the file, and says if a backup is needed."
        )


class StoreClosed(StoreError):
    """The store was closed while, or before, it was used."""

    def __init__(self) -> None:
        super().__init__("The store is closed. Start the command or the server again.")


class SummarizerFailed(LcmError):
    """A summarizer could not be called (network, credentials, time); its answer is not the fault."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"Summarizer {name} failed: {reason}.")
