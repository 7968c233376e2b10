"""A summary that an agent writes: what it is told, and what its text has to keep.

Nobody asks an agent again by themselves, as the ladder does with a model: it is told everything that is wrong
and sends another text. Refused are texts that say nothing, are too long or not smaller than their source,
excuses, and addresses that the source has not: whoever follows one finds nothing, or something else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from lcm_mcp.ids import Seq
from lcm_mcp.summarizers.ladder import SMALLER_FACTOR, Task, shown_tokens, source_text
from lcm_mcp.summarizers.prompting import RULES, WORDS_PER_TOKEN
from lcm_mcp.tokens import BYTES_PER_TOKEN, TokenCount, text_tokens

MOST_NAMED: Final = 8
_ADDRESS = re.compile(r"(?<![\w/#-])(?<!\w\.)(?:s\d{1,18}/)?(?:e\d{1,18}|#\d{1,18}|f\d{1,18})(?!\w)")
_EXCUSE = re.compile(
    r"\W*(?:(?:i['’]m|i am) (?:sorry|unable|not able)|sorry\b|i (?:can(?:not|['’]t)|won['’]t|will not)\b"
    r"|as an ai\b|unfortunately,? i\b)",
    re.IGNORECASE,
)


def addresses(text: str) -> list[str]:
    """What a text names in the form of our addresses, in order; of a range both ends."""
    return _ADDRESS.findall(text)


def limit_of(task: Task) -> TokenCount:
    """The most a text may take so that it is terse and smaller than its source as shown."""
    room = task.source_tokens - shown_tokens(task.header, "") - 1
    return TokenCount(min(SMALLER_FACTOR * task.target, room))


def instructions(task: Task) -> str:
    """What the agent is told beside the source."""
    limit = limit_of(task)
    words = max(10, int(min(task.target, limit) * WORDS_PER_TOKEN))
    return (
        f"Write a summary of the source for the memory of this session. {RULES} "
        f"Aim at {words} words; more than {limit * BYTES_PER_TOKEN} bytes are refused, and so are addresses "
        "(such as e104 or #12) that the source has not."
    )


def faults(task: Task, text: str, covers: Callable[[Seq], bool]) -> list[str]:
    """All that keeps a text from being stored, as sentences; covers says which rows it stands for."""
    if not any(map(str.isalnum, text)):
        return ["It says nothing."]
    limit, tokens = limit_of(task), text_tokens(text)
    found: list[str] = []
    if tokens > limit:
        found.append(f"It takes {tokens} tokens, and {limit} ({limit * BYTES_PER_TOKEN} bytes) is the most.")
    elif shown_tokens(task.header, text) >= task.source_tokens:
        found.append(f"As it is shown it is not smaller than its source of {task.source_tokens} tokens.")
    if _EXCUSE.match(text):
        found.append("It reads as an excuse and not as a summary.")
    invented = list(dict.fromkeys(_invented(source_text(task.source), text, covers)))
    if invented:
        named = ", ".join(invented[:MOST_NAMED])
        found.append(f"The source has no {named}: name only what it has, written as it stands there.")
    return found


def _invented(source: str, text: str, covers: Callable[[Seq], bool]) -> Iterator[str]:
    named = addresses(text)
    known = set(addresses(source)) if named else set[str]()
    for address in named:
        if address in known or (address[0] == "e" and covers(Seq(int(address[1:])))):
            continue
        yield address
