"""From summaries to facts: own summaries are merged, a model's prose is quoted.

Summaries in our own form give their facts back, and the later one wins: a file changed outranks the same
file read, a success closes an earlier failure, the last child says what was going on. Nothing is told
that no child told, so what a child had to leave out stays a number here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from lcm_mcp.summarizers.calls import Outcome, read_outcome
from lcm_mcp.summarizers.facts import (
    CHANGED,
    COMMANDS,
    ERRORS,
    FOUND,
    LAST,
    NAMES,
    QUOTED,
    READ,
    REQUESTS,
    SAID,
    SEEN,
    Fact,
    Parsed,
    Section,
    parse,
    row_of,
)
from lcm_mcp.summarizers.gleaning import (
    Gleaned,
    best,
    in_need,
    outcome_facts,
    ranked_requests,
    settled_files,
)
from lcm_mcp.summarizers.model import Child
from lcm_mcp.summarizers.sentences import is_plan, sentences, weigh

_ORNAMENT = re.compile(
    r"^[ \t]{0,3}(?:#{1,6}[ \t].{0,200}|\*\*[^*\n]{1,200}\*\*:?[ \t]*|\[lcm:truncated\].*)$", re.MULTILINE
)


def glean_nodes(children: Sequence[Child]) -> Gleaned:
    """The facts of adjacent summaries, oldest first."""
    return merged([parse(child.text, child.span) or prose(child) for child in children])


def merged(read: Sequence[Parsed]) -> Gleaned:
    """What summaries, oldest first, say together."""
    facts = [fact for one in read for fact in one.facts]
    told = [
        *ranked_requests(_of(facts, REQUESTS)),
        *settled_files(fact for fact in facts if fact.section in (CHANGED, READ)),
        *_merged_outcomes(facts),
        *_merged_said(read),
        *_merged_found(read),
        *_merged_seen(_of(facts, SEEN)),
        *_merged_names(_of(facts, NAMES)),
        *in_need(_of(read[-1].facts, LAST) if read else ()),
    ]
    unshown: Counter[str] = Counter()
    for one in read:
        unshown.update(one.unshown)
    return Gleaned(tuple(told), dict(unshown))


def _of(facts: Iterable[Fact], section: Section) -> list[Fact]:
    return [fact for fact in facts if fact.section == section]


def prose(child: Child) -> Parsed:
    """A summary in a model's own words: its sentences, under the range it covers; it ends on the last.

    Headings are nothing told, nor is the pointer of a text that was cut mechanically.
    """
    facts = [Fact(SAID, child.span, sentence) for sentence in sentences(_ORNAMENT.sub("", child.text))]
    return Parsed((*facts[:-1], *(replace(fact, section=LAST) for fact in facts[-1:])), {})


def _merged_outcomes(facts: Iterable[Fact]) -> Iterator[Fact]:
    """Replay outcomes in the order of their rows; a changed file counts as a success on it."""
    told = [fact for fact in facts if fact.section in (COMMANDS, ERRORS, CHANGED)]
    told.sort(key=lambda fact: row_of(fact.ref))
    yield from outcome_facts(
        Outcome(fact.ref, f"Changed {fact.text}", "ok")
        if fact.section == CHANGED
        else read_outcome(fact.ref, fact.text)
        for fact in told
    )


def _merged_said(read: Sequence[Parsed]) -> Iterator[Fact]:
    """What children say; their mere plans stay spare."""
    said = [(child, fact) for child, one in enumerate(read) for fact in _telling(one, child == len(read) - 1)]
    needed = [(child, fact) for child, fact in said if not _is_aside(fact)]
    asides = [
        fact if fact.spare else replace(fact, rank=3.0, spare=True) for _, fact in said if _is_aside(fact)
    ]
    yield from sorted([*_in_turn(needed, read), *asides], key=lambda fact: row_of(fact.ref))


def _is_aside(fact: Fact) -> bool:
    return fact.spare or is_plan(fact.text)


def _merged_found(read: Sequence[Parsed]) -> Iterator[Fact]:
    found = [(child, fact) for child, one in enumerate(read) for fact in _of(one.facts, FOUND)]
    yield from _in_turn(found, read)


def _merged_seen(facts: Sequence[Fact]) -> Iterator[Fact]:
    """Each note once, all of them spare, the latest most needed."""
    latest = {fact.text: fact for fact in facts}
    for index, fact in enumerate(latest.values()):
        bonus = 0.0 if fact.text.startswith(QUOTED) else 1.0
        yield replace(fact, rank=bonus + (index + 1) / (len(latest) + 1), spare=True)


def _in_turn(said: Sequence[tuple[int, Fact]], read: Sequence[Parsed]) -> Iterator[Fact]:
    """Every child's most telling sentences before any child's second best, so that none falls silent."""
    weighed = weigh([fact.text for _, fact in said])
    weights = [fact.rank or weight for (_, fact), weight in zip(said, weighed, strict=True)]
    places = [0.0] * len(read)
    ranks = [0.0] * len(said)
    for at in sorted(range(len(said)), key=lambda at: (-weights[at], at)):
        child = said[at][0]
        places[child] += 1 / read[child].turns
        ranks[at] = weights[at] / (1 + weights[at]) - places[child]
    yield from (replace(said[at][1], rank=ranks[at]) for at in best(ranks))


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
