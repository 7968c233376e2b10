"""The database file: whose it is, what is refused, what is noticed, and what holds when things go wrong."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import apsw.sqlite_extra
import pytest
from stores import BACKENDS, bodies, database, opened, put, serving

from lcm_mcp.errors import (
    NotAStore,
    StoreDamaged,
    StoreError,
    StoreTooNew,
    StoreUnavailable,
)
from lcm_mcp.service.doctoring import repair
from lcm_mcp.storage import integrity, schema
from lcm_mcp.storage.connections import Store

NEEDLE = "a text that stands in the file in plain bytes"
NOBODY = 65534


@pytest.fixture(params=BACKENDS)
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def fingerprint(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def flip(path: Path, position: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[position] ^= 0x10
    path.write_bytes(raw)


async def read_everything(path: Path) -> list[str]:
    """All texts. Raises StoreError, also where only the check of the structure finds the fault."""
    async with opened(path) as store:
        found = await store.read(bodies)
        if faults := await store.read(integrity.faults):
            raise StoreDamaged(str(path), faults[0])
        return found


@pytest.fixture
def open_umask() -> Generator[None]:
    """A process whose files would be everyone's, if nobody took care."""
    before = os.umask(0)
    yield
    os.umask(before)


# --- whose it is


@pytest.mark.usefixtures("open_umask")
async def test_file_folder_and_side_files_belong_to_their_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "data" / "lcm.sqlite"
    async with opened(path) as store:
        await store.write(put, NEEDLE)
        assert mode(path.parent) == 0o700
        files = {each.name: mode(each) for each in path.parent.iterdir()}
        assert files == {"lcm.sqlite": 0o600, "lcm.sqlite-wal": 0o600, "lcm.sqlite-shm": 0o600}
    assert [each.name for each in path.parent.iterdir()] == ["lcm.sqlite"]


async def test_a_file_that_exists_keeps_its_content_and_its_mode(store_path: Path) -> None:
    async with opened(store_path) as store:
        await store.write(put, NEEDLE)
    store_path.chmod(0o640)
    assert await read_everything(store_path) == [NEEDLE]
    assert mode(store_path) == 0o640


# --- what is noticed


async def test_a_flipped_byte_of_a_text_is_reported_and_never_read(store_path: Path) -> None:
    async with opened(store_path) as store:
        if not store.checksummed:
            pytest.skip("this build of apsw has no cksumvfs")
        await store.write(put, *(f"{n}: {NEEDLE}" for n in range(500)))
    flip(store_path, store_path.read_bytes().index(f"250: {NEEDLE}".encode()) + 20)
    async with opened(store_path) as store:
        with pytest.raises(StoreDamaged, match=r"fails its checksum.*doctor"):
            await store.read(bodies)
        assert await store.read(lambda db: db.execute("SELECT count(*) FROM session").get) == 0
    async with serving(store_path) as service:
        diagnosis = await service.doctor()
        assert not diagnosis.healthy
        (fault,) = [check for check in diagnosis.checks if not check.ok and check.name == "integrity"]
        assert "restore a backup" in fault.detail.lower() or "doctor --repair" in fault.detail


async def test_a_flipped_byte_anywhere_is_reported_or_harmless(store_path: Path) -> None:
    wanted = [f"{n}: {NEEDLE}" * 3 for n in range(200)]
    async with opened(store_path) as store:
        if not store.checksummed:
            pytest.skip("this build of apsw has no cksumvfs")
        await store.write(put, *wanted)
    chance = random.Random(20)
    reported = 0
    for position in chance.sample(range(store_path.stat().st_size), 60):
        flip(store_path, position)
        try:
            # A page that nothing uses may be read or not, but what is read is right.
            assert await read_everything(store_path) == wanted
        except (StoreDamaged, NotAStore):
            reported += 1
        flip(store_path, position)
    assert reported > 50
    assert await read_everything(store_path) == wanted


