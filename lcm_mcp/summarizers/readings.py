"""What tools showed: the answers of pages and subagents in sentences, files and searches in one note each.

An answer in prose is Found. What was merely looked at (a file, a search, a listing) is Seen: told by
rule, by declarations, headings, keys or counts, and only where a page has room left. Every fact cites
the row its result stands in. Nothing here parses a language: line patterns find the names, no more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import orjson

from lcm_mcp.summarizers.calls import Done, need_of
from lcm_mcp.summarizers.facts import ARROW, FOUND, QUOTED, SEEN, Fact, row_of, split_path
from lcm_mcp.summarizers.sentences import FEWEST_TERMS, clean, clip, is_plan, sentences, terms, weigh
from lcm_mcp.transcript.model import Json, Text

PROSE_CHARS = 40_000
# Of one file or listing no more is read, of all files of a source only so much is told in sentences.
READ_CHARS = 60_000
SENTENCES_CHARS = 16_000
LINE_CHARS = 240
NAMES_NOTED = 60
PATHS_NOTED = 12
HITS_NOTED = 4
NOTE_BYTES = 1200
SENTENCES_KEPT = 160
SHORTEST_QUOTE = 40

_NUMBERED = re.compile(r"[ \t]{0,8}\d{1,7}(?:→|\t|: | \| ?)")
_SEARCH = re.compile(r"grep|glob|search|find|^ls$|list_", re.IGNORECASE)
_PLANS = re.compile(r"todo|plan|think|thought", re.IGNORECASE)
_WEB = re.compile(r"web|fetch|browse|http", re.IGNORECASE)
_SEARCHING = re.compile(r"\$ (?:e?grep|rg|find|fd|ls|tree|git grep|git ls-files)\b")
_SHOWING = re.compile(r"\$ (?:cat|head|tail|sed|nl|bat)\b[^|;&]{0,300}?(\S+\.\w{1,8})$")
_COUNTED = re.compile(r"Found (\d{1,7}) ")
_NOTHING = re.compile(r"No (?:files|matches)", re.IGNORECASE)
# A line that matched, as "path:12:text", "12:text" or "path:text", and one beside it, as "path-12-text".
_HIT = re.compile(r"(?:([^\s:]{1,250}):)?\d{1,7}:(.*)|([^\s:]{1,200}\.\w{1,8}):(.*)")
_BESIDE = re.compile(r"(?:[^\s:]{1,250}?[:-])?\d{1,7}[:-]")
_PREVIEW = re.compile(r"<persisted-output>.{0,400}?Preview \([^)\n]{1,40}\):", re.DOTALL)
# Lines that a client adds to an answer; they are nobody's words.
_CLIENT = re.compile(
    r"Launching skill|agentId\b|</?usage>|total_tokens|tool_uses|duration_ms|REMINDER:|Links: *\["
    r"|Async agent launched|output_file:|Web search results for",
    re.IGNORECASE,
)
_JSON = re.compile(r"\s*(?:\{\s*[\"}]|\[\s*[\[{\"\]])")
_DATA = re.compile(rf"{_JSON.pattern}|.{{0,400}}\"\s*:\s*[\"\[{{\d]")

_MODIFIER = (
    r"(?:(?:export|default|declare|pub(?:\([^)]{1,20}\))?|public|private|protected|internal|static|final"
    r"|abstract|async|unsafe|override|open|data|sealed|inline)\s+)*"
)
_DECLARED = re.compile(
    rf"{_MODIFIER}(def|class|func|fn|function\*?|type|struct|interface|enum|trait|mod|module|namespace"
    r"|object|record|protocol|macro_rules!)\s+(?:\([^)]{0,80}\)\s*)?([A-Za-z_$][\w$]*)"
)
_VALUE = re.compile(rf"({_MODIFIER})(const|let|var)\s+(?:fn\s+)?([A-Za-z_$][\w$]*)")
_OTHER = re.compile(
    r"(?i:create (table|index|view|trigger)) (?:(?i:if not exists) )?([\w.\"]{1,60})"
    r"|(?:[A-Za-z_][\w:<>*&]*[ *&]+){1,4}(\w{2,60})\([^;]{0,120}[{,]?$|([\w-]{2,40})\(\) *\{"
)
_HEADING = re.compile(r"#{1,4} +(.{1,120})")
_KEY = re.compile(r"[\"']?([\w.$@/-]{1,60})[\"']?\s*(?::|=(?!=))|\[{1,2}([\w.\"-]{1,60})\]{1,2}$")
_COMMENT = re.compile(r"(?:///?!?|#+|/\*+!?|\*+/?|--|;+|<!--)(?=\s|$)|\"{3}|'{3}")
_BREAK = re.compile(r"[^a-z(`]")
# What files open with that says nothing of them.
_FORMAL = (
    "copyright", "license", "licence", "spdx", "eslint", "noqa", "coding:", "#!/", "@ts-", "use strict",
    "go:build", "prettier",
)  # fmt: skip
_TEXT_KEYS = ("content", "file_text", "new_string", "new_str", "new_source", "insert_text")
# What such a pattern finds away from the margin is mostly a call or a local value.
_MARGINAL = frozenset(("const", "let", "var", "type", "function"))
_TEXTUAL = frozenset(("md", "mdx", "markdown", "rst", "txt", "adoc"))
_KEYED = frozenset(("json", "jsonc", "yaml", "yml", "toml", "ini", "cfg", "env"))


def shown(done: Iterable[Done]) -> Iterator[Fact]:
    """Found and Seen of the calls that went well, and what stood in files they wrote."""
    done = list(done)
    steps = [(step, text) for step in done if step.outcome.status == "ok" and (text := _text(step))]
    yield from told(((step.answered, text[:PROSE_CHARS]) for step, text in steps if answers(step, text)))
    notes = [(step.answered, _note(step, text)) for step, text in steps if not answers(step, text)]
    notes += [(step.ref, _written(step)) for step in done if step.act.changes and step.outcome.status == "ok"]
    notes.sort(key=lambda note: row_of(note[0]))
    for note, ref in {note: ref for ref, note in notes if note}.items():
        yield Fact(SEEN, ref, clip(note.replace(ARROW, " => "), NOTE_BYTES), 2.0, spare=True)
    yield from _read_sentences(steps)


def _written(step: Done) -> str:
    """A note on the text that a call put into a file."""
    given = step.call.arguments
    if step.act.is_command or not step.act.paths or not isinstance(given, dict):
        return ""
    text = next((value for key in _TEXT_KEYS if isinstance(value := given.get(key), str)), "")
    return _file_note(step.act.paths[0], text[:READ_CHARS], "written: ") if text.strip() else ""


def _text(step: Done) -> str:
    """What a call answered, without what the client appends for the model alone; of a file how it begins."""
    if step.file is not None:
        return step.file.head
    parts = step.result.content if step.result else ()
    text = "\n".join(part.text for part in parts if isinstance(part, Text))
    text = text[:READ_CHARS].partition("<system-reminder>")[0].strip("\r\n")
    return _PREVIEW.sub("", text, count=1) if text.startswith("<persisted-output>") else text


def answers(step: Done, text: str) -> bool:
    """Whether a call answered in prose: a subagent or a fetched page, no command, no file, no data."""
    if step.file is not None or step.act.is_command or step.act.paths or _JSON.match(text):
        return False
    return bool(_WEB.search(step.call.name) or need_of(step.outcome))


def told(texts: Iterable[tuple[str, str]]) -> Iterator[Fact]:
    """The most telling sentences of tools' answers, given with the addresses where they stand."""
    said: list[tuple[str, str, float]] = []
    for ref, text in texts:
        telling = [one for one in sentences(text) if not (is_data(one) or is_plan(one))]
        edges = {0, len(telling) - 1}
        said += [(ref, one, 1.3 if at in edges else 1.0) for at, one in enumerate(telling)]
    weights = weigh([sentence for _, sentence, _ in said])
    ranks = [weight * bonus for weight, (_, _, bonus) in zip(weights, said, strict=True)]
    heaviest = sorted(range(len(said)), key=lambda at: (-ranks[at], at))[:SENTENCES_KEPT]
    floor = min(max(ranks, default=0.0), 1e-9)
    for at in sorted(heaviest):
        if ranks[at] >= floor:
            yield Fact(FOUND, said[at][0], said[at][1], ranks[at])


