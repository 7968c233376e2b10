"""What a tool call did and how it ended, read from its arguments and its result.

Tools are told by the shape of their arguments first and by their name second, so an unknown agent's
tools are understood as far as they look like others: a command is run, a path is read or changed.
settle() keeps of many outcomes the latest of each and which failures nothing later made good; it works
on the written form, so leaves and parents share it. Nothing here runs or opens anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from lcm_mcp.summarizers.facts import ARROW
from lcm_mcp.summarizers.sentences import clean, clip
from lcm_mcp.transcript.model import File, Image, Json, Text, ToolCall, ToolResult
from lcm_mcp.transcript.naming import PATH_KEYS
from lcm_mcp.values import frozen

Status = Literal["ok", "failed", "no result"]

COMMAND_BYTES = 160
DETAIL_BYTES = 220
# A log says how it ended in its first or last lines; what lies between is not worth reading.
LOG_END_CHARS = 16_000
OPEN_FAILURES_PER_KEY = 32

_COMMAND_KEYS = ("command", "cmd", "script", "bash_command")
_CHANGE_KEYS = frozenset(
    ("new_string", "new_str", "content", "file_text", "edits", "patch", "diff", "new_source", "insert_text")
)
_EDITOR_VERBS = frozenset(("view", "create", "str_replace", "insert", "undo_edit"))
_CHANGING = re.compile(
    r"write|edit|create|patch|replace|insert|delete|remove|rename|append|save", re.IGNORECASE
)
_PATCHED = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.{1,300})$|^\+\+\+ b/(.{1,300})$", re.MULTILINE)

_PRELUDE = re.compile(r"^(?:cd [^&;|]{1,300}(?:&&|;) *)+")
_TRAILER = re.compile(r"(?: *2>&1| *\| *(?:tail|head)(?: +-[\w ]{1,12})?)+ *$")
_QUOTED = re.compile(r"\"[^\"]*(?:\"|$)|'[^']*(?:'|$)")
_SEGMENT = re.compile(r"&&|\|\||;")
_QUIET = re.compile(
    r"(?:ls|cat|head|tail|e?grep|rg|find|sed|awk|wc|echo|pwd|cd|which|tree|stat|file|sort|du|df|sleep|jq|cut|diff)"
)
_QUIET_GIT = frozenset(("status", "diff", "log", "show", "branch", "remote", "rev-parse", "fetch", "blame"))
_QUIET_TOOLS = re.compile(r"grep|glob|search|find|todo|plan|^ls$|list_|think|thought", re.IGNORECASE)

_EXIT = re.compile(
    r"exit(?:ed)?(?: with)?(?:[ _]?code|[ _]status)?[\"']?[:= ]{1,2}(-?\d{1,5})\b", re.IGNORECASE
)
_TOTALS = re.compile(
    r"\b\d{1,7} (?:tests? )?(?:passed|failed|passing|failing|failures?)\b|^test result: ", re.IGNORECASE
)
_FAILURES = re.compile(
    r"\b[1-9]\d{0,6} (?:tests? )?(?:failed|failing|failures?)\b|failures=[1-9]", re.IGNORECASE
)
_ERROR = re.compile(
    r"^[^\s:]{1,200}:\d{1,7}(?::\d{1,7})?:? "
    r"|^(?:[\w.]{0,80}(?:Error|Exception)|fatal|error|panic)(?:\[\w{1,10}\])?: "
    r"|^--- FAIL|^[×✖✗✘✕] |^error TS\d|^[^\s(]{1,200}\(\d{1,7},\d{1,7}\): error",
    re.IGNORECASE,
)
_TROUBLE = re.compile(
    r"error|fail|fatal|cannot|can't|could not|not found|denied|no such|undefined|unexpected|refused"
    r"|timed? ?out|conflict|invalid|unable|missing",
    re.IGNORECASE,
)
_TELLING_OK = re.compile(
    r"^\[[\w/.-]{1,80} (?:\(root-commit\) )?[0-9a-f]{7,40}\] |https?://\S{1,120}/(?:pull|merge_requests|issues)/\d"
)
_FRAME = re.compile(r"[─━═╭╮╰╯┌┐└┘│┃╌┄]+")
_BORING = re.compile(r"^(?:FAIL$|ok |exit code \d+|npm warn|> |\$ |warning: )|https?://\S+$", re.IGNORECASE)
REFUSAL = "The user doesn't want to proceed with this tool use"


@frozen
class Act:
    """A call understood: what is its short written form, paths what it names, changes whether it writes."""

    what: str
    paths: tuple[str, ...] = ()
    changes: bool = False

    @property
    def is_command(self) -> bool:
        return self.what.startswith("$ ")


@frozen
class Outcome:
    """How an act ended; ref is the address of its call."""

    ref: str
    what: str
    status: Status
    detail: str = ""

    @property
    def text(self) -> str:
        return f"{self.what}{ARROW}{self.status}" + (f": {self.detail}" if self.detail else "")


@frozen
class Done:
    """A call with what became of it, at ref; its result, if it has one, stands in the row answered.

    file is the handle of a large result, which then holds the file's descriptor.
    """

    ref: str
    call: ToolCall
    result: ToolResult | None
    act: Act
    outcome: Outcome
    answered: str
    file: File | None = None


def read_outcome(ref: str, text: str) -> Outcome:
    """Read Outcome.text back; a text without an outcome counts as one without a result."""
    what, _, told = text.partition(ARROW)
    for status in ("ok", "failed"):
        if told.startswith(status):
            return Outcome(ref, what, status, told[len(status) :].removeprefix(":").strip())
    return Outcome(ref, what, "no result")


def read_call(call: ToolCall) -> Act:
    """Understand a call from whatever arguments it has."""
    given: Mapping[str, Json] = (
        call.arguments if isinstance(call.arguments, dict) else {"input": call.arguments}
    )
    command = next((_joined(given[key]) for key in _COMMAND_KEYS if given.get(key)), "")
    paths = tuple(dict.fromkeys(_paths(given)))
    if command and not (paths and command in _EDITOR_VERBS):
        return Act(f"$ {_short(command)}", tuple(_patched(command)), changes=True)
    if _QUIET_TOOLS.search(call.name):  # a folder that was searched was not read
        paths = ()
    subject = paths[0] if paths else next((v for v in given.values() if isinstance(v, str)), "")
    what = clean(f"{call.name[:60]} {subject[:400]}").replace(ARROW, " => ")
    return Act(clip(what, COMMAND_BYTES + 100), paths, _changes(call.name, command, given))


def _changes(name: str, verb: str, given: Mapping[str, Json]) -> bool:
    if verb in _EDITOR_VERBS:
        return verb != "view"
    return bool(_CHANGING.search(name)) or not _CHANGE_KEYS.isdisjoint(given)


def _joined(value: Json) -> str:
    if isinstance(value, list):
        words = [word for word in value if isinstance(word, str)]
        # ["bash", "-lc", "make test"]: the shell is only the carrier.
        return words[2] if len(words) == 3 and words[1] in {"-lc", "-c"} else " ".join(words)
    return value if isinstance(value, str) else ""


def _paths(given: Mapping[str, Json]) -> Iterator[str]:
    yield from _named_paths(given)
    for key in ("files", "paths", "edits", "changes"):
        value = given.get(key)
        for item in value[:200] if isinstance(value, list) else ():
            yield from _named_paths(
                item if isinstance(item, dict) else {"path": item} if key in {"files", "paths"} else {}
            )
    for key in ("input", "patch", "diff"):
        value = given.get(key)
        if isinstance(value, str):
            yield from _patched(value)


def _named_paths(given: Mapping[str, Json]) -> Iterator[str]:
    for key in PATH_KEYS:
        value = given.get(key)
        if isinstance(value, str) and value.strip():
            yield tidy_path(value)


def _patched(text: str) -> Iterator[str]:
    if "*** " in text or "+++ b/" in text:
        yield from (tidy_path(found[1] or found[2]) for found in _PATCHED.finditer(text))


def tidy_path(path: str) -> str:
    """A path on one line that a list of paths can hold."""
    return clip(clean(path[:600]).replace(", ", ",").rstrip("/"), 240) or "/"


def _short(command: str) -> str:
    text = clean(command[:1200]).replace(ARROW, " => ")
    return clip(_TRAILER.sub("", _PRELUDE.sub("", text)) or text, COMMAND_BYTES)


def outcome_of(ref: str, act: Act, result: ToolResult | None) -> Outcome:
    """How a call ended, by its result's flag, and for commands by exit code and test totals."""
    if result is None:
        return Outcome(ref, act.what, "no result")
    text = _ends("\n".join(part.text for part in result.content if isinstance(part, Text)))
    lines = [line for line in map(clean, re.split(r"[\r\n]+", _FRAME.sub(" ", text))) if line]
    totals = _test_totals(lines) if act.is_command else ""
    if result.is_error or (act.is_command and (_exit_code(text) or _FAILURES.search(totals))):
        worst = _error_line(lines)
        told = f"{totals}; {worst}" if totals and totals != worst else worst
        return Outcome(ref, act.what, "failed", clip(told.replace(ARROW, " => "), DETAIL_BYTES))
    told = totals or (_ok_line(lines) if act.is_command else _pictures(result))
    return Outcome(ref, act.what, "ok", clip(told.replace(ARROW, " => "), DETAIL_BYTES))


