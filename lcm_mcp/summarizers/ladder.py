"""The ladder: from a source to a summary that is certainly smaller.

Level 1 asks for the details, level 2 for bullets, level 3 cuts mechanically and so always ends. An answer
counts only if it says something, keeps its limit and is strictly smaller than its source, by our own
estimate of both as they are shown. Bad answers climb; a summarizer that cannot be called hands over to the
next one, and with none left the summary failed and nothing is stored. No connection is held meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, assert_never

from lcm_mcp.dag.model import Summary, Tier
from lcm_mcp.errors import SummarizerFailed
from lcm_mcp.projection.labels import escape_history
from lcm_mcp.summarizers.model import (
    Answer,
    FoldSource,
    NodesSource,
    Request,
    RowsSource,
    Source,
    Summarizer,
)
from lcm_mcp.tokens import BYTES_PER_TOKEN, TokenCount, text_tokens
from lcm_mcp.transcript.sealing import readable
from lcm_mcp.values import frozen

LIMIT_FACTOR: Final = 4
"""The output budget is this many targets: a reasoning model needs room, a summary needs an end."""
SMALLER_FACTOR: Final = 2
"""Beyond this many targets an accepted answer is asked for once more, smaller."""
TRUNCATED_TOKENS: Final = 512
HEAD_SHARE, END_SHARE = 0.7, 0.2
TRUNCATED: Final = "[lcm:truncated]"


@frozen
class Task:
    """One summary that is wanted: source_tokens as the source is shown, span such as e104..e238.

    limit is the output budget, in tokens of the bare text, where it is not LIMIT_FACTOR targets. It is a
    hard one, so every level keeps it and a text within it is not asked for again, smaller.
    """

    source: Source
    source_tokens: TokenCount
    target: TokenCount
    header: str
    span: str
    limit: TokenCount | None = None


def shown_block(header: str, text: str) -> str:
    """A summary as a request shows it: under its header, escaped."""
    return f"{header}\n{escape_history(text)}"


def shown_tokens(header: str, text: str) -> TokenCount:
    """What shown_block takes, with the empty line that parts it from the next."""
    return text_tokens(shown_block(header, text) + "\n\n")


async def climb(chain: Sequence[Summarizer], task: Task) -> Summary | None:
    """Summarize a source; None where not even a pointer is smaller than it and within its limit.

    Raises SummarizerFailed where no summarizer of the chain can be called.
    """
    limit = TokenCount(LIMIT_FACTOR * task.target) if task.limit is None else task.limit
    target = TokenCount(min(task.target, limit))
    first = await _ask(chain, Request(task.source, 1, target, limit))
    if _accepted(task, first, limit):
        return await _maybe_smaller(chain, task, first)
    smaller_limit = limit
    if shown_tokens(task.header, first.text) >= task.source_tokens:
        smaller_limit = TokenCount(min(limit, task.source_tokens // 2))
    again = Request(task.source, 2, TokenCount(min(target, smaller_limit)), smaller_limit)
    second = await _ask(chain, again)
    cost = first.cost + second.cost
    if _accepted(task, second, smaller_limit):
        return Summary(replace(_tier(task, second, 2), cost=cost))
    cut = truncate(task)
    return None if cut is None else Summary(replace(cut.primary, cost=cost))


def truncate(task: Task) -> Summary | None:
    """Level 3: the source's beginning and end with a pointer between, or the pointer alone.

    None where not even that is smaller than the source and within the task's limit.
    """
    pointer = f"{TRUNCATED} lcm_expand {task.span} gives these rows word for word."
    limit = task.source_tokens if task.limit is None else task.limit
    most = min(TRUNCATED_TOKENS, task.source_tokens // 2, limit)
    room = most - shown_tokens(task.header, f"\n{pointer}\n")
    texts = [pointer]
    if room > 0:
        source = source_text(task.source)
        head = _start(source, int(room * HEAD_SHARE) * BYTES_PER_TOKEN)
        end = _end(source, int(room * END_SHARE) * BYTES_PER_TOKEN)
        texts.insert(0, f"{head}\n{pointer}\n{end}")
    for text in texts:
        if shown_tokens(task.header, text) < task.source_tokens and text_tokens(text) <= limit:
            return Summary(_tier(task, Answer(text, "truncation"), 3))
    return None


def source_text(source: Source) -> str:
    """A source as plain text, each row or summary under its address."""
    match source:
        case RowsSource(rows):
            return "\n\n".join(f"e{row.seq} {row.role}: {row.text}" for row in rows)
        case NodesSource(children):
            return "\n\n".join(f"{child.span}: {child.text}" for child in children)
        case FoldSource(children, rows):
            parts = (NodesSource(children), RowsSource(rows))
            return "\n\n".join(text for text in map(source_text, parts) if text)
        case _:
            assert_never(source)


async def _ask(chain: Sequence[Summarizer], request: Request) -> Answer:
    fault: SummarizerFailed | None = None
    for summarizer in chain:
        try:
            answer = await summarizer.summarize(request)
        except SummarizerFailed as failed:
            fault = failed
            continue
        return replace(answer, text=readable(answer.text).strip())
    raise fault or SummarizerFailed("chain", "no summarizer is configured")


def _accepted(task: Task, answer: Answer, limit: TokenCount) -> bool:
    return (
        bool(answer.text)
        and text_tokens(answer.text) <= limit
        and shown_tokens(task.header, answer.text) < task.source_tokens
    )


async def _maybe_smaller(chain: Sequence[Summarizer], task: Task, first: Answer) -> Summary:
    """One pass to make a long answer terse; the thorough text is kept beside the terse one."""
    thorough = _tier(task, first, 1)
    goal = TokenCount(SMALLER_FACTOR * task.target)
    if task.limit is not None or text_tokens(first.text) <= goal:
        return Summary(thorough)
    try:
        second = await _ask(chain, Request(task.source, 2, task.target, goal, first.text))
    except SummarizerFailed:
        return Summary(thorough)  # what was accepted is not lost for a nicety
    if not _accepted(task, second, goal):
        return Summary(replace(thorough, cost=first.cost + second.cost))
    return Summary(_tier(task, second, 2), replace(thorough, kind="rich"))


def _tier(task: Task, answer: Answer, level: int) -> Tier:
    tokens = shown_tokens(task.header, answer.text)
    return Tier("primary", answer.text, tokens, level, answer.model, answer.cost)


def _start(text: str, count: int) -> str:
    """The first `count` bytes of a text, whole characters only."""
    return text[:count].encode()[:count].decode(errors="ignore")


def _end(text: str, count: int) -> str:
    return text[-count:].encode()[-count:].decode(errors="ignore") if count else ""
