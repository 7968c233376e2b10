"""From a source to facts: rows are gleaned, summaries are merged, prose is quoted.

Rows give the user's words, what was done to which file, commands and how they ended, telling sentences
and the last state. Summaries in our own form give their facts back, and the later one wins: a file
changed outranks the same file read, a success closes an earlier failure, the last child says what was
going on. Reasoning is not quoted: it is the model's own and often signed. Nothing here counts budgets.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from lcm_mcp.summarizers.calls import (
    REFUSAL,
    Act,
    Outcome,
    need_of,
    outcome_of,
    picture,
    read_call,
    read_outcome,
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
    Parsed,
    Section,
    parse,
)
from lcm_mcp.summarizers.model import Child
from lcm_mcp.summarizers.sentences import clean, clip, is_plan, names, sentences, weigh
from lcm_mcp.tokens import utf8_length
from lcm_mcp.transcript.model import Image, Json, JsonObject, Row, Text, ToolCall, ToolResult

QUOTE_BYTES = 1600
SENTENCES_KEPT = 160
SHORT_BYTES = 200
PROSE_CHARS = 40_000

_TAG = re.compile(
    r"<(system-reminder|command-\w{1,20}|local-command-\w{1,20}|task-notification|bash-std\w{1,8})>"
)
_NOISE = re.compile(
    r"\s*(?:\[Request interrupted|Caveat: The messages below|Base directory for this skill:"
    r"|This session is being continued from a previous conversation)"
)
_TOLD = re.compile(r"the user said:\s*(.{1,2000})", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Gleaned:
    """The facts of a source; unshown counts what summaries below already had to leave out."""

    facts: tuple[Fact, ...]
    unshown: dict[str, int]


@dataclass(frozen=True, slots=True)
class Spoken:
    """What one row says in its own text parts, harness noise removed."""

    ref: str
    role: str
    text: str
    closing: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """A call with what became of it."""

    ref: str
    call: ToolCall
    act: Act
    outcome: Outcome


def glean_rows(rows: Sequence[Row]) -> Gleaned:
    """The facts of original rows, oldest first."""
    results = {part.call_id: part for row in rows for part in row.parts if isinstance(part, ToolResult)}
    done = [
        Done(
            f"e{row.seq}",
            part,
            act := read_call(part),
            outcome_of(f"e{row.seq}", act, results.get(part.call_id)),
        )
        for row in rows
        for part in row.parts
        if isinstance(part, ToolCall)
    ]
    spoken = _mark_closings([spoken for row in rows if (spoken := _spoken(row)).text])
    working = bool(done or results)
    facts = [
        *(_requests(spoken, rows) if working else ()),
        *_files(done),
        *_outcomes(step.outcome for step in done if not step.outcome.detail.startswith(REFUSAL)),
        *_said(_tellers(spoken, done, results) if working else spoken, working=working),
        *_names(spoken),
        *_last(spoken, done),
    ]
    return Gleaned(tuple(facts or _anything(rows)), {})


def _spoken(row: Row) -> Spoken:
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
    quotes.sort(key=lambda quote: _at(quote[0]))
    yield from ranked_requests([Fact(REQUESTS, ref, text) for ref, text in quotes if text])


def _quote(text: str) -> str:
    """The head of what was written, and its last question where that is further down."""
    whole = clean(text[: QUOTE_BYTES * 2])
    asked = clean(text[-400:].rstrip().rpartition("\n")[2])
    if len(text) > 600 and asked.endswith(("?", "？")) and len(asked) < 300:
        return f"{clip(whole, 240)} {asked}"
    return clip(whole, QUOTE_BYTES)


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


def _outcomes(outcomes: Iterable[Outcome]) -> Iterator[Fact]:
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


def _tellers(
    spoken: Sequence[Spoken], done: Sequence[Done], results: Mapping[str, ToolResult]
) -> list[Spoken]:
    """Who says something in a working session: the assistant, and tools that answer in prose."""
    short = (
        spoken[-1] if spoken and utf8_length(spoken[-1].text) < SHORT_BYTES else None
    )  # Last quotes it whole
    told = [words for words in spoken if words.role != "user" and words is not short]
    for step in done:
        if (
            step.outcome.status == "ok"
            and need_of(step.outcome)
            and not (step.act.is_command or step.act.paths)
        ):
            answer = "\n".join(
                part.text for part in results[step.call.call_id].content if isinstance(part, Text)
            )
            told.append(Spoken(step.ref, "tool", answer[:PROSE_CHARS]))
    return sorted(told, key=lambda words: _at(words.ref))


def _said(spoken: Sequence[Spoken], *, working: bool) -> Iterator[Fact]:
    """Sentences by weight, more at a turn's end and at a text's edges; scraps only where all are scraps.

    Where work is recorded the calls themselves tell what a plan announced, so plans are left out.
    """
    label = not working and len({words.role for words in spoken}) > 1
    facts: list[Fact] = []
    bonus: list[float] = []
    for words in spoken:
        said = [sentence for sentence in sentences(words.text) if not (working and is_plan(sentence))]
        for index, sentence in enumerate(said):
            edge = 1.3 if index in {0, len(said) - 1} else 1.0
            bonus.append((1.5 if words.closing else 0.7 if words.role == "tool" else 1.0) * edge)
            facts.append(Fact(SAID, words.ref, f"{words.role}: {sentence}" if label else sentence))
    ranks = [weight * more for weight, more in zip(weigh([fact.text for fact in facts]), bonus, strict=True)]
    floor = min(max(ranks, default=0.0), 1e-9)
    ranked = zip(facts, ranks, strict=True)
    yield from _best([replace(fact, rank=rank) for fact, rank in ranked if rank >= floor])


def _best(facts: Sequence[Fact]) -> list[Fact]:
    """The highest ranked, still in their order."""
    floor = sorted((fact.rank for fact in facts), reverse=True)[:SENTENCES_KEPT]
    return [fact for fact in facts if not floor or fact.rank >= floor[-1]]


def _names(spoken: Sequence[Spoken]) -> Iterator[Fact]:
    found = names([words.text[: 1000 if words.role == "user" else 100_000] for words in spoken])
    yield from (Fact(NAMES, "", clip(name, 160), -float(index)) for index, name in enumerate(found))


def _last(spoken: Sequence[Spoken], done: Sequence[Done]) -> Iterator[Fact]:
    """The last words, the call after them, and the plan as it stood."""
    facts: list[Fact] = []
    after = [step for step in done[-1:] if not spoken or _at(step.ref) >= _at(spoken[-1].ref)]
    for words in spoken[-1:]:
        if words.role != "user" or not (done or any(other.role != "user" for other in spoken)):
            facts.append(Fact(LAST, words.ref, f"{words.role}: {clip(clean(words.text[:QUOTE_BYTES]), 500)}"))
        elif not after:
            facts.append(Fact(LAST, words.ref, "user: not answered yet"))
    facts += [Fact(LAST, step.ref, step.outcome.text) for step in after]
    plans = ((step.ref, told) for step in reversed(done) if (told := _todo(step.call)))
    facts += [Fact(LAST, ref, told) for ref, told in islice(plans, 1)]
    yield from _in_need(facts)


def _at(ref: str) -> int:
    """The row number an address begins with."""
    return int(ref[1:].partition("..")[0])


def _in_need(facts: Iterable[Fact]) -> Iterator[Fact]:
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


def glean_nodes(children: Sequence[Child]) -> Gleaned:
    """The facts of adjacent summaries, oldest first."""
    read = [parse(child.text, child.span) or _prose(child) for child in children]
    facts = [fact for one in read for fact in one.facts]
    merged = [
        *ranked_requests(_of(facts, REQUESTS)),
        *settled_files(fact for fact in facts if fact.section in (CHANGED, READ)),
        *_merged_outcomes(facts),
        *_merged_said(read),
        *_merged_names(_of(facts, NAMES)),
        *_in_need(_of(read[-1].facts, LAST) if read else ()),
    ]
    unshown: Counter[str] = Counter()
    for one in read:
        unshown.update(one.unshown)
    return Gleaned(tuple(merged), dict(unshown))


def _of(facts: Iterable[Fact], section: Section) -> list[Fact]:
    return [fact for fact in facts if fact.section == section]


def _prose(child: Child) -> Parsed:
    """A summary in a model's own words: its sentences, under the range it covers; it ends on the last."""
    facts = [Fact(SAID, child.span, sentence) for sentence in sentences(child.text)]
    return Parsed((*facts[:-1], *(replace(fact, section=LAST) for fact in facts[-1:])), {})


