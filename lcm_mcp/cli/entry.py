"""The root command and its ends: which commands there are, and how a call may end.

Done is 0; a refusal or failure is 1, wrong usage is 2, each with one line on stderr. Ctrl-C ends with 130
and a reader that went away with 141, as a shell reports signals. A command's module is imported when
it is asked for. Only a fault of ours shows a traceback.
"""

from __future__ import annotations

import errno
import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import cast

import click

from lcm_mcp import __version__
from lcm_mcp.cli.call import Call, pass_call, shared_options
from lcm_mcp.cli.hook import is_hook
from lcm_mcp.cli.output import ReaderGone
from lcm_mcp.errors import LcmError

INTERRUPTED = 130
READER_GONE = 141

# In the order in which a reader of --help meets them: make a memory, look at it, serve it.
_COMMANDS = {
    "import": "importing",
    "sessions": "reading",
    "list": "reading",
    "dag": "dag",
    "tree": "tree",
    "grep": "reading",
    "describe": "describing",
    "expand": "reading",
    "context": "window",
    "compact": "compacting",
    "redo": "redoing",
    "strategy": "compacting",
    "fork": "forking",
    "rewind": "forking",
    "pin": "pinning",
    "stats": "stats",
    "serve": "serving",
    "watch": "watching",
    "hook": "hook",
    "install": "installing",
    "doctor": "doctor",
    "backup": "keeping",
    "export": "keeping",
    "forget": "keeping",
    "completion": "completion",
    "demo": "demo",
}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = _COMMANDS.get(cmd_name)
        if module is None:
            return None
        loaded = importlib.import_module(f"lcm_mcp.cli.{module}")
        return cast("click.Command", getattr(loaded, f"{cmd_name}_command"))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in _COMMANDS:
            from difflib import get_close_matches

            near = " or ".join(get_close_matches(args[0], _COMMANDS))
            ctx.fail(f"No such command {args[0]!r}." + (f" Did you mean {near}?" if near else ""))
        return super().resolve_command(ctx, args)


@click.group(
    cls=_Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@shared_options
@click.version_option(__version__, prog_name="lcm-mcp", message="%(prog)s %(version)s")
@pass_call
@click.pass_context
def root(ctx: click.Context, call: Call) -> None:
    """A memory for agents: whole conversations, and summaries that lead back to every word.

    Without a command: serves MCP over stdio, or, on a terminal, shows what is stored.
    """
    if ctx.invoked_subcommand is not None:
        return
    if sys.stdin.isatty():
        from lcm_mcp.cli.state import show_state

        show_state(call)
    else:
        from lcm_mcp.cli.serving import serve_stdio

        serve_stdio(call)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and end the process with its exit code."""
    _complete_streams()
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except (ReaderGone, BrokenPipeError):
        code = _without_stdout(READER_GONE)
    except OSError as error:
        code = _without_stdout(_failed(_told(error)))
    # A client takes another code of its hook for a veto, 2 most of all.
    sys.exit(0 if is_hook(sys.argv[1:] if arguments is None else arguments) else code)


def _complete_streams() -> None:
    """Point closed standard streams at nothing, and let the others show what their encoding lacks as ?.

    A closed descriptor would be given to the next file that is opened: the store.
    """
    for descriptor, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            if null != descriptor:
                os.dup2(null, descriptor)
                os.close(null)
            setattr(sys, name, os.fdopen(descriptor, mode, encoding="utf-8", closefd=False))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _told(error: OSError) -> str:
    """What the system refused, of which file, and what to do; without a file's name it was our output."""
    where = "The output" if error.filename is None else repr(error.filename)
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    todo = "Make room there" if full else "Check the path, its permissions and its disk"
    return f"{where}: {error.strerror or error}. {todo}, then run it again."


def _without_stdout(code: int) -> int:
    """Give up what is still to be written: Python would try again on its way out, and complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def _run(arguments: Sequence[str] | None) -> int:
    try:
        code = root.main(args=arguments, prog_name="lcm-mcp", standalone_mode=False)
    except click.UsageError as error:
        command = "lcm-mcp" if error.ctx is None else error.ctx.command_path
        return _failed(error.format_message(), command, error.exit_code)
    except click.ClickException as error:
        return _failed(error.format_message())
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except LcmError as error:
        return _failed(str(error))
    except BaseExceptionGroup as group:
        return _failed_in_a_group(group)
    return code if isinstance(code, int) else 0


def _failed(sentence: str, misused: str | None = None, code: int = 1) -> int:
    """Say in one line what was wrong, and where a command was misused, what tells of its use."""
    from lcm_mcp.cli.text import as_commands, one_line

    said = one_line(as_commands(sentence))
    if misused is not None:
        said += f"{'' if said.endswith(('.', '?', '?)')) else '.'} See {misused} --help."
    click.echo(f"lcm-mcp: {said}", err=True)
    return code


def _failed_in_a_group(group: BaseExceptionGroup) -> int:
    """Task groups wrap what happens inside them; a refusal in there is still only a refusal."""
    known, others = group.split(LcmError)
    if known is not None and others is None:
        return _failed(str(_first(known)))
    if group.split(KeyboardInterrupt)[1] is None:
        return INTERRUPTED
    raise group


def _first(group: BaseExceptionGroup[LcmError]) -> LcmError:
    inner = group.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner
