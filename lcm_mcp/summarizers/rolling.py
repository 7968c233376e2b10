"""From a running summary and the rows after it to the facts of its replacement.

The rows are gleaned like a leaf's and merged with the summary as a parent merges its children, so no fact
has to fit a page before it may compete for the next. On top of that comes age, for a running summary is
folded again and again: earlier requests are told briefly, all but the first and the standing ones; what
was run, read or found long ago only fills what is left; and nothing is told twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from lcm_mcp.summarizers.calls import read_outcome
from lcm_mcp.summarizers.condensing import merged, prose
from lcm_mcp.summarizers.facts import (
    ARROW,
    CHANGED,
    COMMANDS,
    ERRORS,
    FOUND,
    LAST,
    NAMES,
    READ,
    REQUESTS,
    SAID,
    SEEN,
    Fact,
    Parsed,
    parse,
    row_of,
)
from lcm_mcp.summarizers.gleaning import Gleaned, glean_rows, words_of
from lcm_mcp.summarizers.model import Child
from lcm_mcp.summarizers.sentences import ELLIPSIS, clean, is_plan, is_prose, sentences, weigh
from lcm_mcp.tokens import utf8_length
from lcm_mcp.transcript.model import Row
from lcm_mcp.values import frozen

# What ends within this first part of the conversation gives way to all that is newer.
OLD_SHARE = 0.25
# What the oldest sentence weighs of what it would as the newest.
OLDEST_WEIGHT = 0.3
# Above any other request of the same age, below the first and the newest.
STANDING_BONUS = 0.4
STANDING_PER_ROW = 3
STANDING_CHARS = 20_000
# So much of a request is on most pages, even when it is told briefly.
HEAD_CHARS = 120
# Texts that begin alike so far are compared whole.
BEGINNING_CHARS = 24

_USER, _ASSISTANT, _PLAN = "user: ", "assistant: ", "plan: "
_OPEN_PLAN = re.compile(r"plan: .*\[")
_STANDING = re.compile(
    r"\b(?:always|never|must(?:n't)?|from now on|every time)\b|^(?:please )?(?:do not|don't)\b", re.IGNORECASE
)
_WISH = re.compile(r"\busers?\b.{0,40}\b(?:ask|want|request|requir|insist|prefer|need|said)", re.IGNORECASE)
_AGEING = (READ, COMMANDS, FOUND, ERRORS)
_REPEATABLE = (REQUESTS, SEEN, SAID, FOUND, COMMANDS, ERRORS)


@frozen
class _Course:
    """The rows that a conversation runs over, to tell how far along it a fact stands."""

    start: int
    end: int

    def place(self, fact: Fact) -> float:
        """Where a fact's last row is, from 0 at the first row to 1 at the newest."""
        return (_last_row(fact.ref) - self.start) / max(1, self.end - self.start)

    def is_old(self, fact: Fact) -> bool:
        return self.place(fact) < OLD_SHARE


def glean_fold(children: Sequence[Child], rows: Sequence[Row]) -> Gleaned:
    """The facts of summaries and of the rows after them, oldest first."""
    read = [_from_child(child) for child in children]
    if rows:
        read.append(Parsed(tuple(_from_rows(rows)), {}, turns=max(1, len(children))))
    spans = [*(child.span for child in children), *(f"e{row.seq}" for row in rows)]
    course = _Course(row_of(spans[0]), _last_row(spans[-1])) if spans else _Course(0, 0)
    both = merged([_faded(one, course) for one in _once(_closed(read))] if read else [])
    newest = rows[0].seq if rows else row_of(children[-1].span) if children else 0
    requests = [fact for fact in both.facts if fact.section == REQUESTS]
    others = [fact for fact in both.facts if fact.section not in (REQUESTS, NAMES)]
    facts = (*_requests(requests, newest, course), *_aged(_without_echo(others), course), *_names(read))
    unshown = sum(one.unshown.get(REQUESTS.title, 0) for one in read)
    return Gleaned(facts, {REQUESTS.title: unshown}, _at_least(read))


