"""The command completion: the script by which a shell completes commands, options and sessions.

The shell asks lcm-mcp itself at each Tab, so what it offers is what there is. Nothing is written: where a
shell wants its script is said, and the owner puts it there.
"""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from lcm_mcp.cli.call import shared_options

VARIABLE = "_LCM_MCP_COMPLETE"
"""What click looks at, by the program's name."""
SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
@shared_options
@click.pass_context
def completion_command(ctx: click.Context, shell: str) -> None:
    """Print the script by which a shell completes lcm-mcp.

    \b
    For this shell alone:  eval "$(lcm-mcp completion bash)"
    For every one, into:
      bash  ~/.local/share/bash-completion/completions/lcm-mcp
      zsh   _lcm-mcp in a folder of $fpath
      fish  ~/.config/fish/completions/lcm-mcp.fish
    """
    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(ctx.find_root().command, {}, "lcm-mcp", VARIABLE).source())