async def test_every_flipped_byte_of_the_header_is_reported_or_harmless(store_path: Path) -> None:
    async with opened(store_path) as store:
        if not store.checksummed:
            pytest.skip("this build of apsw has no cksumvfs")
        await store.write(put, NEEDLE)
    whole = store_path.read_bytes()
    reported = 0
    for position in range(100):
        flip(store_path, position)
        try:
            assert await read_everything(store_path) == [NEEDLE], position
        except (StoreDamaged, NotAStore, StoreTooNew):
            reported += 1
        store_path.write_bytes(whole)
    assert reported > 90
    assert await read_everything(store_path) == [NEEDLE]


async def test_a_truncated_file_is_reported(store_path: Path) -> None:
    async with opened(store_path) as store:
        await store.write(put, *(f"{n}: {NEEDLE}" for n in range(2000)))
    whole = store_path.read_bytes()
    for size in (len(whole) - schema.PAGE_BYTES, len(whole) // 2, 3 * schema.PAGE_BYTES, 512, 100):
        store_path.write_bytes(whole[:size])
        with pytest.raises(StoreDamaged):
            await read_everything(store_path)


# --- what is refused


def refused(path: Path, error: type[StoreError], match: str) -> None:
    """Opening is refused with that error, and every byte of the file stays."""
    before = path.read_bytes()
    with pytest.raises(error, match=match) as caught:
        Store.open(path)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_file_of_a_newer_version_is_refused_untouched(store_path: Path) -> None:
    with database(store_path) as db:
        db.pragma("user_version", schema.VERSION + 1)
    refused(store_path, StoreTooNew, f"version {schema.VERSION + 1}.*up to {schema.VERSION}.*Upgrade")


def test_the_database_of_another_program_is_refused_untouched(store_path: Path) -> None:
    with closing(sqlite3.connect(store_path)) as db:
        db.execute("CREATE TABLE recipes(name)")
        db.commit()
    refused(store_path, NotAStore, "not a store of lcm-mcp.*--db or LCM_DB")


def test_the_database_of_another_program_with_a_version_of_its_own_is_refused(store_path: Path) -> None:
    with closing(sqlite3.connect(store_path)) as db:
        db.execute("PRAGMA application_id = 1234")
        db.execute("PRAGMA user_version = 99")
        db.execute("CREATE TABLE recipes(name)")
        db.commit()
    refused(store_path, NotAStore, "not a store of lcm-mcp")


@pytest.mark.parametrize("text", ["text", "a text file\n" * 3, "a text file\n" * 5000, "SQLite format 3\x00"])
def test_a_file_that_is_no_database_is_refused_untouched(store_path: Path, text: str) -> None:
    store_path.write_text(text)
    refused(store_path, NotAStore, "not a store of lcm-mcp")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match=r"it is a folder\. Name another file with --db"):
        Store.open(tmp_path)


def test_a_file_for_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(StoreUnavailable, match="--db"):
        Store.open(tmp_path / "file" / "lcm.sqlite")


def test_what_is_no_ordinary_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path(os.devnull)):
        with pytest.raises(StoreUnavailable, match=r"it is no ordinary file\. Name another file with --db"):
            Store.open(path)


async def test_a_link_is_followed_to_where_a_store_is_or_is_to_be(tmp_path: Path, store_path: Path) -> None:
    link, round_about = tmp_path / "link", tmp_path / "round"
    link.symlink_to(store_path)
    for _ in range(2):
        async with opened(link) as store:
            await store.write(put, NEEDLE)
    async with opened(store_path) as store:
        assert await store.read(bodies) == [NEEDLE, NEEDLE]
    assert link.is_symlink()
    round_about.symlink_to(round_about)
    with pytest.raises(StoreUnavailable, match="--db"):
        Store.open(round_about)


async def test_an_empty_file_becomes_a_store(store_path: Path) -> None:
    store_path.touch()
    async with opened(store_path) as store:
        assert store.checksummed == (apsw.sqlite_extra.has("cksumvfs") is not None)
        await store.write(put, NEEDLE)
        assert await store.read(bodies) == [NEEDLE]


