"""From rows to facts: what was asked, done, run, said, and where it stood at the end.

A session with tool calls is told by its calls, the user's words and what the assistant concluded; a
talk without them by its most telling sentences. Reasoning is not quoted: it is the model's own and often
signed. System rows are instructions, not history. Nothing here counts budgets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import islice

from lcm_mcp.summarizers.calls import (
    REFUSAL,
    Done,
    Outcome,
    need_of,
    outcome_of,
    picture,
    read_call,
    settle,
)
from lcm_mcp.summarizers.facts import (
    CHANGED,
    COMMANDS,
    ERRORS,
    LAST,
    NAMES,
    READ,
    REQUESTS,
    SAID,
    Fact,
    Section,
    row_of,
)
from lcm_mcp.summarizers.readings import PROSE_CHARS, is_data, shown, told
from lcm_mcp.summarizers.sentences import clean, clip, is_plan, is_prose, names, sentences, terms, weigh
from lcm_mcp.tokens import utf8_length
from lcm_mcp.transcript.model import File, Image, Json, JsonObject, Row, Text, ToolCall, ToolResult
from lcm_mcp.values import frozen

QUOTE_BYTES = 1600
HEAD_BYTES = 240
SENTENCES_KEPT = 160
SHORT_BYTES = 200
NAMED_CHARS = 200_000

_TAG = re.compile(
    r"<(system-reminder|command-\w{1,20}|local-command-\w{1,20}|task-notification|bash-std\w{1,8})>"
)
_NOISE = re.compile(
    r"\s*(?:\[Request interrupted|Caveat: The messages below|Base directory for this skill:"
    r"|This session is being continued from a previous conversation)"
)
_BORDER = re.compile(r"\n|[.!?] |[。！？]")
_TOLD = re.compile(r"the user said:\s*(.{1,2000})", re.DOTALL)


@frozen
class Gleaned:
    """The facts of a source; unshown counts what summaries below already had to leave out.

    at_least is for what may have been left out more than once: the count is no less, but nothing is added.
    """

    facts: tuple[Fact, ...]
    unshown: Mapping[str, int]
    at_least: Mapping[str, int] = field(default_factory=dict[str, int])


@frozen
class Spoken:
    """What one row says in its own text parts, harness noise removed."""

    ref: str
    role: str
    text: str
    closing: bool = False


def glean_rows(rows: Sequence[Row], *, working: bool = False) -> Gleaned:
    """The facts of original rows, oldest first.

    Rows without any call are a talk, where nobody's words are requests, unless working says otherwise.
    """
    done = _done(rows)
    spoken = _mark_closings([said for row in rows if row.role != "system" and (said := words_of(row)).text])
    called = bool(done) or any(isinstance(part, ToolResult) for row in rows for part in row.parts)
    working = working or called
    facts = [
        *(_requests(spoken, rows) if working else ()),
        *_files(done),
        *outcome_facts(step.outcome for step in done if not step.outcome.detail.startswith(REFUSAL)),
        *_said(_tellers(spoken) if working else spoken, working=working),
        *told((words.ref, words.text[:PROSE_CHARS]) for words in spoken if words.role == "tool"),
        *shown(done),
        *_names(spoken),
        *_last(spoken, done),
    ]
    return Gleaned(tuple(facts or _anything(rows)), {})


def _done(rows: Sequence[Row]) -> list[Done]:
    """The calls in order. Ids may be used again: a result answers the nearest call before it that waits."""
    calls: list[tuple[str, ToolCall]] = []
    waiting: dict[str, list[int]] = {}
    results: dict[int, tuple[ToolResult, str, File | None]] = {}
    for row in rows:
        files = {file.part: file for file in row.files}
        for place, part in enumerate(row.parts):
            if isinstance(part, ToolCall):
                waiting.setdefault(part.call_id, []).append(len(calls))
                calls.append((f"e{row.seq}", part))
            elif isinstance(part, ToolResult) and waiting.get(part.call_id):
                results[waiting[part.call_id].pop()] = (part, f"e{row.seq}", files.get(place))
    done: list[Done] = []
    for at, (ref, call) in enumerate(calls):
        result, answered, file = results.get(at, (None, ref, None))
        act = read_call(call)
        done.append(Done(ref, call, result, act, outcome_of(ref, act, result), answered, file))
    return done


def words_of(row: Row) -> Spoken:
    """What a row says, its text empty where it says nothing."""
    text = "\n".join(part.text for part in row.parts if isinstance(part, Text)).strip()
    text = _without_harness(text).strip() if row.role == "user" else text
    return Spoken(f"e{row.seq}", row.role, text if clean(text[:QUOTE_BYTES]) else "")


def _without_harness(text: str) -> str:
    """What the person wrote, without what the client put around it."""
    kept: list[str] = []
    at = 0
    for opening in _TAG.finditer(text):
        if opening.start() < at:
            continue
        closing = text.find(f"</{opening[1]}>", opening.end())
        if closing < 0:  # and so no later one of this kind: looking on would be quadratic
            break
        kept.append(text[at : opening.start()])
        at = closing + len(opening[1]) + 3
    kept.append(text[at:])
    written = "".join(kept)
    return "" if _NOISE.match(written) else written


def _mark_closings(spoken: Sequence[Spoken]) -> list[Spoken]:
    """Mark the last words before the other side speaks again: there a turn's conclusion stands."""
    follow = [*(words.role for words in spoken), "user"][1:]
    return [
        replace(words, closing=words.role == "assistant" and after == "user")
        for words, after in zip(spoken, follow, strict=True)
    ]


