"""Words as data: cleaning, cutting, splitting and weighing sentences of any language.

Scoring counts terms, no more: no dictionary, no model, no stop words. A term that is frequent but not
everywhere weighs most, so fillers of any language sink by themselves; scripts without spaces are read
in pairs of characters. Every pattern here is linear in its input, and nothing here knows of rows.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from lcm_mcp.tokens import utf8_length

ELLIPSIS = "…"
# One sentence is never looked at beyond this many characters: a minified file is one "sentence" too.
LONGEST_SENTENCE_CHARS = 1200
TERMS_PER_SENTENCE = 120
FEWEST_TERMS = 4

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[@-~]?|\x9b[0-?]*[ -/]*[@-~]"
)
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
_BORDER = re.compile(r"(?<=[^\d.][.!?])[ \t]+|(?<=[。！？])|[\r\n\x0b\x0c\u2028\u2029]+")
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)", re.MULTILINE)
_MARKUP = re.compile(r"^(?:[\s>#*+•|-]|\d{1,3}[.)] )+|\*\*|\b__|__\b| ?\|$")
# Scripts written without spaces: Thai, Lao, Burmese, Chinese, Japanese, and Korean for its endings.
_WIDE = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u2e80-\u9fff\uac00-\ud7af]")
_TERM = re.compile(rf"[^\W_]{{3,60}}|{_WIDE.pattern}+")
_PLAN = re.compile(
    r"(?:(?:ok|okay|now|good|great|perfect|next|first|also|then)[,.!:]? )?"
    r"(?:let me|let's|let us|i'll|i will|i need to|i should|now i|now let|i'm going to"
    r"|now (?:update|add|fix|run))\b",
    re.IGNORECASE,
)
_CONCLUSION = re.compile(
    r"\b(?:because|root cause|the (?:issue|problem|bug|reason|fix)|turns? out|instead of|decided|decision"
    r"|agreed?|must|should(?:n't)?|never|fixed|confirmed|in short|therefore|conclusion|trade-?off|breaks?"
    r"|fails?|pass(?:es|ed)?|wants?|prefer|need to)\b",
    re.IGNORECASE,
)
_NAME = re.compile(
    r"(?P<link>https?://[^\s<>\"'`)\]}|]{4,160})"
    r"|`(?P<code>[^`\s]{3,60})`"
    r"|(?P<issue>(?<![\w#&/])#\d{1,6}\b|\b[A-Z][A-Z0-9]{1,9}-\d{1,6}\b)"
    r"|(?P<word>\b(?:[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)+|[a-z][a-z0-9]*(?:[A-Z][a-z0-9]*)+"
    r"|(?:[A-Z][a-z0-9]+){2,})\b(?!/)|\b(?=[a-f]{0,40}\d)[0-9a-f]{7,40}\b)",
    re.ASCII,
)


def clean(text: str) -> str:
    """The text on one line: escapes and control characters gone, blanks collapsed, surrogates replaced."""
    if "\x1b" in text or "\x9b" in text:
        text = _ESCAPES.sub("", text)
    if not text.isprintable():
        text = _UNPRINTABLE.sub(_replacement, text)
    return " ".join(text.split())


def _replacement(found: re.Match[str]) -> str:
    return "\ufffd" if "\ud800" <= found[0] <= "\udfff" else " "


def clip(text: str, limit_bytes: int) -> str:
    """Cut to at most `limit_bytes` of UTF-8 (at least 4), after a whole word where one ends nearby."""
    if utf8_length(text) <= limit_bytes:
        return text
    room = max(1, limit_bytes - len(ELLIPSIS.encode()))
    head = text.encode("utf-8", "replace")[:room].decode("utf-8", "ignore")
    blank = head.rfind(" ", len(head) * 3 // 4)
    # What was cut before may end in an ellipsis of its own just here.
    head = (head if blank < 0 else head[:blank]).rstrip(f" ,;:([{{{ELLIPSIS}")
    return (head.rstrip(".") if head.endswith("..") else head) + ELLIPSIS


def sentences(text: str) -> Iterator[str]:
    """The cleaned sentences of a text in order, without code blocks, table rules and list marks."""
    for prose in _FENCE.split(text)[::2]:
        for piece in _BORDER.split(prose):
            sentence = clean(_bare(piece[:LONGEST_SENTENCE_CHARS]))
            if sentence and any(map(str.isalnum, sentence)):
                yield sentence


def _bare(piece: str) -> str:
    """Without list marks, emphasis and table rules; most sentences have none, and asking is cheaper."""
    plain = piece[:1].isalpha() and "*" not in piece and "_" not in piece and "|" not in piece
    return piece if plain else _MARKUP.sub("", piece)


def terms(sentence: str) -> list[str]:
    """The distinct terms of a sentence in order of appearance, lower-cased."""
    found: dict[str, None] = {}
    for word in _TERM.findall(sentence.lower())[:TERMS_PER_SENTENCE]:
        if word.isascii() or not _WIDE.search(word):
            found[word] = None
        else:
            found.update((word[at : at + 2], None) for at in range(max(1, len(word) - 1)))
    return list(found)


def weigh(texts: Sequence[str]) -> list[float]:
    """How telling each of the sentences is among the others: higher says more, repetition says less.

    0 for scraps of fewer than FEWEST_TERMS terms.
    """
    spoken = [terms(text) for text in texts]
    spread = Counter(term for words in spoken for term in words)
    worth = {term: math.log1p(count) * math.log(1 + len(texts) / count) for term, count in spread.items()}
    weights = [_density(words, worth) * _tone(text) for text, words in zip(texts, spoken, strict=True)]
    told: set[str] = set()
    for index in sorted(range(len(texts)), key=lambda at: (-weights[at], at)):
        words = spoken[index]
        if sum(word in told for word in words) * 10 > len(words) * 7:
            weights[index] *= 0.4
        told.update(words)
    return weights


def _density(words: Sequence[str], worth: Mapping[str, float]) -> float:
    if len(words) < FEWEST_TERMS:
        return 0.0
    return sum(worth[word] for word in words[:40]) / math.sqrt(len(words) + 6) * min(1.0, len(words) / 8)


def _tone(sentence: str) -> float:
    factor = 0.35 if is_plan(sentence) else 1.35 if _CONCLUSION.search(sentence) else 1.0
    return factor * (1.1 if "`" in sentence else 1.0)


def is_plan(sentence: str) -> bool:
    """Whether it only announces what comes next ("Now let me …", or a lead-in that ends in a colon)."""
    return bool(_PLAN.match(sentence)) or sentence.endswith((":", "："))


def is_prose(sentence: str) -> bool:
    """Whether it reads like words rather than code, a table or a log line."""
    worded = sum(sign.isalpha() or sign == " " for sign in sentence)
    return worded * 20 >= len(sentence) * 17 and len(terms(sentence)) >= FEWEST_TERMS


def names(texts: Sequence[str]) -> list[str]:
    """Identifiers, most frequent first: links and issue numbers at once, others that recur."""
    seen: Counter[str] = Counter()
    for text in texts:
        for match in _NAME.finditer(text):
            name = clean(match[match.lastgroup or 0]).rstrip(".,:;")
            seen[name] += 2 if match.lastgroup in {"link", "issue"} else 1
    return [name for name, count in seen.most_common(60) if count > 1 and ", " not in name]