_AS_NOBODY = """
import os, sys
from pathlib import Path
from lcm_mcp.errors import StoreError
from lcm_mcp.storage.connections import Store
if os.geteuid() == 0:
    os.setgid({nobody})
    os.setuid({nobody})
try:
    Store.open(Path(sys.argv[1]))
except StoreError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize(
    ("folder_mode", "file_mode"), [(0o555, None), (0o555, 0o444), (0o777, 0o444), (0o000, 0o666)]
)
async def test_a_place_without_permission_is_refused(folder_mode: int, file_mode: int | None) -> None:
    # A folder of its own: pytest's are closed to the user without rights that root has to become.
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "place"
        place.mkdir()
        path = place / "lcm.sqlite"
        if file_mode is not None:
            async with opened(path) as store:
                await store.write(put, NEEDLE)
            path.chmod(file_mode)
        Path(folder).chmod(0o755)
        place.chmod(folder_mode)
        said = subprocess.run(
            [sys.executable, "-c", _AS_NOBODY.format(nobody=NOBODY), str(path)],
            capture_output=True,
            text=True,
            check=True,
        )
        place.chmod(0o755)
    assert said.stdout.startswith(f"StoreUnavailable {path}: "), said.stderr
    assert "--db" in said.stdout


# --- what another program did to the file

_LEAVE_A_WAL = """
import os, signal, sys
from pathlib import Path
import anyio
from lcm_mcp.service import Service
from lcm_mcp.settings import Settings

async def main():
    service = Service.open(Settings(db=Path(sys.argv[1])))
    await service.append("s", [{"role": "user", "content": f"row {n}"} for n in range(50)])
    os.kill(os.getpid(), signal.SIGKILL)

anyio.run(main)
"""
_LOOK = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.execute("SELECT count(*) FROM text").fetchone()
db.close()
"""


def run(code: str, path: Path) -> int:
    return subprocess.run([sys.executable, "-c", code, str(path)], check=False).returncode


async def test_a_file_that_a_program_without_checksums_wrote_is_mended_and_whole(store_path: Path) -> None:
    assert run(_LEAVE_A_WAL, store_path) == -signal.SIGKILL
    assert run(_LOOK, store_path) == 0  # closes it last and moves the WAL into it, without checksums
    if Store.is_sound(store_path):
        pytest.skip("this build of apsw has no cksumvfs")
    damaged = store_path.read_bytes()
    with pytest.raises(StoreDamaged, match="another program wrote the file"):
        await read_everything(store_path)
    assert "Checksums were rewritten" in repair(store_path)
    assert await read_everything(store_path) == [f"row {n}" for n in range(50)]
    (copy,) = store_path.parent.glob("*.before-repair")
    assert copy.read_bytes() == damaged
    assert mode(copy) == mode(store_path) == 0o600
    async with serving(store_path) as service:
        assert (await service.doctor()).healthy
        receipt = await service.append("s", [{"role": "user", "content": "one more"}])
        assert receipt.refs == ("e51",)
    assert "nothing to repair" in repair(store_path)


async def test_a_broken_structure_is_not_mended(store_path: Path) -> None:
    async with opened(store_path) as store:
        await store.write(put, *(f"{n}: {NEEDLE}" for n in range(2000)))
    whole = store_path.read_bytes()
    store_path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(StoreUnavailable, match="broken beyond its checksums"):
        repair(store_path)
    assert store_path.read_bytes() == whole[: len(whole) // 2]


async def test_a_second_store_of_one_process_leaves_the_locks_of_the_first(store_path: Path) -> None:
    async with opened(store_path) as store:
        await store.write(put, "one")
        async with opened(store_path):
            pass
        # Without our locks, an older SQLite that closes last would delete our WAL.
        assert run(_LOOK, store_path) == 0
        assert Path(f"{store_path}-wal").exists()
        await store.write(put, "two")
    assert await read_everything(store_path) == ["one", "two"]