def _requests(spoken: Sequence[Spoken], rows: Sequence[Row]) -> Iterator[Fact]:
    quotes = [(words.ref, _quote(words.text)) for words in spoken if words.role == "user"]
    quotes += [(f"e{row.seq}", told) for row in rows for told in _refusals(row)]
    quotes += [
        (f"e{row.seq}", picture(part)) for row in rows for part in row.parts if isinstance(part, Image)
    ]
    quotes.sort(key=lambda quote: row_of(quote[0]))
    yield from ranked_requests([Fact(REQUESTS, ref, text) for ref, text in quotes if text])


def _quote(text: str) -> str:
    """The head of what was written, and its last question where that is further down."""
    whole = clean(text[: QUOTE_BYTES * 2])
    asked = _last_question(text)
    return f"{clip(whole, HEAD_BYTES)} {asked}" if asked else clip(whole, QUOTE_BYTES)


def _last_question(text: str) -> str:
    """The question a long message ends with, "" where it has none."""
    asked = clean(text[-400:].rstrip().rpartition("\n")[2])
    return asked if len(text) > 600 and asked.endswith(("?", "？")) and len(asked) < 300 else ""


def _further(words: Spoken) -> Spoken:
    """What a user wrote beyond the quote of it; others' words whole."""
    if words.role != "user":
        return words
    rest = words.text[HEAD_BYTES if _last_question(words.text) else QUOTE_BYTES :][:PROSE_CHARS]
    border = _BORDER.search(rest)
    return replace(words, text=rest[border.end() :] if border else "")


def _refusals(row: Row) -> Iterator[str]:
    for part in row.parts:
        if isinstance(part, ToolResult) and (told := _TOLD.search(_refusal(part))):
            yield f"(refusing a call) {clean(told[1])}"


def _refusal(result: ToolResult) -> str:
    first = next((part.text for part in result.content if isinstance(part, Text)), "")
    return first[:4000] if first.startswith(REFUSAL) else ""


