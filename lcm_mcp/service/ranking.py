"""lcm_grep with order relevance: from a question in plain words to the rows and summaries that answer best.

A row need not hold all of the words, nor in that form; what is said here of the order is said of no other.
Refused: telling upper from lower case, and regular expressions.
"""

from __future__ import annotations

import apsw

from lcm_mcp.errors import InvalidArgument
from lcm_mcp.search.ranked import Ranked, newest_text, question, rank
from lcm_mcp.service import cursors, searching
from lcm_mcp.service.answers import HitPage
from lcm_mcp.service.requests import GrepQuery
from lcm_mcp.service.searching import SCAN_S, Place, check_length, hits_of, place_of, same_query, wanted_by
from lcm_mcp.service.workplace import Workplace
from lcm_mcp.transcript.sealing import readable
from lcm_mcp.wording import count


def grep(db: apsw.Connection, work: Workplace, query: GrepQuery) -> HitPage:
    """One page of hits, in the order that the query asks for."""
    if not query.by_relevance:
        return searching.grep(db, work, query)
    check_length("pattern", query.pattern)
    _check(query)
    place = place_of(db, work, query)
    asked = (*same_query(query), place.name)
    seen, newest = 0, newest_text(db)
    if query.cursor is not None:
        seen, newest = (int(value) for value in cursors.read(query.cursor, asked, int, int))
    wanted = wanted_by(query)
    page = seen, seen + query.limit
    words = question(db, readable(query.pattern), work.meaning)
    ranked = rank(db, place.scope, wanted, words, page, newest, SCAN_S)
    more = ranked.count > seen + len(ranked.found)
    return HitPage(
        scope=place.words,
        hits=hits_of(db, place, ranked.found),
        near=(),
        total=ranked.count if ranked.whole else None,
        at_least=ranked.count,
        complete=more or ranked.whole,
        reason=None if more or ranked.whole else _reason(ranked),
        searched=_searched(query, place, ranked, semantic=work.meaning is not None),
        next_cursor=cursors.make(asked, (seen + len(ranked.found), ranked.newest)) if more else None,
    )


def _check(query: GrepQuery) -> None:
    if query.mode == "regex":
        raise InvalidArgument(
            "order", "an expression has no words to rank by", "Give newest or oldest, or mode words."
        )
    if query.case_sensitive:
        raise InvalidArgument(
            "order", "relevance does not tell upper from lower case", "Give newest or oldest."
        )


def _reason(ranked: Ranked) -> str:
    if not ranked.finished:
        return f"stopped after {SCAN_S:g} s; rarer words find more"
    return f"only the best {ranked.count} are ranked; rarer words, or order newest, find more"


def _searched(query: GrepQuery, place: Place, ranked: Ranked, *, semantic: bool) -> str:
    what = {"all": "rows and summaries", "rows": "rows", "summaries": "summaries"}[query.scope]
    removed = "removed rows included" if query.include_removed else "removed rows left out"
    near = " or near in meaning" if semantic else ""
    if ranked.unknown:
        near += f" ({count(ranked.unknown, 'newer row')} by their words alone, as yet)"
    return (
        f"{what} in {place.words}, any of the words in any form{near}, best first, {removed}; "
        f"{count(ranked.rows, 'row')} and {count(ranked.summaries, 'summary', 'summaries')} had to be read"
    )
