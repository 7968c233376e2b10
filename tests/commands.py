"""The command line, run in this process as a user runs it, on one store."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lcm_mcp.cli import main
from lcm_mcp.storage.connections import Store


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def answer(self) -> Any:
        return json.loads(self.out)


class Cli:
    """Runs the command in this process on one store."""

    def __init__(self, capsys: pytest.CaptureFixture[str], db: Path) -> None:
        self.capsys = capsys
        self.db = db

    def __call__(self, *arguments: str | Path) -> Ended:
        with pytest.raises(SystemExit) as end:
            main(["--db", str(self.db), *map(str, arguments)])
        out, err = self.capsys.readouterr()
        assert "Traceback" not in err
        assert isinstance(end.value.code, int)
        return Ended(end.value.code, out, err)

    def on_empty(self) -> Cli:
        """The same, on a store that holds nothing."""
        Store.open(self.db).close_now()
        return self

    def done(self, *arguments: str | Path) -> str:
        ended = self(*arguments)
        assert (ended.code, ended.err) == (0, "")
        return ended.out

    def answer(self, *arguments: str | Path) -> Any:
        return json.loads(self.done(*arguments, "--json"))

    def refusal(self, *arguments: str | Path, code: int = 1) -> str:
        ended = self(*arguments)
        assert ended.code == code
        assert ended.err.count("\n") == 1
        return ended.err