def ranked_requests(facts: Sequence[Fact]) -> Iterator[Fact]:
    """Requests by need: the newest and the first, then those that say something, newer ones before."""
    last = len(facts) - 1
    for index, fact in enumerate(facts):
        substance = min(utf8_length(fact.text), 120) / 120
        edge = 2.0 if index == last else 1.5 if index == 0 else 0.0
        yield replace(fact, rank=substance + edge + 0.5 * index / (last + 1))


def _files(done: Iterable[Done]) -> Iterator[Fact]:
    yield from settled_files(
        Fact(CHANGED if step.act.changes else READ, step.ref, path)
        for step in done
        if step.outcome.status != "failed"
        for path in step.act.paths
    )


def settled_files(facts: Iterable[Fact]) -> Iterator[Fact]:
    """Each path once, with its last address; one that was ever changed is not listed as read."""
    latest: dict[tuple[Section, str], Fact] = {}
    for fact in facts:
        latest.pop((fact.section, fact.text), None)
        latest[fact.section, fact.text] = fact
    kept = [fact for fact in latest.values() if fact.section == CHANGED or (CHANGED, fact.text) not in latest]
    yield from (replace(fact, rank=float(index)) for index, fact in enumerate(kept))


def outcome_facts(outcomes: Iterable[Outcome]) -> Iterator[Fact]:
    """Commands that went well and failures still open; a refused call was not made, so it is neither."""
    latest, failing = settle(outcomes)
    still = {outcome.what for outcome in failing}
    for index, outcome in enumerate(latest):
        need = need_of(outcome) + index / (len(latest) + 1)
        if outcome.what in still:
            yield Fact(ERRORS, outcome.ref, outcome.text, need)
        elif need >= 1 and outcome.status != "failed" and not _is_file_step(outcome):
            yield Fact(COMMANDS, outcome.ref, outcome.text, need)


def _is_file_step(outcome: Outcome) -> bool:
    """Whether Changed and Read already tell it: a tool whose subject is a path."""
    return not outcome.what.startswith("$ ") and "/" in outcome.what and "://" not in outcome.what


def _tellers(spoken: Sequence[Spoken]) -> list[Spoken]:
    """Who says something in a working session: the assistant, and of a long message the user too."""
    tellers = [*spoken]
    if tellers and tellers[-1].role != "user" and utf8_length(tellers[-1].text) < SHORT_BYTES:
        tellers.pop()  # Last quotes it whole
    return [further for words in tellers if (further := _further(words)).text]


def _said(spoken: Sequence[Spoken], *, working: bool) -> Iterator[Fact]:
    """Sentences by weight, more at a turn's end and at a text's edges; scraps only where all are scraps.

    Where work is recorded the calls themselves tell what a plan announced, so plans are spare there, and
    so is what a request quotes in part.
    """
    label = not working and len({words.role for words in spoken}) > 1
    said: list[tuple[Spoken, float, str]] = []
    aside: list[tuple[Spoken, str]] = []
    for words in spoken:
        texts = [text for text in sentences(words.text) if not is_data(text)] if words.role != "tool" else []
        mine = [text for text in texts if not (working and _is_aside(words, text))]
        aside += [(words, text) for text in texts if working and _is_aside(words, text)]
        bonus = 1.5 if words.closing else 1.0
        edges = {0, len(mine) - 1}
        said += [(words, bonus * (1.3 if at in edges else 1.0), text) for at, text in enumerate(mine)]
    weights = weigh([text for _, _, text in said])
    ranks = [weight * bonus for weight, (_, bonus, _) in zip(weights, said, strict=True)]
    floor = min(max(ranks, default=0.0), 1e-9)
    facts = [
        Fact(SAID, said[at][0].ref, f"{said[at][0].role}: {said[at][2]}" if label else said[at][2], ranks[at])
        for at in best(ranks)
        if ranks[at] >= floor
    ]
    yield from sorted([*facts, *_asides(aside)], key=lambda fact: row_of(fact.ref))


def _is_aside(words: Spoken, text: str) -> bool:
    return words.role == "user" or is_plan(text)