def is_data(sentence: str) -> bool:
    """Whether a line is a client's mark or raw data rather than something told."""
    return bool(_CLIENT.match(sentence) or _DATA.match(sentence[:500]))


def _read_sentences(steps: Sequence[tuple[Done, str]]) -> Iterator[Fact]:
    """What documents that were read say, after all the notes."""
    said: list[tuple[str, str]] = []
    left = SENTENCES_CHARS
    for step, text in steps:
        kind = _path_of(step).rpartition(".")[2].lower()
        searched = _is_search(step)
        if left > 0 and kind not in _KEYED and (kind or searched):
            lines = (
                [_BESIDE.sub("", line, count=1) for line in text.split("\n")] if searched else _lines(text)
            )
            prose = "\n".join(lines if kind in _TEXTUAL else _comments(lines))[:left]
            left -= len(prose)
            said += [(step.answered, one) for one in sentences(prose) if _quotable(one)]
    weights = weigh([sentence for _, sentence in said])
    quotes = {sentence: (weight, ref) for weight, (ref, sentence) in zip(weights, said, strict=True)}
    for sentence, (weight, ref) in quotes.items():
        if weight > 0:
            quoted = f"{QUOTED}{sentence.replace(ARROW, ' => ')}”"
            yield Fact(SEEN, ref, quoted, weight / (1 + weight), spare=True)


