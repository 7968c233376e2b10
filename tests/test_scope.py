"""Which sessions a read without a session is about, and that its addresses lead back to what it found."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest
from stores import settings_for

from lcm_mcp.service import Service
from lcm_mcp.service.requests import GrepQuery
from lcm_mcp.transcript import sessions


async def test_a_search_is_of_the_project_and_other_reads_of_the_configured_session(
    tmp_path: Path, store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    service = Service.open(settings_for(store_path).model_copy(update={"session": "elsewhere"}))
    await service.append("elsewhere", [{"role": "user", "content": "a needle"}], project="/other")
    await service.append("here", [{"role": "user", "content": "a needle"}])
    page = await service.grep(GrepQuery("needle"))
    assert page.scope.startswith(f"project {tmp_path}")
    # A short address would mean the configured session.
    assert [hit.ref for hit in page.hits] == ["s2/e1"]
    assert (await service.expand(page.hits[0].ref)).session == "here"
    assert (await service.expand("e1")).session == "elsewhere"
    await service.close()


async def test_the_default_session_is_no_child_but_may_be_a_fork(store_path: Path) -> None:
    service = Service.open(settings_for(store_path))
    await service.append("main", [{"role": "user", "content": "one"}])

    def link(db: apsw.Connection, key: str, kind: sessions.Link) -> None:
        main = sessions.find_by_key(db, "main")
        assert main is not None
        new = sessions.NewSession(key, project=main.project, parent=main.id, link=kind)
        sessions.create(db, new, 0)

    links: tuple[tuple[sessions.Link, str], ...] = (("child", "main"), ("fork", "fork"))
    for kind, meant in links:
        key = str(kind)
        await service.work.store.write(link, key, kind)
        await service.append(key, [{"role": "user", "content": "two", "at": 4_000_000_000_000}])
        assert (await service.list_nodes()).session == meant
    await service.close()