def _at_least(read: Sequence[Parsed]) -> dict[str, int]:
    """How many files and commands are known to be left out: the same ones may be so in every fold.

    Errors are not among them, since one that was left out may be mended by now.
    """
    known = [one.unshown for one in read]
    return {
        section.title: max((counts.get(section.title, 0) for counts in known), default=0)
        for section in (CHANGED, READ, COMMANDS)
    }


def _from_child(child: Child) -> Parsed:
    """A summary's facts, requests among them even where it is a talk's or a model's prose."""
    one = parse(child.text, child.span)
    if one is None:
        one = prose(child)
        wishes = [fact for fact in one.facts if _WISH.search(fact.text) or _is_standing(fact.text)]
        return _with_requests(one, wishes or one.facts[:1])
    # What was planned then is done by now, or is not.
    facts = [fact for fact in one.facts if fact.section != SAID or not is_plan(fact.text)]
    asides = [fact for fact in facts if fact.section == SAID and fact.text.startswith(_USER)]
    if not any(fact.section == REQUESTS for fact in facts):
        return _with_requests(replace(one, facts=tuple(facts)), asides)
    spare = (replace(fact, rank=1.0, spare=True) if fact in asides else fact for fact in facts)
    return replace(one, facts=tuple(spare))


def _with_requests(one: Parsed, asked: Sequence[Fact]) -> Parsed:
    requests = [replace(fact, section=REQUESTS, text=fact.text.removeprefix(_USER)) for fact in asked]
    return replace(one, facts=(*requests, *(fact for fact in one.facts if fact not in asked)))


def _from_rows(rows: Sequence[Row]) -> list[Fact]:
    """The facts of rows, a user's standing requirements among the requests."""
    facts = glean_rows(rows, working=True).facts
    standing = [fact for row in rows if row.role == "user" for fact in _standing(row)]
    told = {fact.text for fact in standing}
    requests = [*(fact for fact in facts if fact.section == REQUESTS), *standing]
    others = (f for f in facts if f.section != REQUESTS and f.text.removeprefix(_USER) not in told)
    return [*sorted(requests, key=lambda fact: row_of(fact.ref)), *others]


def _standing(row: Row) -> Iterator[Fact]:
    """The requirements of a message that its quote is too short to show."""
    text = words_of(row).text[:STANDING_CHARS]
    head = clean(text)[:HEAD_CHARS]
    found = [one for one in sentences(text) if _is_standing(one) and is_prose(one) and one not in head]
    yield from (Fact(REQUESTS, f"e{row.seq}", one) for one in found[:STANDING_PER_ROW])


def _is_standing(text: str) -> bool:
    return bool(_STANDING.search(text[:HEAD_CHARS])) and not text.endswith(("?", "？"))


def _closed(read: Sequence[Parsed]) -> list[Parsed]:
    """Let the last one end on the latest state known; what an earlier one ended on is history by now."""
    states = [[fact for fact in one.facts if fact.section == LAST] for one in read]
    latest = state = next((known for known in reversed(states) if known), states[-1])
    if not any(fact.text.startswith(_PLAN) for fact in state):
        plans = [fact for known in states for fact in known if _OPEN_PLAN.match(fact.text)]
        state = [*state, *plans[-1:]]
    closed: list[Parsed] = []
    for one, known in zip(read, states, strict=True):
        past = state if one is read[-1] else [] if known is latest else _past(one, known)
        closed.append(replace(one, facts=(*(fact for fact in one.facts if fact.section != LAST), *past)))
    return closed


def _past(one: Parsed, state: Sequence[Fact]) -> Iterator[Fact]:
    """A call is filed with the outcomes; of words only those are left that were not quoted anyway."""
    said = {fact.ref for fact in one.facts if fact.section == SAID}
    for fact in state:
        if ARROW in fact.text:
            yield replace(fact, section=COMMANDS)
        elif not fact.text.startswith((_ASSISTANT, _USER, _PLAN)):  # a model's prose
            yield replace(fact, section=SAID)
        elif fact.ref not in said:
            yield fact