def _ends(text: str) -> str:
    return text if len(text) <= 2 * LOG_END_CHARS else f"{text[:LOG_END_CHARS]}\n{text[-LOG_END_CHARS:]}"


def _exit_code(text: str) -> int:
    found = _EXIT.search(text[:400]) or _EXIT.search(text[-400:])
    return int(found[1]) if found else 0


def _test_totals(lines: Sequence[str]) -> str:
    told = [line for line in lines if len(line) < 200 and _TOTALS.search(line)]
    if told:
        return clip(told[-1].strip("=~─━ "), 100)
    passed = sum(line.startswith("ok ") for line in lines)
    failed = sum(line.startswith("FAIL ") for line in lines)
    return f"packages: {failed} failed, {passed} ok" if passed + failed > 1 else ""


def _error_line(lines: Sequence[str]) -> str:
    plain = [line.replace("<tool_use_error>", "").replace("</tool_use_error>", "") for line in lines]
    plain = [line for line in plain if any(map(str.isalnum, line)) and not _BORING.match(line)]
    for pattern in (_ERROR, _TROUBLE):
        found = next((line for line in plain if pattern.search(line[:300])), None)
        if found is not None:
            return found
    return plain[0] if plain else ""


def _ok_line(lines: Sequence[str]) -> str:
    found = next((line for line in lines if _TELLING_OK.search(line[:300])), None)
    return found or (lines[0] if len(lines) == 1 and len(lines[0]) <= 100 else "")


