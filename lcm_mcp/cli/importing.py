"""The command import: files into the store, and an account of what came of each.

The account names every line that could not be understood. A file that is refused does not stop the
next one, but the command then ends with 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lcm_mcp.cli.call import Call, pass_call, run_on, shared_options
from lcm_mcp.cli.discovering import import_found
from lcm_mcp.cli.output import console, json_option, print_json, progress, styled
from lcm_mcp.cli.text import one_line, unbroken
from lcm_mcp.errors import ImportRefused
from lcm_mcp.values import frozen
from lcm_mcp.wording import counted

if TYPE_CHECKING:
    from rich.console import Console

    from lcm_mcp.service import Service
    from lcm_mcp.service.answers import Imported, ImportOutcome
    from lcm_mcp.transcript.importers.report import ImportReport

FORMAT_NAMES = (
    "claude-code",
    "codex",
    "pi",
    "gemini",
    "opencode",
    "cursor",
    "openhands",
    "chatgpt",
    "claude-ai",
    "swe-agent",
    "messages",
    "neutral",
)
"""Those of the importers, named here so that a command is known without loading them."""
_NAMED_CONFLICTS = 5


@frozen
class _Wish:
    """How all files are to be read, and whether anyone wants to hear of it."""

    format: str
    session: str | None
    fold: bool
    follow: bool
    shown: bool


@click.command("import")
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--format",
    "form",
    metavar="FORMAT",
    type=click.Choice(["auto", *FORMAT_NAMES]),
    default="auto",
    show_default=True,
    help=f"auto looks into each file; else {', '.join(FORMAT_NAMES)}.",
)
@click.option("--discover", is_flag=True, help="Find what the agents on this machine have left.")
@click.option("--no-fold", is_flag=True, help="Store the conversation only; make no summaries of it.")
@click.option("--no-follow", is_flag=True, help="Read the files now, and not again when they grow.")
@json_option
@shared_options
@pass_call
def import_command(
    call: Call,
    paths: tuple[Path, ...],
    form: str,
    discover: bool,
    no_fold: bool,
    no_follow: bool,
    as_json: bool,
) -> None:
    """Read transcript files into the store, and follow them.

    A folder stands for the transcripts below it, a Claude Code session for its subagents' files too. The same
    file again adds nothing; a longer one adds what is new, by itself as soon as something is read from the
    store, where its format allows that. --discover looks where agents keep their sessions, shows what is
    there and asks.
    """
    if discover == bool(paths):
        raise click.UsageError("Name files or folders, or give --discover alone.")
    if discover:
        import_found(call, fold=not no_fold, follow=not no_follow, as_json=as_json)
        return
    shown = not (as_json or call.quiet)
    found = {path: list(_files(path)) for path in paths}
    files = [file for below in found.values() for file in below]
    settings = call.settings(foldImports=False if no_fold else None)
    # A session is what --session says; LCM_SESSION is for reading and must not pour all files into one.
    wish = _Wish(form, call.session, settings.fold_imports, not no_follow, shown)
    folders = [folder for path in paths for folder in _folders(path)]
    outcomes, refused = run_on(settings, lambda service: _import_all(service, files, folders, wish))
    if as_json:
        print_json({"files": outcomes, "refused": [str(error) for error in refused]})
    bare = [one_line(str(path)) for path, below in found.items() if not below]
    if bare:
        told = (
            f"no transcript, by its name, is below {', '.join(bare)}. A file that is named itself is read "
            "whatever its name."
        )
        raise click.ClickException(" ".join([*map(_line, refused), told]))
    if refused:
        raise refused[0] if len(refused) == 1 else click.ClickException(" ".join(map(_line, refused)))


def _files(path: Path) -> Iterator[Path]:
    from lcm_mcp.settings import default_folder
    from lcm_mcp.transcript.importers.places import FILES

    if path.is_dir():
        own = _claude_folder(str(default_folder()))
        files = (file for pattern in FILES for file in path.rglob(pattern))
        yield from sorted(file for file in files if own not in file.parts)
    else:
        yield path
        for folder in _folders(path):
            yield from sorted(folder.rglob("*.jsonl"))


def _folders(path: Path) -> Iterator[Path]:
    """A folder itself, or that of the subagents of a session file."""
    from lcm_mcp.transcript.importers.claude_companions import subagents_folder

    folder = path if path.is_dir() else subagents_folder(path)
    if folder.is_dir():
        yield folder


def _claude_folder(project: str) -> str:
    """Under which name Claude Code keeps the sessions of a folder; those of our summarizers are no one's."""
    return re.sub(r"[^A-Za-z0-9]", "-", project)


