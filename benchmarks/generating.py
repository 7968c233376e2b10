"""Conversations of an agent at work, as many rows as wanted, the same for the same seed.

What decides a search is alike to real ones: few words are most of a text, names are made of words, tools get
arguments and give listings and logs, and one session in twenty is in Chinese or Japanese. No text is
repeated as a whole. Rare needles are planted, in the first, a middle and the last session, a few rows in.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Final

SESSION_ROWS: Final = 20_000
TURN_ROWS: Final = 4
PLANTED_AT: Final = 40
"""The turn of a session in which the needles are planted."""

IDENTIFIER: Final = "settleHarbourLedgerBeforeMidnight"
ARGUMENT: Final = "retry_budget_per_tenant_41"
PUNCTUATION: Final = "}])?.[0]!;"
WHALE: Final = "鯨油記録"
"""Its first character stands nowhere else."""
RARE_PAIR: Final = "ǂǃ"

_VOCABULARY: Final = """
the of to and in is that it for was on are as with be this have from or had by not but what all were when
we there can an your which their said if do will each about how up out them then she many some so these
would other into has more her two like him see time could no make than first been its who now people my
made over did down only way find use may water long little very after words called just where most know
session ledger harbour tenant request budget retry writer reader index window summary fold expand append
commit branch merge config parser schema migration socket stream buffer cursor cache token client server
handler worker thread queue lease midnight signal timeout deadline checksum payload snapshot observation
"""
_WORDS: Final = _VOCABULARY.split()
_CJK: Final = (
    "的一是在不了有和人這中大為上個國我以要他時來用們生到作地於出就分對成會可主發年動同工也能下過子說產種"
    "面而方後多定行學法所民得經十三之進著等部度家電力裏如水化高自二理起小物現實加量都兩體制機當使點從業本"
    "去把性好應開它合還因由其些然前外天政四日那社義事平形相全表間樣與關各重新線內數正心反你明看原又麼利比"
    "或但質氣第向道命此變條只沒結解問意建月公無系軍很情者最立代想已通並提直題黨程展五果料象員革位入常文總"
    "次品式活設及管特件長求老頭基資邊流路級少圖山統接知較將組見計別她手角期根論運農指幾九區強放決西被幹做"
    "必戰先回則任取據處隊南給色光門即保治北造百規熱領七海口東導器壓志世金增爭濟階油思術極交受聯什認六共權"
    "收證改清己美再採轉更單風切打白教速花帶安場身車例真務具萬每目至達走積示議聲報鬥完類八離華名確才科張信"
    "馬節話米整空元況今集溫傳土許步群廣石記需段研界拉林律叫且究觀越織裝影算低持音眾書布复容兒須際商非驗連"
    "斷深難近礦千週委素技備半辦青省列習響約支般史感勞便團往酸歷市克何除消構府稱太準精值號率族維劃選標寫存"
    "候毛親快效斯院查江型眼王按格養易置派層片始卻專狀育廠京識適屬圓包火住調滿縣局照參紅細引聽該鐵價嚴"
)

_TOOLS: Final = ("Bash", "Read", "Edit", "Grep")


class Author:
    """Writes turns; each text is its own."""

    def __init__(self, seed: int) -> None:
        self._luck = Random(seed)
        # Zipf's law: the n-th word is as frequent as 1/n of the first.
        self._weights = list(accumulate(1 / (place + 1) for place in range(len(_WORDS))))
        self._lines = [self._line() for _ in range(2_000)]
        self._cjk = [self._cjk_line() for _ in range(400)]

    def session(self, rows: int, number: int, *, planted: bool) -> Iterator[dict[str, object]]:
        """The entries of a session; number tells it apart."""
        lines = self._cjk if number % 20 == 7 else self._lines
        for turn in range(rows // TURN_ROWS):
            yield from self._turn(f"{number}.{turn}", lines, planted=planted and turn == PLANTED_AT)

    def _turn(self, name: str, lines: list[str], *, planted: bool) -> Iterator[dict[str, object]]:
        luck = self._luck
        some = luck.choices
        path, tool = f"src/{self._snake()}/{self._snake()}.py", luck.choice(_TOOLS)
        arguments: dict[str, object] = {"path": path, "pattern": self._camel(), "limit": luck.randrange(999)}
        told = "\n".join(some(lines, k=luck.choice((2, 5, 8, 13, 21, 55))))
        if planted:
            arguments["key"] = ARGUMENT
            told += f"\n{IDENTIFIER}()\n{PUNCTUATION}\n{WHALE}\n{RARE_PAIR}"
        call = {"type": "tool_use", "id": f"c{name}", "name": tool, "input": arguments}
        result = {"type": "tool_result", "tool_use_id": f"c{name}", "content": f"{path}:{name}\n{told}"}
        yield _entry("user", f"u{name}", f"{luck.choice(lines)} {path} ({name})? {luck.choice(lines)}")
        yield _entry("assistant", f"a{name}", [{"type": "text", "text": some(lines)[0] + f" {name}"}, call])
        yield _entry("user", f"t{name}", [result])
        yield _entry("assistant", f"d{name}", " ".join(some(lines, k=luck.choice((1, 3, 8)))) + f" [{name}]")

    def _line(self) -> str:
        luck = self._luck
        words = luck.choices(_WORDS, cum_weights=self._weights, k=luck.randint(6, 22))
        match luck.randrange(6):
            case 0:
                return f"    {self._camel()}({self._snake()}=self.{self._snake()}[{luck.randrange(9999)}]);"
            case 1:
                day, name, mark = luck.randint(1, 30), self._snake(), luck.randbytes(6).hex()
                return f"2026-11-{day} ERROR {name}: {mark} {' '.join(words)}"
            case _:
                return " ".join(words).capitalize() + f", {self._snake()}."

    def _cjk_line(self) -> str:
        return "".join(self._luck.choices(_CJK, k=self._luck.randint(12, 60))) + "。"

    def _snake(self) -> str:
        return "_".join(self._luck.choices(_WORDS, k=3))

    def _camel(self) -> str:
        first, *others = self._luck.choices(_WORDS, k=3)
        return first + "".join(word.capitalize() for word in others)


def write_sessions(folder: Path, rows: int, seed: int = 7) -> Iterator[Path]:
    """Transcript files of so many rows together, one at a time: the one before may be removed."""
    author = Author(seed)
    sizes = [SESSION_ROWS] * (rows // SESSION_ROWS)
    if rows % SESSION_ROWS:
        sizes.append(rows % SESSION_ROWS)
    holders = {0, len(sizes) // 2, len(sizes) - 1}
    for number, size in enumerate(sizes):
        file = folder / f"{key_of(number)}.jsonl"
        entries = author.session(size, number, planted=number in holders)
        with file.open("w", encoding="utf-8") as lines:
            lines.write(json.dumps({"session": key_of(number)}) + "\n")
            lines.writelines(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries)
        yield file


def key_of(number: int) -> str:
    return f"talk-{number}"


def _entry(role: str, entry_id: str, content: object) -> dict[str, object]:
    return {"role": role, "entry_id": entry_id, "content": content}
