"""The two ways out: a rich console for a reader, one JSON document for a script.

Stored text reaches a console only through text.clean, and never as markup. JSON carries everything
as it is stored.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar, cast

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

T = TypeVar("T")

ROLE_STYLES = {"user": "green", "assistant": "cyan", "tool": "magenta", "system": "yellow"}


NARROWEST, WIDEST = 40, 1000
"""In columns; some launchers say 0, or anything."""


class ReaderGone(Exception):
    """Nobody reads our output any more; not an OSError, which click would take for its own to handle."""


def json_option(function: Callable[..., T]) -> Callable[..., T]:
    """Let a reading command answer in JSON."""
    option = click.option("--json", "as_json", is_flag=True, help="One JSON document, verbatim.")
    return option(function)


def print_json(answer: object) -> None:
    """Write an answer of the service as one JSON document."""
    import orjson

    try:
        document = orjson.dumps(answer)
    except TypeError:
        # Lone surrogates and integers beyond 64 bits are in payloads; JSON can say both, orjson cannot.
        document = json.dumps(answer, ensure_ascii=True, default=_fields).encode("ascii")
    write(document + b"\n")


def write(document: bytes) -> None:
    """Write to stdout as it is. Raises ReaderGone."""
    rest = memoryview(document)
    try:
        while rest:  # unbuffered (PYTHONUNBUFFERED), stdout may take only a part at once
            rest = rest[sys.stdout.buffer.write(rest) :]
        sys.stdout.flush()
    except BrokenPipeError:
        raise ReaderGone from None


def _fields(answer: object) -> object:
    if dataclasses.is_dataclass(answer) and not isinstance(answer, type):
        return {field.name: getattr(answer, field.name) for field in dataclasses.fields(answer)}
    return str(answer)


def console(*, stderr: bool = False) -> Console:
    """A console that guesses nothing: no markup, no emoji codes, no highlighting of stored text."""
    from rich.console import Console

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            raise ReaderGone

    stream = sys.stderr if stderr else sys.stdout
    shown = Plain(file=stream, markup=False, emoji=False, highlight=False, soft_wrap=False)
    shown.width = min(max(shown.width, NARROWEST), WIDEST)
    return shown


def styled(*pieces: str | tuple[str, str]) -> Text:
    """A text of pieces, each plain or with its style; the pieces are already clean."""
    from rich.text import Text

    return Text.assemble(*pieces)


@contextmanager
def progress(label: str, wanted: bool, counted: str = "rows") -> Generator[Callable[[int], None] | None]:
    """A running count on stderr, only where a person watches; None where nobody does."""
    if not wanted or not sys.stderr.isatty():
        yield None
        return
    with console(stderr=True).status(label) as status:
        yield lambda number: status.update(f"{label}  {number:,} {counted}")


@contextmanager
def waiting(label: str, wanted: bool) -> Generator[None]:
    """On stderr, where a person watches: that something is under way, and since when."""
    if not wanted or not sys.stderr.isatty():
        yield
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as shown:
        shown.add_task(label, total=None)
        yield


def confirmed(question: str) -> bool:
    """Whether the answer to a question on stderr begins a yes; without one (no more input) it is no."""
    click.echo(f"{question} [y/N] ", nl=False, err=True)
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):
        click.echo(err=True)
    return answer.strip().lower() in ("y", "yes")


def role_style(role: str | None) -> str:
    return ROLE_STYLES.get(cast("str", role), "dim")
