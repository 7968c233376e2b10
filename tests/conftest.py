"""What all tests share: a home of their own, the real conversations, and a watch for leaks.

No test reads or writes the developer's store or settings, and none depends on variables set outside.
A test that leaves a thread running or a database open fails, by name.
"""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import apsw
import pytest

_ROOT = Path(__file__).resolve().parent.parent
_DATA = _ROOT.parent / "shared" / "data"


@pytest.fixture(scope="session", autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An empty home for the whole run, without any LCM_ variable."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("LCM_")]:
            patch.delenv(name)
        for name in ("HOME", "USERPROFILE", "LOCALAPPDATA", "APPDATA"):
            patch.setenv(name, str(home))
        for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
            patch.setenv(name, str(home / name.lower()))
        yield home


@pytest.fixture
def anyio_backend() -> str:
    """asyncio, which MCP runs on; the tests of cancellation ask for trio too."""
    return "asyncio"


@pytest.fixture
def store_path(tmp_path: Path) -> Path:
    """Where a test's own store goes; nothing is there yet."""
    return tmp_path / "lcm.sqlite"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real conversations (`claude-code/`, `pi/` …) beside the checkout."""
    if not (_DATA / "claude-code").is_dir():
        pytest.skip("the shared conversations (../shared/data/claude-code) are not beside this checkout")
    return _DATA


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Fail a test that leaves behind a thread or an open database that was not there when it began."""
    threads, databases = set(threading.enumerate()), {id(each) for each in apsw.connections()}
    yield
    leaked = _threads_beyond(threads)
    assert not leaked, f"{item.name} left threads running: {leaked}"
    if _databases_beyond(databases):
        gc.collect()  # one that only a cycle of garbage still holds is no leak
    opened = _databases_beyond(databases)
    assert not opened, f"{item.name} left databases open: {opened}"


def _databases_beyond(known: set[int]) -> list[str]:
    return [each.filename for each in apsw.connections() if id(each) not in known]


def _threads_beyond(known: set[threading.Thread]) -> list[str]:
    """Names of new threads that keep the process alive; anyio's idle workers end with their loop."""
    deadline = time.monotonic() + 2
    while True:
        extra = [
            each.name
            for each in threading.enumerate()
            if each not in known and not each.daemon and each.name != "AnyIO worker thread"
        ]
        if not extra or time.monotonic() > deadline:
            return extra
        time.sleep(0.01)
