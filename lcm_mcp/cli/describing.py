"""The command describe: what a node or a row is, without what it covers.

It writes nothing to the store.
"""

from __future__ import annotations

import click

from lcm_mcp.cli.call import Call, pass_call, shared_options
from lcm_mcp.cli.output import console, json_option, print_json


@click.command("describe")
@click.argument("id")
@json_option
@shared_options
@pass_call
def describe_command(call: Call, id: str, as_json: bool) -> None:
    """Say what a node, a row or a file is.

    Of a node (n12, or '#12' in quotes): its place, sizes, text and files. Of a row (e104): its parts, and the
    node over it. Of a file (f7), which is a large tool result: what is in it.
    """
    description = call.run(lambda service: service.describe(id, call.session))
    if as_json:
        print_json(description)
        return
    from lcm_mcp.cli.show import show_file, show_node, show_row

    out = console()
    if description.node is not None:
        show_node(out, description.node)
    if description.row is not None:
        show_row(out, description.row)
    if description.file is not None:
        show_file(out, description.file)
