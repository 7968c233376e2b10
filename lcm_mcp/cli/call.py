"""What every command shares: the global options, and a service that lives as long as one call.

The global options may stand before or after the command's name. Nothing here prints an answer, and
no command opens a store by another way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from lcm_mcp.service import Service
    from lcm_mcp.settings import Settings

T = TypeVar("T")
Decorated = TypeVar("Decorated", bound=Callable[..., object] | click.Command)

CLOSING_S = 5.0
_COMPLETED = 50


@dataclass(slots=True)
class Call:
    """The global options as given; None where the layers below decide."""

    db: Path | None = None
    session: str | None = None
    quiet: bool = False

    def settings(self, **overrides: object) -> Settings:
        from lcm_mcp.settings import load_settings

        return load_settings({"db": self.db, "session": self.session, **overrides})

    def service(self) -> Service:
        """Open the store that the settings name, or make it; closing it is for who asks. Raises LcmError."""
        from lcm_mcp.service import Service

        return Service.open(self.settings())

    def run(self, work: Callable[[Service], Awaitable[T]], label: str | None = None) -> T:
        """Open the store that the settings name, do the work, close it whatever happens.

        Where there is none it is not made: raises NoStore.
        What followed files have left to read is said on stderr; under a label also that it is under way.
        """
        from lcm_mcp.cli.output import waiting

        with waiting(label or "", label is not None and not self.quiet):
            answer = run_on(self.settings(), work, make=False)
        behind = getattr(answer, "behind", None)
        if behind is not None and not self.quiet:
            click.echo(behind, err=True)
        return answer


pass_call = click.make_pass_decorator(Call, ensure=True)


def run_on(settings: Settings, work: Callable[[Service], Awaitable[T]], *, make: bool = True) -> T:
    """Do the work on the store of these settings, then close it. Without `make` raises NoStore for none."""
    import anyio

    from lcm_mcp.service import Service

    async def whole() -> T:
        service = Service.open(settings, make=make)
        try:
            return await work(service)
        finally:
            # A cancelled call (Ctrl-C) must still close its store, but may not hang in doing so.
            with anyio.move_on_after(CLOSING_S, shield=True):
                await service.close()

    return anyio.run(whole)


def _keep(ctx: click.Context, param: click.Parameter, value: object) -> None:
    # Written only where given: the option's absence after the command must not undo it before.
    if value is not None:
        setattr(ctx.ensure_object(Call), param.name, value)


def _sessions(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Keys of stored sessions that begin so, last active first, for a shell that completes one.

    A store that is not there or cannot be read has none: a shell in the midst of a line is told no errors.
    """
    from lcm_mcp.errors import LcmError

    del param
    try:
        page = run_on(
            ctx.ensure_object(Call).settings(),
            lambda service: service.sessions(incomplete or None, "*", _COMPLETED),
            make=False,
        )
    except LcmError:
        return []
    return [session.key for session in page.sessions if session.key.startswith(incomplete)]


_SHARED = (
    click.option(
        "--quiet",
        is_flag=True,
        default=None,
        callback=_keep,
        expose_value=False,
        help="No progress, no account.",
    ),
    click.option(
        "--session",
        metavar="S",
        callback=_keep,
        expose_value=False,
        shell_complete=_sessions,
        help="The session: its key, or s7.",
    ),
    click.option(
        "--db",
        type=click.Path(dir_okay=False, path_type=Path),
        callback=_keep,
        expose_value=False,
        help="The store's file.",
    ),
)


def shared_options(function: Decorated) -> Decorated:
    """Let a command take --db, --session and --quiet."""
    for option in _SHARED:
        function = option(function)
    return function