def _quotable(sentence: str) -> bool:
    """Whether a line of a document says something by itself; headings are in its note already."""
    if len(sentence) < SHORTEST_QUOTE or sentence.startswith(("<", "!", "|", "#")):
        return False
    return not (is_data(sentence) or _is_formal(sentence))


def _comments(lines: Sequence[str]) -> Iterator[str]:
    """The comments of code; a line that goes on in the next, in lower case, is one with it."""
    paragraph: list[str] = []
    for line in map(str.strip, lines):
        said = _bare(line) if _COMMENT.match(line) else ""
        if not said or _BREAK.match(said):
            yield " ".join(paragraph)
            paragraph = []
        paragraph += [said] if said else []
    yield " ".join(paragraph)


def _path_of(step: Done) -> str:
    if step.file is not None:
        return step.file.path
    if step.act.is_command:
        found = _SHOWING.match(step.act.what)
        return found[1] if found else ""
    return step.act.paths[0] if step.act.paths and not step.act.changes else ""


def _note(step: Done, text: str) -> str:
    """One line on what was looked at; "" where there is nothing to tell."""
    if step.file is not None:
        return f"{_near(step.file.path)} (file f{step.file.id}, {step.file.kind}): {step.file.summary}"
    path = _path_of(step)
    if path:
        return _file_note(path, text)
    if _PLANS.search(step.call.name) or (step.act.changes and not step.act.is_command):
        return ""
    if _is_search(step):
        return _search_note(step.act.what, text)
    if _JSON.match(text):
        keys = _named("keys", _json_keys(text, text.splitlines()))
        return f"{clip(step.act.what, 120)}: {keys}" if keys else ""
    return _output_note(step, text) if step.act.is_command else ""


def _is_search(step: Done) -> bool:
    if step.act.is_command:
        return bool(_SEARCHING.match(step.act.what))
    return bool(_SEARCH.search(step.call.name)) and not step.act.changes


def _output_note(step: Done, text: str) -> str:
    """How much a command wrote, and its first lines, unless its outcome tells it all."""
    lines = [line for line in (clean(one[:LINE_CHARS]) for one in text.split("\n")) if _says(line)]
    if len(lines) < 2 or step.outcome.detail:
        return ""
    head = " | ".join(clip(line, 80) for line in lines[:3])
    return f"{clip(step.act.what, 100)}: {len(lines)} lines: {head}"


def _says(line: str) -> bool:
    return any(map(str.isalnum, line)) and not line.startswith("> ") and not is_data(line)


def _lines(text: str) -> list[str]:
    """The lines of a file as shown, without the numbers a tool put before them."""
    lines = text.split("\n")
    numbered = sum(bool(_NUMBERED.match(line)) for line in lines[:4]) >= min(3, len(lines))
    cut = (_NUMBERED.sub("", line[: LINE_CHARS + 12], count=1) if numbered else line for line in lines)
    return [line[:LINE_CHARS].rstrip("\r") for line in cut]


def _file_note(path: str, text: str, how: str = "") -> str:
    lines = _lines(text)
    base = split_path(path)[1]
    kind = base.rpartition(".")[2].lower()
    if kind in _TEXTUAL:
        names = _named("", _headings(lines))
    elif kind in _KEYED:
        names = _named("keys", _json_keys(text, lines) if kind.startswith("json") else _keys(lines))
    else:
        names = "; ".join(filter(None, (_opening(lines), _declarations(lines))))
    names = names or next((clip(line, 160) for line in map(_bare, lines) if _tells(line)), "")
    return f"{_near(path)} ({how}{len(lines)} lines): {names}" if names else ""


def _near(path: str) -> str:
    """A file's name with its folder's."""
    folder, base = split_path(path)
    near = split_path(folder.rstrip("/"))[1]
    return f"{near}/{base}" if near else base


def _bare(line: str) -> str:
    """A line without the sign of a comment."""
    line = line.strip()
    sign = _COMMENT.match(line)
    return clean(line[sign.end() :].strip(" \"'*/->=")) if sign else clean(line)


def _tells(line: str) -> bool:
    return len(line) > 8 and len(terms(line)) >= FEWEST_TERMS - 1 and not _is_formal(line)


def _is_formal(line: str) -> bool:
    lowered = line.lower()
    return any(sign in lowered for sign in _FORMAL)


def _named(kind: str, names: Iterable[str]) -> str:
    """Names after their kind, at most NAMES_NOTED of them, the others counted."""
    found = list(dict.fromkeys(name for name in map(clean, names) if name))
    more = f" (+{len(found) - NAMES_NOTED} more)" if len(found) > NAMES_NOTED else ""
    return f"{kind} {', '.join(found[:NAMES_NOTED])}{more}".strip()


