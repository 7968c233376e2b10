"""The two ways out: a rich console for a reader, one JSON document for a script.

Stored text reaches a console only through text.clean, and never as markup. JSON carries everything
as it is stored.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from lcm_mcp.cli.text import FIRM_BLANK, words

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text
    from rich.tree import Tree

T = TypeVar("T")

ROLE_STYLES = {"user": "green", "assistant": "cyan", "tool": "magenta", "system": "yellow"}


NARROWEST, WIDEST = 40, 1000
"""In columns; some launchers say 0, or anything."""
_LEAST_HANGING = 20


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
    from rich.text import Text

    class Plain(Console):
        def print(self, *objects: Any, **options: Any) -> None:
            """Break texts between words; rich would break words too, and end lines in blanks."""
            if options or not all(isinstance(each, str | Text) for each in objects):
                super().print(*objects, **options)
                return
            for line in broken(styled(*objects), self.width):
                super().print(line, soft_wrap=True)

        def on_broken_pipe(self) -> None:
            raise ReaderGone

    stream = sys.stderr if stderr else sys.stdout
    shown = Plain(file=stream, markup=False, emoji=False, highlight=False, soft_wrap=False)
    shown.width = min(max(shown.width, NARROWEST), WIDEST)
    return shown


def broken(text: Text, width: int) -> Iterator[Text]:
    """The text in lines of so many columns, indented like the first, none of which ends in a blank.

    A word that is longer than that is left whole, so that ids and paths can be copied.
    """
    from rich.cells import cell_len

    for line in text.split("\n", allow_blank=True):
        line.rstrip()
        plain = line.plain
        begin = end = len(plain) - len(plain.lstrip(" "))
        indent = line[:begin]
        for low, high in words(plain):
            if end > begin and cell_len(plain[begin:high]) > width - len(indent):
                yield _firm(indent + line[begin:end])
                begin = low
            end = high
        yield _firm(indent + line[begin:end])


def _firm(line: Text) -> Text:
    line.plain = line.plain.replace(FIRM_BLANK, " ")
    return line


def show_columns(out: Console, rows: Iterable[Sequence[str | tuple[str, str]]]) -> None:
    """Rows of clean pieces, each plain or with a style, in columns; what is long in the last hangs there."""
    from rich.cells import cell_len

    table = [[styled(cell) for cell in row] for row in rows]
    widths = [max(cell_len(cell.plain) for cell in column) for column in zip(*table, strict=True)][:-1]
    hang = sum(widths) + 2 * len(widths)
    for *cells, last in table:
        head = styled()
        for cell, width in zip(cells, widths, strict=True):
            head += cell + " " * (width + 2 - cell_len(cell.plain))
        for line in broken(last, max(out.width - hang, _LEAST_HANGING)):
            out.print(head + line, soft_wrap=True)
            head = styled(" " * hang)


def draw(out: Console, tree: Tree) -> None:
    """Draw a tree whose labels fit, or are not to be broken."""
    width, out.width = out.width, WIDEST
    try:
        out.print(tree)
    finally:
        out.width = width


def fitted(text: Text, width: int) -> Text:
    """A label of a tree, in as many lines as it takes."""
    from rich.text import Text

    return Text("\n").join(broken(text, width))


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