def _once(read: Sequence[Parsed]) -> list[Parsed]:
    """Each thing where it was told last, but the first request where it was made."""
    first = next(iter(fact for one in read for fact in one.facts if fact.section == REQUESTS), None)
    told: dict[tuple[str, str], list[str]] = {}
    kept: list[Parsed] = []
    for one in reversed(read):
        facts = [fact for fact in reversed(one.facts) if fact is first or not _repeats(fact, told)]
        kept.append(replace(one, facts=tuple(reversed(facts))))
    return kept[::-1]


def _repeats(fact: Fact, told: dict[tuple[str, str], list[str]]) -> bool:
    """Whether it was told in the same words, as far as both were kept; what was not is noted as told."""
    if fact.section not in _REPEATABLE:
        return False
    outcome = fact.section in (COMMANDS, ERRORS)
    text = read_outcome(fact.ref, fact.text).what if outcome else fact.text
    kind = COMMANDS.title if outcome else fact.section.title
    others = told.setdefault((kind, text[:BEGINNING_CHARS]), [])
    if any(_same(text, other) for other in others):
        return True
    others.append(text)
    return False


def _same(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return one == other or (short.endswith(ELLIPSIS) and long.startswith(short.removesuffix(ELLIPSIS)))


def _faded(one: Parsed, course: _Course) -> Parsed:
    """Sentences ranked by what they tell and by how recent they are, else the first would stay for good."""
    facts = [*one.facts]
    said = [at for at, fact in enumerate(facts) if fact.section in (SAID, FOUND) and not fact.spare]
    for at, weight in zip(said, weigh([facts[at].text for at in said]), strict=True):
        freshness = OLDEST_WEIGHT + (1 - OLDEST_WEIGHT) * course.place(facts[at])
        facts[at] = replace(facts[at], rank=(facts[at].rank or weight) * freshness)
    return replace(one, facts=tuple(facts))


def _requests(facts: Sequence[Fact], newest: int, course: _Course) -> Iterator[Fact]:
    """Requests by need: the first and the newest, standing ones, long ones, later ones; old ones are spare,
    yet before all else that is."""
    for index, fact in enumerate(facts):
        standing = _is_standing(fact.text)
        substance = 1.0 + STANDING_BONUS if standing else min(utf8_length(fact.text), 120) / 120
        edge = 4.0 if index == 0 else 2.0 if fact.ref == facts[-1].ref else 0.0
        rank = substance + edge + 0.5 * index / len(facts)
        if index == 0 or standing:
            yield replace(fact, rank=rank)
        elif course.is_old(fact):
            yield replace(fact, rank=rank + 4.0, brief=True, spare=True)
        else:
            yield replace(fact, rank=rank, brief=row_of(fact.ref) < newest)


def _without_echo(facts: Sequence[Fact]) -> Iterator[Fact]:
    """Without the call that the conversation stopped at where it is told twice; an open error stays one."""
    failed = {(fact.ref, fact.text) for fact in facts if fact.section == ERRORS}
    last = {(fact.ref, fact.text) for fact in facts if fact.section == LAST} - failed
    for fact in facts:
        hidden = failed if fact.section == LAST else last if fact.section == COMMANDS else ()
        if (fact.ref, fact.text) not in hidden:
            yield fact


def _aged(facts: Iterable[Fact], course: _Course) -> Iterator[Fact]:
    for fact in facts:
        ageing = fact.section in _AGEING or (fact.section == LAST and _OPEN_PLAN.match(fact.text))
        yield replace(fact, spare=True) if ageing and course.is_old(fact) else fact


def _last_row(ref: str) -> int:
    """The number of the row an address ends with."""
    return row_of(ref.rpartition("..")[2])


def _names(read: Sequence[Parsed]) -> Iterator[Fact]:
    """Names by their places in all the lists, a newer list's before an older one's."""
    worth: dict[str, float] = {}
    for one in reversed(read):
        for place, fact in enumerate(fact for fact in one.facts if fact.section == NAMES):
            worth[fact.text] = worth.get(fact.text, 0.0) + 1 / (1 + place)
    ranked = sorted(worth, key=lambda name: -worth[name])
    yield from (Fact(NAMES, "", name, -float(place)) for place, name in enumerate(ranked))
