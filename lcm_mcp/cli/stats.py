"""The command stats: what a session, or the whole store, holds in figures. It writes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from lcm_mcp.cli.call import Call, pass_call, shared_options
from lcm_mcp.cli.output import console, json_option, print_json, styled
from lcm_mcp.cli.text import one_line, percent, unbroken
from lcm_mcp.wording import counted

if TYPE_CHECKING:
    from rich.console import Console

    from lcm_mcp.dag.spending import Spent
    from lcm_mcp.service.statistics import Stats


@click.command("stats")
@click.option("--all", "whole", is_flag=True, help="The whole store's.")
@json_option
@shared_options
@pass_call
def stats_command(call: Call, whole: bool, as_json: bool) -> None:
    """Show a session's figures."""
    if whole and call.session is not None:
        raise click.UsageError("--all is of every session: leave out --session.")
    stats = call.run(lambda service: service.stats("*" if whole else call.session))
    if as_json:
        print_json(stats)
    else:
        show_stats(console(), stats)


def show_stats(out: Console, stats: Stats) -> None:
    from lcm_mcp.cli.show import show_facts

    if stats.session is None:
        out.print(styled((counted(stats.sessions, "session"), "bold")))
    else:
        out.print(styled((unbroken(stats.session), "bold"), (f"  {stats.strategy}", "dim")))
    facts = [
        ("rows", _parts(stats.rows, {role: n for role, n in stats.rows_by_role.items()}, _removed(stats))),
        ("history", f"{counted(stats.tokens, 'token')} (estimate) in {counted(stats.units, 'unit')}"),
        ("nodes", _nodes(stats)),
        ("summarized", _summarized(stats)),
        ("cuts", ", ".join(f"{number:,} {name}" for name, number in stats.cuts.items()) or "none"),
        ("requests", _requests(stats)),
        ("models", _models(stats)),
        ("pins", f"{stats.pins:,}"),
        ("texts", f"{stats.text_bytes:,} bytes of rows, {stats.summary_bytes:,} of summaries"),
        ("payloads", f"{stats.payload_bytes:,} bytes"),
        ("images", f"{stats.images:,}" + (f", {stats.image_bytes:,} bytes" if stats.images else "")),
        ("files", f"{stats.files:,} that tools read, {stats.large_inline:,} large-inline"),
        ("file", f"{stats.file_bytes:,} bytes" + (" (the whole store)" if stats.session else "")),
    ]
    show_facts(out, facts)


def _parts(total: int, parts: Mapping[str, int], more: str = "") -> str:
    named = ", ".join(f"{number:,} {name}" for name, number in parts.items())
    return f"{total:,}{': ' if named else ''}{named}{more}"


def _removed(stats: Stats) -> str:
    return f"; {stats.removed_rows:,} off the active path" if stats.removed_rows else ""


def _nodes(stats: Stats) -> str:
    if not stats.nodes:
        return "none"
    depths = {f"of depth {depth}": number for depth, number in stats.nodes_by_depth.items()}
    levels = ", ".join(f"{number:,} of level {level}" for level, number in stats.nodes_by_level.items())
    return _parts(stats.nodes, depths, f"; {levels}")


def _summarized(stats: Stats) -> str:
    bare = f"{counted(stats.unsummarized_rows, 'row')} without a summary"
    if not stats.frontier_tokens:
        return bare
    ratio = stats.covered_tokens / stats.frontier_tokens
    return f"{stats.covered_tokens:,} → {stats.frontier_tokens:,} tokens ({ratio:.1f}:1); {bare}"


def _requests(stats: Stats) -> str:
    seen = f"{stats.observations:,} observed"
    if not stats.measured_requests:
        return seen
    measured = f"{seen}, {stats.measured_requests:,} measured: {stats.provider_input_tokens:,} tokens in"
    if stats.cached_share is None:
        return measured
    return f"{measured}, {percent(round(stats.cached_share * 10_000), 10_000)} cached"


def _models(stats: Stats) -> str:
    """What calls of models took; nothing where there were none."""
    named = "; ".join(
        f"{one_line(name)} {counted(each.calls, 'call')}, {each.input_tokens:,} tokens in, "
        f"{each.output_tokens:,} out, {_price(each)}"
        for name, each in stats.spent.items()
    )
    return f"{named}; {stats.spent_today_tokens:,} tokens today (the whole store)" if named else ""


def _price(spent: Spent) -> str:
    unpriced = f", {counted(spent.unpriced_calls, 'call')} of unknown price" if spent.unpriced_calls else ""
    unsettled = f", {spent.unsettled_tokens:,} tokens not counted" if spent.unsettled_tokens else ""
    return f"${spent.usd:.4f}{unpriced}{unsettled}"