def _headings(lines: Sequence[str]) -> Iterator[str]:
    fenced = False
    for line in lines:
        if line.startswith(("```", "~~~")):
            fenced = not fenced
        elif not fenced and (found := _HEADING.match(line)):
            yield found[1].strip(" #").replace("**", "").replace(", ", " ")


def _json_keys(text: str, lines: Sequence[str]) -> Iterator[str]:
    """The keys of an object, or of the first object in a list; of a piece of one, those least indented."""
    try:
        value: Json = orjson.loads(text if text.startswith(("{", "[")) else "\n".join(lines))
    except orjson.JSONDecodeError:
        yield from _keys(lines)
        return
    first = value[0] if isinstance(value, list) and value else value
    if isinstance(first, dict):
        yield from (key[:60] for key in first)


def _keys(lines: Sequence[str]) -> Iterator[str]:
    found = [(len(line) - len(line.lstrip()), _KEY.match(line.lstrip())) for line in lines]
    least = min((indent for indent, key in found if key), default=0)
    yield from (key[1] or key[2] for indent, key in found if key and indent == least)


def _opening(lines: Sequence[str]) -> str:
    """What a file's opening comment says it is."""
    for line in islice((line.strip() for line in lines if line.strip()), 12):
        sign = _COMMENT.match(line)
        if sign is None and not line.startswith(("package ", "import ", "from ")):
            return ""
        said = _bare(line) if sign else ""
        if _tells(said):
            return clip(said, 140)
    return ""


def _declarations(lines: Sequence[str]) -> str:
    """Names declared at the margin, by kind, then those within others."""
    kinds: dict[str, dict[str, None]] = {}
    within: dict[str, dict[str, None]] = {}
    for line in lines:
        bare = line.lstrip()
        kind, name = _declared(bare) if bare[:1].isalpha() else ("", "")
        if kind and bare is line:
            kinds.setdefault(kind, {})[name] = None
        elif kind and kind not in _MARGINAL:
            within.setdefault(kind, {})[name] = None
    kinds |= {f"within: {kind}" if kinds and not at else kind: within[kind] for at, kind in enumerate(within)}
    total = sum(map(len, kinds.values()))
    left = NAMES_NOTED
    parts: list[str] = []
    for kind, names in kinds.items():
        if left > 0:
            parts.append(f"{kind} {', '.join(list(names)[:left])}")
            left -= len(names)
    return "; ".join(parts) + (f" (+{total - NAMES_NOTED} more)" if left < 0 else "")


def _declared(line: str) -> tuple[str, str]:
    """Kind and name of what a line declares, or two empty texts."""
    if found := _DECLARED.match(line):
        return found[1], found[2]
    if found := _VALUE.match(line):
        known = found[1] or found[3].isupper() or "=>" in line or "= function" in line
        return (found[2], found[3]) if known else ("", "")
    if (found := _OTHER.match(line)) and not line.startswith(("return ", "else ", "new ", "await ")):
        return (found[1].lower(), found[2]) if found[1] else ("function", found[3] or found[4])
    return "", ""


def _search_note(what: str, text: str) -> str:
    """How much a search found and where: counts and the first few paths."""
    lines = [clean(line[:LINE_CHARS]) for line in text.split("\n")]
    lines = [line for line in lines if line and line != "--"]
    counted = _COUNTED.match(lines[0]) if lines else None
    if not lines or _NOTHING.match(lines[0]):
        return f"{clip(what, 120)}: nothing found"
    lines = lines[1:] if counted and len(lines) > 1 else lines
    hits = [found for line in lines if (found := _HIT.match(line))]
    if hits:
        names = list(dict.fromkeys(path for hit in hits if (path := hit[1] or hit[3])))
    else:
        names = list(dict.fromkeys(line.rpartition(" ")[2] for line in lines))
    total = int(counted[1]) if counted else len(names)
    root = _root(names)
    where = f" under {root}" if root else ""
    first = ", ".join(name.removeprefix(root) or "./" for name in names[:PATHS_NOTED])
    more = f" (+{total - PATHS_NOTED} more)" if total > PATHS_NOTED else ""
    size = f"{total} found"
    if hits:
        size = f"{len(hits)} matches" + (f" in {total} files" if names else "")
        texts = [clip(text, 80) for hit in hits[:HITS_NOTED] if (text := (hit[2] or hit[4] or "").strip())]
        first = " | ".join(filter(None, (first, *texts)))
    return f"{clip(what, 120)}: {size}{where}: {first}{more}"


def _root(names: Sequence[str]) -> str:
    """The folder that all names are under."""
    low, high = min(names, default=""), max(names, default="")
    pairs = zip(low, high, strict=False)
    same = next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(low), len(high)))
    return low[: low.rfind("/", 0, same) + 1] if len(names) > 1 else ""
