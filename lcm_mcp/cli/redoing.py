"""The command redo: a summary that is no good made again, or all that were made by rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lcm_mcp.cli.call import Call, pass_call, shared_options
from lcm_mcp.cli.output import console, json_option, print_json, styled
from lcm_mcp.cli.text import one_line, unbroken

if TYPE_CHECKING:
    from lcm_mcp.service.redoing import Redone
    from lcm_mcp.service.upgrading import Upgraded


@click.command("redo")
@click.argument("id", metavar="[NODE]", required=False)
@click.option("--extractive", is_flag=True, help="All summaries made by rule, by the models of the settings.")
@json_option
@shared_options
@pass_call
def redo_command(call: Call, id: str | None, extractive: bool, as_json: bool) -> None:
    """Make a node's summary again.

    NODE (n12) is summarized anew from its rows or children. Requests show the new text from the next cut on;
    describe shows the old one too. Nodes above it stay as they are.

    With --extractive, models write all summaries of the session that were made by rule, leaves first and
    within the caps; --session '*' means every session.
    """
    if extractive == (id is not None):
        raise click.UsageError("Give a NODE, or --extractive.")
    if id is None:
        _upgrade(call, as_json)
        return
    redone = call.run(lambda service: service.redo(id, call.session), "summarizing")
    if as_json:
        print_json(redone)
    elif not call.quiet:
        console().print(styled(_told(redone)))


def _upgrade(call: Call, as_json: bool) -> None:
    upgraded = call.run(lambda service: service.upgrade(call.session), "models write summaries")
    if as_json:
        print_json(upgraded)
    elif not call.quiet:
        console().print(styled(_told_of_all(upgraded)))
    if upgraded.failed is not None:
        raise click.ClickException(upgraded.failed)


def _told(redone: Redone) -> str:
    made = "made again" if redone.changed else "came out the same"
    return (
        f"{redone.node} of {unbroken(redone.session)}: {made}, {redone.tokens_before:,} → {redone.tokens:,} "
        f"tokens, level {redone.level} by {one_line(redone.model)}."
    )


def _told_of_all(upgraded: Upgraded) -> str:
    price = "price unknown" if upgraded.usd is None else f"${upgraded.usd:.4f}"
    whose = upgraded.sessions[0] if len(upgraded.sessions) == 1 else f"{len(upgraded.sessions)} sessions"
    return (
        f"{unbroken(whose)}: {upgraded.rewritten} summaries written by models, "
        f"{upgraded.kept} kept as they were, {upgraded.left} left; "
        f"{upgraded.calls} calls, {upgraded.tokens:,} tokens, {price}."
    )