def _merged_outcomes(facts: Iterable[Fact]) -> Iterator[Fact]:
    """Replay outcomes in the order of their rows; a changed file counts as a success on it."""
    told = [fact for fact in facts if fact.section in (COMMANDS, ERRORS, CHANGED)]
    told.sort(key=lambda fact: _at(fact.ref))
    yield from _outcomes(
        Outcome(fact.ref, f"Changed {fact.text}", "ok")
        if fact.section == CHANGED
        else read_outcome(fact.ref, fact.text)
        for fact in told
    )


def _merged_said(read: Sequence[Parsed]) -> Iterator[Fact]:
    """Every child's most telling sentences before any child's second best, so that none falls silent."""
    said = [(child, fact) for child, one in enumerate(read) for fact in _telling(one, child == len(read) - 1)]
    weights = weigh([fact.text for _, fact in said])
    places: Counter[int] = Counter()
    ranks = [0.0] * len(said)
    for at in sorted(range(len(said)), key=lambda at: (-weights[at], at)):
        places[said[at][0]] += 1
        ranks[at] = weights[at] / (1 + weights[at]) - places[said[at][0]]
    yield from _best([replace(fact, rank=rank) for (_, fact), rank in zip(said, ranks, strict=True)])


def _telling(one: Parsed, closing: bool) -> Iterator[Fact]:
    """What a child says; the last words of all but the closing one were conclusions too."""
    for fact in one.facts:
        if fact.section == SAID:
            yield fact
        elif fact.section == LAST and not closing:
            said = fact.text.removeprefix("assistant: ")
            if said != fact.text and not is_plan(said):
                yield replace(fact, section=SAID, text=said)


def _merged_names(facts: Sequence[Fact]) -> Iterator[Fact]:
    counted = Counter(fact.text for fact in facts)
    for index, (name, _) in enumerate(counted.most_common(60)):
        yield Fact(NAMES, "", name, -float(index))
