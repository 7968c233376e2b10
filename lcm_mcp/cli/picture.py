"""The picture of a prepared request: what it is, what fills the window, from where, and what was done.

All of it comes from one observation. It is to be read at a glance at 80 columns, without colour, and where
stored text is of wide characters. Tokens are by the figure that the window's lines go by: calibrated where
there is a ratio, else our estimate; each is named as what it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from lcm_mcp.cli.output import styled
from lcm_mcp.cli.text import as_commands, one_line, percent, when
from lcm_mcp.wording import counted

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from lcm_mcp.service.prepared import Counts, Done, Observation

# By shape and by colour: a bar must be readable without either of them.
_FILLS = {
    "preamble": ("▒", "magenta"),
    "summaries": ("▓", "cyan"),
    "quotes": ("░", "yellow"),
    "recalled": ("▞", "blue"),
    "tail": ("█", "green"),
}
_FREE = ("·", "dim")
_MARK = "▲"
_ROOMY = 56
"""Columns from which a section's line has room for how many items it holds."""
_SOURCES = {
    "setting": "window by the settings",
    "catalogue": "window by the model's name",
    "estimate": "window unknown, so taken as large as all was when it was first forced",
}


def show_picture(
    out: Console, seen: Observation, since: int | None = None, *, removed: bool = False, timed: bool = True
) -> None:
    """Draw an observation; since is how many rows came after a stored one, removed whether the row it ended
    at left the path. Untimed, it names no seconds.
    """
    out.print(_head(seen, out.width))
    if since is not None:
        _print_wrapped(out, f"as prepared {when(seen.made_at)} UTC; {_came(since, removed)}")
    _print_wrapped(out, "; ".join(_figures(seen)))
    _print_wrapped(out, "; ".join(_contents(seen)))
    out.print()
    scale = _Scale(seen, out.width - 2)
    out.print(_bar(seen, scale))
    for name, tokens in _lines(seen):
        out.print(_marked(name, tokens, scale))
    for line in _sections(seen, scale, out.width):
        out.print(line)
    for line in _accounts(seen, timed):
        _print_wrapped(out, line, indent="  ")
    for note in seen.notes:
        _print_wrapped(out, one_line(as_commands(note)), "yellow", indent="  ")


class _Scale:
    """How many cells and tokens a section has: the estimate's parts, stretched to the figure that counts."""

    def __init__(self, seen: Observation, width: int) -> None:
        self.width = width
        self.figure = _figure(seen)
        self.whole = max(self.figure, seen.window_tokens or 0, 1)
        self._ratio = self.figure / max(1, seen.estimated_input_tokens)

    def tokens(self, estimated: int) -> int:
        return round(estimated * self._ratio)

    def cell(self, tokens: int) -> int:
        """The column, from 0, that so many tokens reach."""
        return min(self.width, round(tokens * self.width / self.whole))


def _figure(seen: Observation) -> int:
    calibrated = seen.calibrated_input_tokens
    return seen.estimated_input_tokens if calibrated is None else calibrated


def _head(seen: Observation, width: int) -> Text:
    alarm = "bold yellow" if seen.status in ("limited", "failed") else ""
    facts = styled(
        (f"  {seen.prepared}  ", "dim"), (seen.status, alarm), (f"  {seen.strategy}, {seen.regime}", "dim")
    )
    head = styled((one_line(seen.session), "bold"))
    head.truncate(max(8, width - len(facts)), overflow="ellipsis")
    return head + facts


def _came(rows: int, removed: bool) -> str:
    came = f"{counted(rows, 'row') if rows else 'no row'} came since"
    return f"{came}, and its last rows were removed" if removed else came


def _figures(seen: Observation) -> Iterator[str]:
    """What the request weighs: the figure that counts first, then what stands beside it."""
    figure, calibrated = _figure(seen), seen.calibrated_input_tokens is not None
    how = "calibrated" if calibrated else "estimate"
    if seen.window_tokens is None:
        yield f"{figure:,} tokens ({how}) of an unknown window"
    else:
        share = percent(figure, seen.window_tokens)
        yield f"{figure:,} of {seen.window_tokens:,} tokens ({how}), {share}"
    if calibrated:
        yield f"estimate {seen.estimated_input_tokens:,}"
    if seen.provider_input_tokens is not None:
        cached = seen.provider_cached_tokens
        of_them = "" if cached is None else f", of them {cached:,} cached"
        yield f"the provider counted {seen.provider_input_tokens:,}{of_them}"
    if seen.window_tokens is None:
        yield "name one with --window or --model"
    elif seen.trigger_tokens is not None:
        never = seen.strategy == "none"
        yield "it never compacts" if never else f"it compacts at {seen.trigger_tokens:,}"


def _contents(seen: Observation) -> Iterator[str]:
    yield f"{counted(seen.rows, 'row')}: {_counts(seen.after)}"
    if seen.model is not None or seen.provider is not None:
        yield "for " + one_line(" of ".join(part for part in (seen.model, seen.provider) if part))
    if seen.window_source in _SOURCES:
        yield _SOURCES[seen.window_source]


