"""Forgetting: nothing of a session is left in the file's bytes, and nothing brings it back."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path

import apsw
import pytest
from commands import Cli
from stores import serving

from lcm_mcp.errors import InvalidArgument, UnknownSession
from lcm_mcp.service import Service
from lcm_mcp.service.requests import GrepQuery
from lcm_mcp.storage import files

SECRET = "xylophone-quartz-7731"
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
IMAGE = {"type": "image", "media_type": "image/png", "data": base64.b64encode(PIXEL).decode()}


async def talk(service: Service, key: str, words: str, *, rows: int = 80) -> None:
    said = [
        {"role": "user" if n % 2 == 0 else "assistant", "content": f"{words} {n} " * 12} for n in range(rows)
    ]
    await service.append(key, [*said, {"role": "user", "content": [{"type": "text", "text": words}, IMAGE]}])
    await service.compact(key, "lcm")
    await service.compact(key, "rolling")


def bytes_of(path: Path) -> bytes:
    """All bytes of the file and of what stands beside it."""
    return b"".join(each.read_bytes() for each in path.parent.iterdir() if each.name.startswith(path.name))


def grams_of(path: Path, word: str) -> int:
    db = files.connect(path, apsw.SQLITE_OPEN_READONLY)
    try:
        wanted = " OR ".join(f'"{word[at : at + 3]}"' for at in range(len(word) - 2))
        found: int = db.execute("SELECT count(*) FROM gram WHERE gram MATCH ?", (wanted,)).get
        return found
    finally:
        db.close()


@pytest.mark.parametrize("indexed", [True, False])
async def test_nothing_is_left_in_the_files_bytes(tmp_path: Path, indexed: bool) -> None:
    path = tmp_path / "lcm.sqlite"
    async with serving(path) as service:
        await talk(service, "kept", "ordinary words")
        await talk(service, "secret", SECRET)
        if indexed:
            await service.index()
        assert SECRET.encode() in bytes_of(path)
        gone = await service.forget("secret")
        assert (gone.session, gone.rows, gone.purged, gone.kept_by) == ("secret", 81, True, ())
        assert gone.nodes > 2
        assert gone.images == 0  # the other session shows it too
        assert SECRET.encode() not in bytes_of(path)
        await service.index()
        assert grams_of(path, "xyloph") == 0
        assert (await service.doctor()).healthy
        assert len((await service.grep(GrepQuery("ordinary words", session="*", limit=5))).hits) == 5
        with pytest.raises(UnknownSession):
            await service.expand("e1", "secret")
        assert (await service.forget("kept")).images == 1
    assert PIXEL not in bytes_of(path)
    assert b"ordinary" not in bytes_of(path)


async def test_what_a_fork_shares_stays_and_is_said(tmp_path: Path) -> None:
    async with serving(tmp_path / "lcm.sqlite") as service:
        await talk(service, "main", SECRET)
        await service.fork("main", "e40", "branch")
        await service.append("main", [{"role": "user", "content": "only here"}])
        before = await service.expand("e1..e40", "branch")
        gone = await service.forget("main")
        assert gone.kept_by == ("branch",)
        assert gone.unlinked == ("branch",)
        assert gone.texts_kept >= 40
        assert await service.expand("e1..e40", "branch") == before
        assert b"only here" not in bytes_of(tmp_path / "lcm.sqlite")
        assert (await service.doctor()).healthy


async def test_a_followed_file_does_not_bring_it_back_but_an_import_does(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    file = folder / "talk.jsonl"
    file.write_text(
        "".join(json.dumps({"role": "user", "content": f"{SECRET} {n}"}) + "\n" for n in range(5))
    )
    async with serving(tmp_path / "lcm.sqlite") as service:
        await service.import_file(file)
        await service.follow_folder(folder, "auto", None, True)
        assert (await service.forget("talk")).not_followed == (str(file),)
        with file.open("a") as more:
            more.write(json.dumps({"role": "user", "content": "later"}) + "\n")
        (folder / "other.jsonl").write_text('{"role": "user", "content": "another"}\n')
        found = await service.sessions(project="*")
        assert [each.key for each in found.sessions] == ["other"]
        assert SECRET.encode() not in bytes_of(tmp_path / "lcm.sqlite")
        outcome = await service.import_file(file)
        assert outcome.report.rows_added == 6


async def test_a_session_that_is_being_compacted_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path / "lcm.sqlite") as service:
        await talk(service, "s", "words")

        def hold(db: apsw.Connection) -> None:
            db.execute("INSERT INTO lease VALUES(1, 't', 'elsewhere/1', ?)", (2**60,))

        await service.work.store.write(hold)
        with pytest.raises(InvalidArgument, match="being compacted"):
            await service.forget("s")


def test_forget_is_a_command_that_asks(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli = Cli(capsys, tmp_path / "lcm.sqlite")
    file = tmp_path / "talk.jsonl"
    file.write_text('{"session": "talk"}\n{"role": "user", "content": "hello"}\n')
    cli.done("--quiet", "import", file)
    for answer in ("n\n", "", "perhaps\n"):
        monkeypatch.setattr("sys.stdin", io.StringIO(answer))
        asked = cli("forget", "s1").err
        assert asked.startswith("Delete session talk (1 row) for good? [y/N]")
        assert "nothing was deleted. Answer y" in asked
    assert "[y/N]" not in cli("forget", "s2").err
    assert "Which SESSION?" in cli("forget", "--yes").err
    assert "Did you mean 'talk'?" in cli.refusal("--session", "ta", "list")
    said = cli.done("forget", "--session", "talk", "--yes")
    assert "talk (s1) is forgotten: 1 row" in " ".join(said.split())
    assert "No longer followed" in said
    assert "There is no session" in cli.refusal("forget", "talk", "--yes")
