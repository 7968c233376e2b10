"""The commands fork and rewind: another way on from an earlier row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lcm_mcp.cli.call import Call, pass_call, shared_options
from lcm_mcp.cli.output import console, json_option, print_json, styled
from lcm_mcp.cli.text import unbroken
from lcm_mcp.wording import counted

if TYPE_CHECKING:
    from lcm_mcp.service.forking import Forked, Rewound


@click.command("fork")
@click.argument("at", required=False, metavar="[ROW]")
@click.option("--as", "new_session", metavar="NAME", help="The new session's key; else one is made.")
@click.option("--marker", is_flag=True, help="Append a row that says where the fork came from.")
@json_option
@shared_options
@pass_call
def fork_command(call: Call, at: str | None, new_session: str | None, marker: bool, as_json: bool) -> None:
    """Go on from a row in a new session.

    ROW (e104, or an entry_id) is the last row that comes along, by default the session's last. Numbers, pins
    and summaries come along, and the session itself stays as it is.
    """
    fork = call.run(lambda service: service.fork(call.session, at, new_session, marker))
    if as_json:
        print_json(fork)
    elif not call.quiet:
        console().print(styled(_forked(fork)))


def _forked(fork: Forked) -> str:
    made = "forked" if fork.created else "there already, forked"
    return (
        f"{unbroken(fork.session)} ({fork.id}): {made} from {unbroken(fork.parent)} at {fork.at}; "
        f"{counted(fork.rows, 'row')}, {counted(fork.nodes_copied, 'node')} copied, "
        f"{fork.nodes_omitted:,} omitted."
    )


@click.command("rewind")
@click.argument("to", metavar="ROW")
@json_option
@shared_options
@pass_call
def rewind_command(call: Call, to: str, as_json: bool) -> None:
    """Let a session end at another row.

    ROW (e104, or an entry_id) is the last row from now on: an earlier one, or a removed one, which comes back
    with its branch; e0 for none of them. Nothing is deleted.
    """
    rewound = call.run(lambda service: service.rewind(to, call.session))
    if as_json:
        print_json(rewound)
    elif not call.quiet:
        console().print(styled(_rewound(rewound)))


def _rewound(rewound: Rewound) -> str:
    return (
        f"{unbroken(rewound.session)} ends at {rewound.leaf} now: {counted(rewound.removed, 'row')} removed, "
        f"{rewound.restored:,} restored."
    )
