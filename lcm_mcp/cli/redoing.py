"""The command redo: a summary that is no good, made again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lcm_mcp.cli.call import Call, pass_call, shared_options
from lcm_mcp.cli.output import console, json_option, print_json, styled
from lcm_mcp.cli.text import one_line

if TYPE_CHECKING:
    from lcm_mcp.service.redoing import Redone


@click.command("redo")
@click.argument("id", metavar="NODE")
@json_option
@shared_options
@pass_call
def redo_command(call: Call, id: str, as_json: bool) -> None:
    """Make a node's summary again.

    NODE (n12) is summarized anew from its rows or children. Requests show the new text from the next cut on;
    describe shows the old one too. Nodes above it stay as they are.
    """
    redone = call.run(lambda service: service.redo(id, call.session))
    if as_json:
        print_json(redone)
    elif not call.quiet:
        console().print(styled(_told(redone)))


def _told(redone: Redone) -> str:
    made = "made again" if redone.changed else "came out the same"
    return (
        f"{redone.node} of {one_line(redone.session)}: {made}, {redone.tokens_before:,} → {redone.tokens:,} "
        f"tokens, level {redone.level} by {one_line(redone.model)}."
    )
