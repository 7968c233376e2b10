"""The command pin: rows that stay quoted when the conversation around them is summarized.

Without a row it looks and writes nothing. Pinning makes no cut, so what a request shows does not change
before its next one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lcm_mcp.cli.call import Call, pass_call, shared_options
from lcm_mcp.cli.output import console, json_option, print_json, role_style, styled
from lcm_mcp.cli.text import one_line, unbroken, when
from lcm_mcp.wording import counted

if TYPE_CHECKING:
    from rich.console import Console

    from lcm_mcp.service.pinning import PinLine, Pins

_HOW = (
    "Pin one with lcm-mcp pin e104, such as what the user wants done or never done, "
    "to keep it in sight when the conversation around it is summarized."
)
_WHEN = (
    "Pins show from the next cut on: a request then quotes the pinned rows it no longer has word for word."
)


@click.command("pin")
@click.argument("refs", metavar="[REF]...", nargs=-1)
@click.option("--off", is_flag=True, help="Unpin them.")
@json_option
@shared_options
@pass_call
def pin_command(call: Call, refs: tuple[str, ...], off: bool, as_json: bool) -> None:
    """Keep rows in sight, such as a standing rule of the user.

    A pinned row is quoted in each request that no longer shows it word for word, from the next cut on. REF
    is a row (e104, s7/e104). Without one, lists what is pinned.
    """
    if off and not refs:
        raise click.UsageError("--off needs the rows to unpin.")
    pins = call.run(lambda service: service.pin(refs, call.session, off))
    if as_json:
        print_json(pins)
    elif not (refs and call.quiet):
        show_pins(console(), pins, None if not refs else "Unpinned" if off else "Pinned")


def show_pins(out: Console, pins: Pins, done: str | None = None) -> None:
    """List the pinned rows; done says what became of those changed, None where none was named."""
    if done is not None:
        out.print(styled(f"{done} {', '.join(pins.changed)}." if pins.changed else "Nothing changed."))
    if pins.pinned:
        out.print(styled((unbroken(pins.session), "bold"), f"  {counted(len(pins.pinned), 'pinned row')}"))
        for line in pins.pinned:
            _show_line(out, line)
    else:
        out.print(styled(f"No row of {unbroken(pins.session)} is pinned."))
        out.print(styled((_HOW, "dim")))
    if pins.pinned or done is not None:
        out.print(styled((_WHEN, "dim")))


def _show_line(out: Console, line: PinLine) -> None:
    facts = f"  {when(line.at)}  {counted(line.tokens, 'token')}{'  [removed]' if line.removed else ''}"
    out.print(styled((line.ref, "bold cyan"), "  ", (line.role, role_style(line.role)), (facts, "dim")))
    out.print(styled("    ", one_line(line.preview)))
