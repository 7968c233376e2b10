"""A read knows what followed files have grown by, and visits the store once where they have not."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import apsw
from stores import serving

from lcm_mcp.service import Service
from lcm_mcp.service.requests import GrepQuery


@contextmanager
def visits() -> Generator[list[str]]:
    """The transactions that connections opened meanwhile begin."""
    begun: list[str] = []

    def trace(_cursor: object, statement: str, _bindings: object) -> bool:
        if statement.startswith("BEGIN"):
            begun.append(statement)
        return True

    def watch(db: apsw.Connection) -> None:
        db.exec_trace = trace

    apsw.connection_hooks.append(watch)
    try:
        yield begun
    finally:
        apsw.connection_hooks.remove(watch)


def said(text: str) -> str:
    return json.dumps({"role": "user", "content": text}) + "\n"


async def test_a_read_visits_the_store_once_unless_a_file_has_grown(store_path: Path, tmp_path: Path) -> None:
    file = tmp_path / "talk.jsonl"
    file.write_text(said("the first harbour"), encoding="utf-8")

    async def found(service: Service) -> int | None:
        return (await service.grep(GrepQuery("harbour", session="*"))).total

    with visits() as begun:
        async with serving(store_path) as service:
            await service.import_file(file, "neutral", fold=False)
            begun.clear()
            assert await found(service) == 1
            assert begun == ["BEGIN"]
            with file.open("a", encoding="utf-8") as lines:
                lines.write(said("another harbour"))
            assert await found(service) == 2
            assert "BEGIN IMMEDIATE" in begun
            begun.clear()
            assert (await service.sessions(project="*")).sessions[0].rows == 2
            assert begun == ["BEGIN"]