async def _import_all(
    service: Service, files: list[Path], folders: list[Path], wish: _Wish
) -> tuple[list[ImportOutcome], list[ImportRefused]]:
    outcomes: list[ImportOutcome] = []
    refused: list[ImportRefused] = []
    for file in files:
        with progress(one_line(file.name), wish.shown) as on_rows:
            try:
                outcome = await service.import_file(
                    file, wish.format, wish.session, wish.fold, on_rows, wish.follow
                )
            except ImportRefused as error:
                refused.append(error)
                continue
        outcomes.append(outcome)
        if wish.shown:
            show_outcome(console(), outcome)
    # In a folder without a file of the format that was said, there is none to wait for.
    sought = wish.follow and (wish.format == "auto" or not refused or bool(outcomes))
    for folder in folders if sought else ():
        await service.follow_folder(folder, wish.format, wish.session, wish.fold)
    with progress("index", wish.shown, "texts left") as on_left:
        await service.index(on_left)
    return outcomes, refused


def _line(error: ImportRefused) -> str:
    return one_line(str(error))


def _masked(masked: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {kind}" for kind, number in sorted(masked.items())) + " (not stored)"


def show_outcome(out: Console, outcome: ImportOutcome) -> None:
    """Say what was read, kept, left out, not understood and folded; nothing of what did not occur."""
    from lcm_mcp.cli.show import show_facts

    report = outcome.report
    out.print(styled((unbroken(Path(report.path).name), "bold"), (f"  {report.format}", "dim")))
    facts = [("read", _read(report)), ("", _contents(report)), ("not stored", _others(report))]
    facts += [("masked", _masked(outcome.masked))] if outcome.masked else []
    facts += _oddities(report)
    facts += [("kept", _kept(each)) for each in outcome.sessions] or [("kept", "nothing: no message in it")]
    facts += [("folded", _folded(each)) for each in outcome.sessions]
    show_facts(out, facts)
    for line, problem in report.bad:
        out.print(styled(("  not understood", "yellow"), f"  line {line}: {one_line(problem)}"))
    if report.bad_lines > len(report.bad):
        out.print(styled(f"  and {counted(report.bad_lines - len(report.bad), 'more line')} not understood"))


def _read(report: ImportReport) -> str:
    messages = ((report.user, "user"), (report.assistant, "assistant"), (report.tool, "tool"))
    roles = (f"{number:,} {role}" for number, role in (*messages, (report.system, "system")) if number)
    objects = f"{counted(report.lines, 'line')}, {counted(report.objects, 'object')}"
    return f"{objects}: {', '.join(roles) or 'no message'}"


def _contents(report: ImportReport) -> str:
    found = (
        (report.tool_calls, "tool call", "tool calls"),
        (report.tool_results, "result", "results"),
        (report.unanswered, "call without result", "calls without result"),
        (report.orphans, "result without call", "results without call"),
        (report.reasoning, "reasoning block", "reasoning blocks"),
        (report.images, "image", "images"),
        (report.opaque, "unknown block, kept as it is", "unknown blocks, kept as they are"),
        (report.sidechain, "message of subagents", "messages of subagents"),
        (report.queued, "prompt that only the queue tells", "prompts that only the queue tells"),
        (report.compact_summaries, "summary that the client made", "summaries that the client made"),
    )
    return ", ".join(counted(number, one, many) for number, one, many in found if number)


def _others(report: ImportReport) -> str:
    kinds = (f"{number:,} {one_line(kind)}" for kind, number in report.other.items())
    return f"{', '.join(kinds)} (no messages)" if report.other else ""


def _oddities(report: ImportReport) -> list[tuple[str, str]]:
    glued = f"{counted(report.glued, 'object')} stood on a line with another; read all the same"
    repaired = f"{counted(report.repaired, 'line')} held bytes that are no UTF-8; they were replaced"
    return [
        ("glued", glued if report.glued else ""),
        ("repaired", repaired if report.repaired else ""),
        (
            "unfinished",
            "the last line is half written; import again later" if report.unfinished_last_line else "",
        ),
    ]


def _kept(imported: Imported) -> str:
    said = [f"{unbroken(imported.session)}: {counted(imported.rows_added, 'new row')}"]
    if imported.duplicates:
        said.append(f"{imported.duplicates:,} known already")
    if imported.late:
        said.append(f"{imported.late:,} late, placed after rows that follow them")
    if imported.conflicts:
        named = ", ".join(map(unbroken, imported.conflicts[:_NAMED_CONFLICTS]))
        more = ", …" if len(imported.conflicts) > _NAMED_CONFLICTS else ""
        said.append(
            f"{counted(len(imported.conflicts), 'conflict')}, the first content stands: {named}{more}"
        )
    return "; ".join(said)


def _folded(imported: Imported) -> str:
    made = imported.folded
    if made is None or not (made.leaves or made.parents):
        return ""
    nodes = f"{counted(made.leaves, 'leaf', 'leaves')}, {counted(made.parents, 'parent')}"
    return f"{unbroken(imported.session)}: {nodes}; {made.source_tokens:,} → {made.summary_tokens:,} tokens"