def _pictures(result: ToolResult) -> str:
    return ", ".join(picture(part) for part in result.content[:8] if isinstance(part, Image))


def picture(image: Image) -> str:
    """An image in words: media type and pixels, never its bytes."""
    size = f" {image.width}x{image.height}" if image.width and image.height else ""
    return f"[image {clip(clean(image.media_type), 40)}{size}]"


def settle(outcomes: Iterable[Outcome]) -> tuple[list[Outcome], list[Outcome]]:
    """The latest outcome of each act, and the failures that no later success made good; both in order."""
    latest: dict[str, Outcome] = {}
    failing: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        latest.pop(outcome.what, None)
        latest[outcome.what] = outcome
        keys = list(_keys(outcome.what))
        if outcome.status == "ok":
            for key, words in keys:
                failing[key] = [old for old in failing.get(key, ()) if not _covers(words, old.what)]
        elif outcome.status == "failed" and keys:
            key = keys[-1][0]
            others = [old for old in failing.get(key, ()) if old.what != outcome.what]
            failing[key] = [*others, outcome][-OPEN_FAILURES_PER_KEY:]
    still = {outcome for found in failing.values() for outcome in found}
    return list(latest.values()), [outcome for outcome in latest.values() if outcome in still]


def _keys(what: str) -> Iterator[tuple[str, frozenset[str]]]:
    """Under what an act's failure is filed: a command's programs with their words, or a tool's subject."""
    if not what.startswith("$ "):
        name, _, subject = what.partition(" ")
        yield (subject or name, frozenset())
        return
    bare = _QUOTED.sub("", what[2:])
    for segment in _SEGMENT.split(bare):
        words = [word for word in segment.partition("|")[0].split() if "=" not in word and word != "./..."]
        if words and words[0] not in {"cd", "export", "echo"}:
            yield (words[0], frozenset(word for word in words if not word.startswith(("-", "<", ">"))))


def _covers(words: frozenset[str], failure: str) -> bool:
    """Whether a success with these words is the failed command again, with the same or a wider scope."""
    if not words:
        return True
    filed = list(_keys(failure))
    return bool(filed) and words <= filed[-1][1]


def need_of(outcome: Outcome) -> float:
    """How much a reader needs to know of an outcome: 0 for looking around, 2 for checks and commits."""
    if not outcome.what.startswith("$ "):
        return 0.0 if _QUIET_TOOLS.search(outcome.what.partition(" ")[0]) else 1.0
    if all(_only_looks(program, words) for program, words in _keys(outcome.what)):
        return 0.0
    return 2.0 if outcome.detail or outcome.status == "failed" else 1.0


def _only_looks(program: str, words: frozenset[str]) -> bool:
    return bool(_QUIET.fullmatch(program)) or (program == "git" and not _QUIET_GIT.isdisjoint(words))