def _counts(counts: Counts) -> str:
    summaries = counted(counts.summaries, "summary", "summaries")
    return f"{summaries} and {counted(counts.tail_rows, 'row')} verbatim"


def _bar(seen: Observation, scale: _Scale) -> Text:
    """The window from left to right; a section that is there has at least one cell."""
    bar, reached, tokens = styled(" "), 0, 0
    filled = [section for section in seen.sections if section.tokens]
    for place, section in enumerate(filled, 1):
        mark, style = _FILLS[section.kind]
        tokens += scale.tokens(section.tokens)
        room = scale.width - (len(filled) - place)
        end = min(room, max(reached + 1, scale.cell(tokens)))
        bar.append(mark * (end - reached), style)
        reached = end
    return bar.append(_FREE[0] * (scale.width - reached), _FREE[1])


def _lines(seen: Observation) -> Iterator[tuple[str, int]]:
    """Where something happens by itself, and where a window ends that the request is over; in tokens."""
    swap, trigger = seen.swap_tokens, seen.trigger_tokens
    if trigger is not None and seen.strategy != "none":
        if swap is not None and swap < trigger:
            yield "swap", swap
        yield "trigger", trigger
    if seen.window_tokens is not None and seen.window_tokens < _figure(seen):
        yield "window", seen.window_tokens


def _marked(name: str, tokens: int, scale: _Scale) -> Text:
    """A line of the window, pointed at from below."""
    column = 1 + min(scale.cell(tokens), scale.width - 1)
    label = f"{name} {tokens:,}"
    if len(label) + 1 < column:
        return styled((f"{label} {_MARK}".rjust(column + 1), "dim"))
    return styled((f"{' ' * column}{_MARK} {label}", "dim"))


def _sections(seen: Observation, scale: _Scale, width: int) -> Iterator[Text]:
    """Two lines a section, in the order of the request: its size and sources, and how it begins."""
    for section in seen.sections:
        mark, style = _FILLS[section.kind]
        items = counted(section.items, "item")
        line = _share(mark, style, section.kind, items, scale.tokens(section.tokens), scale)
        line.append(f"  {_named(section.sources, width - len(line.plain) - 2)}", "cyan")
        line.rstrip()
        yield line
        preview = styled((f"     {one_line(section.preview)}", "dim"))
        preview.truncate(width, overflow="ellipsis")
        if section.preview:
            yield preview
    if seen.window_tokens is not None and seen.window_tokens > scale.figure:
        yield _share(*_FREE, "free", "", seen.window_tokens - scale.figure, scale)


def _share(mark: str, style: str, name: str, items: str, tokens: int, scale: _Scale) -> Text:
    held = f"{items:>9}" if scale.width >= _ROOMY else ""
    figures = f" {name:<10}{held}{tokens:>11,} tokens{percent(tokens, scale.whole):>5}"
    return styled(" ", (mark, style), figures)


def _named(sources: Sequence[str], room: int) -> str:
    """As many addresses as fit, and how many more there are."""
    shown = ""
    for place, source in enumerate(sources):
        longer = f"{shown} {source}".lstrip()
        left = len(sources) - place - 1
        if len(longer) + (len(f" +{left}") if left else 0) > room:
            return f"{shown} +{left + 1}".lstrip()
        shown = longer
    return shown


def _accounts(seen: Observation, timed: bool) -> Iterator[str]:
    if seen.before != seen.after:
        yield f"before: {seen.before.tokens:,} tokens, {_counts(seen.before)}"
    if seen.done is not None and (made := ", ".join(_made(seen.done))):
        # Parents are made of summaries: no row's tokens were folded for them.
        ratio = f"{seen.done.source_tokens:,} → " if seen.done.source_tokens else ""
        ratio += f"{seen.done.summary_tokens:,} tokens"
        took = f", {seen.done.seconds:g} s" if timed else ""
        yield f"made: {made}, {_levels(seen.done.levels)}; {ratio}{took}"
    if seen.done is not None and seen.done.model_calls:
        tokens = seen.done.model_input_tokens + seen.done.model_output_tokens
        usd = seen.done.cost_usd
        price = "price unknown" if usd is None else f"${usd:.4f}"
        yield f"models: {counted(seen.done.model_calls, 'call')}, {tokens:,} tokens, {price}"


def _made(done: Done) -> Iterator[str]:
    if done.leaves:
        yield counted(done.leaves, "leaf", "leaves")
    if done.parents:
        yield counted(done.parents, "parent")
    if done.written:
        yield counted(done.written, "running summary", "running summaries")


def _levels(levels: Iterable[int]) -> str:
    named = [str(level) for level in levels]
    return f"{'level' if len(named) == 1 else 'levels'} {', '.join(named)}"


def _print_wrapped(out: Console, text: str, style: str = "", indent: str = "") -> None:
    for line in styled((text, style)).wrap(out, out.width - len(indent)):
        line.rstrip()
        out.print(styled(indent) + line)