def _asides(said: Sequence[tuple[Spoken, str]]) -> Iterator[Fact]:
    """Spare sentences: an assistant's plans above, a user's further words below what was looked at.

    Most of a long message is a pasted log or code, so of a user's only what reads like prose.
    """
    for words, text in {text: (words, text) for words, text in said}.values():
        if words.role != "user" and len(terms(text)) > 1:
            yield Fact(SAID, words.ref, text, 3.0, spare=True)
        elif words.role == "user" and is_prose(text):
            yield Fact(SAID, words.ref, f"user: {text}", 1.0, spare=True)


def best(ranks: Sequence[float]) -> list[int]:
    """Where the SENTENCES_KEPT highest ranks are, in their order."""
    return sorted(sorted(range(len(ranks)), key=lambda at: (-ranks[at], at))[:SENTENCES_KEPT])


def _names(spoken: Sequence[Spoken]) -> Iterator[Fact]:
    """Names, read from the newest words backwards as far as NAMED_CHARS reach."""
    texts: list[str] = []
    left = NAMED_CHARS
    for words in reversed(spoken):
        if left > 0:
            # Of a user's row only the head: what follows there is mostly a pasted log.
            texts.append(words.text[: 1000 if words.role == "user" else left])
            left -= len(texts[-1])
    yield from (Fact(NAMES, "", clip(name, 160), -float(at)) for at, name in enumerate(names(texts[::-1])))


def _last(spoken: Sequence[Spoken], done: Sequence[Done]) -> Iterator[Fact]:
    """The last words, the call after them, and the plan as it stood."""
    facts: list[Fact] = []
    after = [step for step in done[-1:] if not spoken or row_of(step.ref) >= row_of(spoken[-1].ref)]
    for words in spoken[-1:]:
        if words.role != "user" or not (done or any(other.role != "user" for other in spoken)):
            facts.append(Fact(LAST, words.ref, f"{words.role}: {clip(clean(words.text[:QUOTE_BYTES]), 500)}"))
        elif not after:
            facts.append(Fact(LAST, words.ref, "user: not answered yet"))
    facts += [Fact(LAST, step.ref, step.outcome.text) for step in after if not _todo(step.call)]
    plans = ((step.ref, told) for step in reversed(done) if (told := _todo(step.call)))
    facts += [Fact(LAST, ref, told) for ref, told in islice(plans, 1)]
    yield from in_need(facts)


def in_need(facts: Iterable[Fact]) -> Iterator[Fact]:
    """Rank facts that come in the order of need."""
    yield from (replace(fact, rank=-float(index)) for index, fact in enumerate(facts))


def _todo(call: ToolCall) -> str:
    """A plan's open steps, of the tools that keep one (a list of steps with a status)."""
    given: JsonObject = call.arguments if isinstance(call.arguments, dict) else {}
    lists = [value for key in ("todos", "plan", "steps") if isinstance(value := given.get(key), list)]
    told = [step for step in map(_step, lists[0][:100] if lists else ()) if step[1]]
    waiting = [f"[{status}] {text}" for status, text in told if not status.startswith(("completed", "done"))]
    return f"plan: {len(told) - len(waiting)} of {len(told)} done; {'; '.join(waiting)}"[:600] if told else ""


def _step(step: Json) -> tuple[str, str]:
    if not isinstance(step, dict):
        return "", ""
    status, text = step.get("status"), step.get("content") or step.get("step") or step.get("title")
    return (
        (clean(status), clean(text[:200])) if isinstance(status, str) and isinstance(text, str) else ("", "")
    )


def _anything(rows: Sequence[Row]) -> Iterator[Fact]:
    """The last resort of a source without words or calls: what its rows were stored as."""
    for row in rows:
        text = clean(row.text[:QUOTE_BYTES])
        if text:
            yield Fact(LAST, f"e{row.seq}", f"{row.role}: {text}", float(row.seq))
