"""Followed files: whatever happens to them, a read knows every complete line that was ever in them."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest
from growing import add, caught_up, look, said, texts
from stores import serving

from lcm_mcp.errors import ImportRefused, SessionForgotten
from lcm_mcp.ids import SessionId
from lcm_mcp.service import Service
from lcm_mcp.service.passes import Compacted, Progress
from lcm_mcp.service.requests import GrepQuery, PrepareQuery
from lcm_mcp.transcript import followed


async def following(service: Service, path: Path, *lines: bytes, session: str | None = None) -> None:
    """Import a file of these lines, from which on it is followed."""
    path.write_bytes(b"".join(lines))
    await service.import_file(path, "neutral", session)


async def test_every_reading_call_knows_what_a_file_has_grown_by(tmp_path: Path, store_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    async with serving(store_path) as service:
        await following(service, path, said("one"))
        add(path, said("two"))
        assert [hit.ref for hit in (await service.grep(GrepQuery("two", session="talk"))).hits] == ["e2"]
        add(path, said("three"))
        assert (await service.list_nodes("talk")).leaf == "e3"
        add(path, said("four"))
        assert (await service.describe("e4", "talk")).row is not None
        add(path, said("five"))
        assert [row.text for row in (await service.expand("e5", "talk")).rows] == ["five"]
        add(path, said("six"))
        assert [line.rows for line in (await service.sessions()).sessions] == [6]
        add(path, said("seven"))
        assert len((await service.prepare(PrepareQuery("talk", compact="never"))).messages) == 1
        add(path, said("eight"))
        assert (await service.stats("talk")).rows == 8
        add(path, said("nine"))
        assert (await service.expand("s1/e9")).rows[0].text == "nine"


async def test_a_half_written_line_waits_for_its_end(tmp_path: Path, store_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    async with serving(store_path) as service:
        await following(service, path, said("one"))
        for byte in said("two"):
            add(path, bytes([byte]))
            assert await look(service) is None
            assert await texts(service) == (["one", "two"] if byte == ord("\n") else ["one"])


async def test_truncation_rotation_rewriting_and_deletion_lose_nothing(
    tmp_path: Path, store_path: Path
) -> None:
    path = tmp_path / "talk.jsonl"
    async with serving(store_path) as service:
        await following(service, path, said("one"), said("two"))
        path.write_bytes(said("three"))  # truncated, and written to again
        await caught_up(service)
        path.rename(tmp_path / "talk.jsonl.1")  # rotated
        path.write_bytes(said("four") + said("five"))
        await caught_up(service)
        path.write_bytes(said("zero") + said("four") + said("five"))  # rewritten
        await caught_up(service)
        assert await texts(service) == ["one", "two", "three", "four", "five", "zero"]
        path.unlink()
        assert await look(service) is None
        assert await texts(service) == ["one", "two", "three", "four", "five", "zero"]
        checks = {check.name: check for check in (await service.doctor()).checks}
        assert checks["following"].ok
        assert "1 gone, with nothing lost" in checks["following"].detail
        path.write_bytes(said("six"))
        assert await look(service) is None
        assert (await texts(service))[6:] == ["six"]


async def test_a_file_in_whose_place_something_else_stood_is_read_on_once_it_is_back(
    tmp_path: Path, store_path: Path
) -> None:
    path = tmp_path / "talk.jsonl"
    async with serving(store_path) as service:
        await following(service, path, said("one"))
        for stands in ("folder", "pipe", "link"):
            path.unlink()
            if stands == "folder":
                path.mkdir()
            elif stands == "pipe":
                os.mkfifo(path)
            else:
                path.symlink_to("/proc/self/mem")  # which opens, and refuses to be read
            behind = int(stands == "link")
            assert (await look(service) or "").count("1 followed file has more to read") == behind
            checks = {check.name: check for check in (await service.doctor()).checks}
            assert "1 with trouble: talk.jsonl: " in checks["following"].detail
            path.rmdir() if path.is_dir() else path.unlink()
            path.write_bytes(said("one") + said("two"))
            await caught_up(service)
            assert await texts(service) == ["one", "two"]
            checks = {check.name: check for check in (await service.doctor()).checks}
            assert checks["following"].detail == "1 file is followed"


@pytest.mark.parametrize("by", ["reading", "importing"])
async def test_a_line_inserted_into_a_file_without_ids_is_the_only_new_row(
    by: str, tmp_path: Path, store_path: Path
) -> None:
    path = tmp_path / "talk.jsonl"
    async with serving(store_path) as service:
        await following(service, path, said("ok"), said("two"), said("ok"))
        path.write_bytes(said("new") + said("ok") + said("two") + said("ok") + said("ok"))
        if by == "reading":
            await caught_up(service)
        else:
            report = (await service.import_file(path)).report
            assert (report.rows_added, report.duplicates, report.conflicts) == (2, 3, ())
        # Two equal turns were two, three are three: one more of them is new.
        assert await texts(service) == ["ok", "two", "ok", "new", "ok"]
        assert (await service.import_file(path)).report.rows_added == 0


async def test_a_file_that_is_written_anew_bit_by_bit_repeats_no_line(
    tmp_path: Path, store_path: Path
) -> None:
    path = tmp_path / "talk.jsonl"
    lines = [said(word) for word in ("new", "one", "two", "three")]
    async with serving(store_path) as service:
        await following(service, path, *lines[1:])
        path.write_bytes(b"")
        for line in lines:
            add(path, line)
            await caught_up(service)
        assert await texts(service) == ["one", "two", "three", "new"]


async def test_files_without_ids_in_one_session_keep_their_entries_apart(
    tmp_path: Path, store_path: Path
) -> None:
    first, second, copy = (tmp_path / f"{name}.jsonl" for name in ("a", "b", "c"))
    async with serving(store_path) as service:
        await following(service, first, said("hello"), said("ok"), session="both")
        await following(service, second, said("good day"), said("ok"), session="both")
        copy.write_bytes(first.read_bytes() + said("more"))
        report = (await service.import_file(copy, session="both")).report
        assert (report.rows_added, report.duplicates, report.conflicts) == (1, 2, ())
        add(second, said("and on"))
        await caught_up(service)
        assert await texts(service) == ["hello", "ok", "good day", "ok", "more", "and on"]


async def test_a_file_touched_or_replaced_by_its_copy_is_read_again_and_changes_nothing(
    tmp_path: Path, store_path: Path
) -> None:
    path = tmp_path / "talk.jsonl"
    async with serving(store_path) as service:
        await following(service, path, said("one"), said("two"))
        os.utime(path, (1, 1))
        assert await look(service) is None
        copy = tmp_path / "copy"
        copy.write_bytes(path.read_bytes() + said("three"))
        copy.replace(path)
        assert await look(service) is None
        assert await texts(service) == ["one", "two", "three"]


async def test_new_files_of_a_followed_folder_are_taken_in_once_something_is_in_them(
    tmp_path: Path, store_path: Path
) -> None:
    folder = tmp_path / "talks"
    (folder / "old").mkdir(parents=True)
    async with serving(store_path) as service:
        await following(service, folder / "old" / "a.jsonl", said("one"))
        await service.follow_folder(folder, "auto", None, fold=True)
        (folder / "new").mkdir()
        (folder / "new" / "b.jsonl").touch()
        (folder / "notes.txt").write_text("no transcript")
        assert await look(service) is None
        add(folder / "new" / "b.jsonl", said("two"))
        assert await look(service) is None
        add(folder / "old" / "c.jsonl", said("three"))
        assert await look(service) is None
        assert sorted(await texts(service)) == ["one", "three", "two"]


async def test_what_does_not_fit_into_the_time_of_a_read_is_said_and_comes_with_the_next(
    tmp_path: Path, store_path: Path
) -> None:
    path = tmp_path / "talk.jsonl"
    async with serving(store_path) as service:
        await following(service, path, said("one"))
        add(path, *(said(f"line {n} " + "word " * 2000) for n in range(4000)))
        page = await service.grep(GrepQuery("one", session="talk"))
        assert page.behind == ("1 followed file has more to read: call again, or run `lcm-mcp import`.")
        await caught_up(service)
        assert len(await texts(service)) == 4001


async def test_a_server_reads_on_what_no_read_had_time_for(tmp_path: Path, store_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    async with serving(store_path) as service, service.running():
        await following(service, path, said("one"))
        add(path, *(said(f"line {n} " + "word " * 2000) for n in range(4000)), said("x" * 9_000_000))
        assert "read beside the requests now" in (await look(service) or "")
        while len(await texts(service)) < 4002:  # nobody looks again
            await anyio.sleep(0.02)
        with anyio.fail_after(10):
            while await look(service) is not None:
                await anyio.sleep(0.02)


async def test_a_server_that_ends_while_it_reads_on_ends_well(tmp_path: Path, store_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    async with serving(store_path) as service, anyio.create_task_group() as tasks:
        read_on = anyio.Event()

        async def pass_that_goes_on(_progress: Progress, _deadline: float) -> Compacted:
            await read_on.wait()
            raise SessionForgotten(SessionId(99))

        async def end_once_all_is_read() -> None:
            while len(await texts(service)) < 4002 or await look(service) is not None:
                await anyio.sleep(0.02)
            read_on.set()

        async with service.running(finish=True):
            service.background.start(SessionId(99), pass_that_goes_on)
            await following(service, path, said("one"))
            add(path, *(said(f"line {n} " + "word " * 2000) for n in range(4000)), said("x" * 9_000_000))
            assert "read beside the requests now" in (await look(service) or "")
            before = len(await texts(service))
            while len(await texts(service)) == before:
                await anyio.sleep(0.01)
            tasks.start_soon(end_once_all_is_read)


async def test_a_busy_store_is_not_waited_for(tmp_path: Path, store_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    async with serving(store_path) as service, serving(store_path) as other:
        await following(service, path, said("one"))
        add(path, said("two"))
        writer = other.work.store._writer  # pyright: ignore[reportPrivateUsage]
        writer.execute("BEGIN IMMEDIATE")
        page = await service.expand("e1", "talk")
        writer.execute("ROLLBACK")
        assert (page.rows[0].text, page.behind is None) == ("one", False)
        assert await look(service) is None
        assert await texts(service) == ["one", "two"]


async def test_a_file_imported_by_mistake_as_what_it_is_not_is_followed_as_before(
    tmp_path: Path, store_path: Path
) -> None:
    path = tmp_path / "talk.jsonl"
    async with serving(store_path) as service:
        await following(service, path, said("one"), said("one"))
        with pytest.raises(ImportRefused, match="It looks like neutral: import it as that"):
            await service.import_file(path, "codex")
        add(path, said("two"))
        await caught_up(service)
        assert await texts(service) == ["one", "one", "two"]


async def test_a_file_of_another_format_than_was_said_is_refused_and_not_followed(
    tmp_path: Path, store_path: Path
) -> None:
    path = tmp_path / "talk.jsonl"
    path.write_bytes(said("one"))
    async with serving(store_path) as service:
        for _ in range(2):
            with pytest.raises(ImportRefused, match="It looks like neutral: import it as that"):
                await service.import_file(path, "codex")
        assert await service.work.store.read(followed.every) == []
        await service.import_file(path)
        add(path, said("two"))
        await caught_up(service)
        assert await texts(service) == ["one", "two"]


async def test_a_file_that_only_begins_is_followed_in_the_format_that_was_said(
    tmp_path: Path, store_path: Path
) -> None:
    path = tmp_path / "rollout.jsonl"
    path.write_bytes(b'{"type": "session_meta", "payload": {"id": "s", "cwd": "/p"}}\n')
    async with serving(store_path) as service:
        assert (await service.import_file(path, "codex")).sessions == ()
        assert [file.path for file in await service.work.store.read(followed.every)] == [str(path)]


async def test_a_file_imported_without_following_is_not_read_on(tmp_path: Path, store_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    path.write_bytes(said("one"))
    async with serving(store_path) as service:
        await service.import_file(path, follow=False)
        add(path, said("two"))
        await look(service)
        assert await texts(service) == ["one"]


async def test_grown_files_are_folded_beside_the_requests_where_passes_live_there(
    tmp_path: Path, store_path: Path
) -> None:
    path = tmp_path / "talk.jsonl"
    turns = [said(f"Do {n}. " * 300) for n in range(8)]
    async with serving(store_path) as service:
        await following(service, path, turns[0])
        add(path, *turns[1:4])
        await caught_up(service)
        assert (await service.list_nodes("talk")).total == 0
        async with service.background.running(finish=True):
            add(path, *turns[4:])
            await caught_up(service)
        assert (await service.list_nodes("talk")).total > 0
        assert (await service.doctor()).healthy


async def test_doctor_names_lines_of_followed_files_that_were_not_understood(
    tmp_path: Path, store_path: Path
) -> None:
    path = tmp_path / "talk.jsonl"
    async with serving(store_path) as service:
        await following(service, path, said("one"))
        add(path, b"no JSON\n", said("two"))
        await caught_up(service)
        checks = {check.name: check for check in (await service.doctor()).checks}
        assert "talk.jsonl: line 2 was not understood" in checks["following"].detail
        assert await texts(service) == ["one", "two"]
