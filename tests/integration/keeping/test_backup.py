"""A copy of a store that is in use: whole, of one moment, and as good as the store itself."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from backstay import App
from backstay.domain.states import TaskState
from backstay.errors import BackstayError, Conflict, InvalidRequest, StoreUnavailable
from backstay.messaging.embedded import EmbeddedLog
from backstay.messaging.logs import streams_beside
from backstay.runtime.backup import back_up, fits
from backstay.settings import Settings
from backstay.sql.sqlite.backup import snapshot
from backstay.store.checking import check_store
from backstay.store.sqlite import SqliteStore
from tests.support.databases import PostgresDatabase

# What was copied with it lives until its lease is over: the lock of its process is in another folder.
QUICK = {"heartbeat": "250ms", "lease": "1s", "supervisor_period": "100ms"}
EVENTS = 300


def deliveries() -> App:
    app = App("deliveries")
    drone = app.agent("drone")

    @drone.step
    async def schedule(number: int) -> int:
        await asyncio.sleep(0.002)
        return number

    @drone.step
    async def pick_up(number: int) -> int:
        return number

    @app.workflow
    async def deliver(number: int) -> int:
        return await pick_up(await schedule(number))

    requests = app.stream("requests", partitions=2)
    source = requests.source(group="scheduler").map(lambda event: event.body)
    source.start(deliver, id=lambda number: f"event-{number}").checkpoint(every=10)
    return app


def quietly(_path: Path, _done: int, _all: int) -> None:
    pass


def copies(original: Path) -> set[str]:
    return {file.name for file in original.parent.glob("copy*")}


def settings_of(store: Path) -> Settings:
    return Settings.load({"store": f"sqlite:///{store}"}, environment={})


async def test_what_was_acknowledged_before_a_backup_under_load_ends_after_a_restore(tmp_path: Path):
    original, copy = tmp_path / "original.db", tmp_path / "elsewhere" / "copy.db"
    copy.parent.mkdir()
    app = deliveries()
    acknowledged: list[str] = []
    stop = asyncio.Event()

    async def submit() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            handle = await app.submit("deliver", number, id=f"task-{number}")
            acknowledged.append(handle.id)

    async with app.run(store=f"sqlite:///{original}", **QUICK):
        async with app.client(store=f"sqlite:///{original}") as client:
            stream = client.stream("requests")
            await asyncio.gather(*[stream.append(number) for number in range(1, EVENTS)])
        load = asyncio.create_task(submit())
        while len(acknowledged) < 50:
            await asyncio.sleep(0.005)
        before = [*acknowledged]
        await asyncio.to_thread(back_up, settings_of(original), copy, quietly)
        stop.set()
        await load

    again = deliveries()
    async with again.run(store=f"sqlite:///{copy}", **QUICK):
        for task_id in before:
            assert await again.handle(task_id).result(timeout=30)
        for number in range(1, EVENTS):
            assert await eventually_there(again, f"event-{number}") == number
    assert await faults_in(copy) == []


async def eventually_there(app: App, task_id: str) -> object:
    for _ in range(600):
        try:
            return await app.handle(task_id).result(timeout=30)
        except BackstayError:
            await asyncio.sleep(0.05)
    raise AssertionError(f"{task_id} is not there")


async def faults_in(path: Path) -> list[object]:
    store, log = SqliteStore(f"sqlite:///{path}"), EmbeddedLog(f"sqlite:///{streams_beside(path)}")
    await store.open()
    await log.open()
    try:
        return [*await check_store(store, log)]
    finally:
        await log.close()
        await store.close()


@pytest.fixture
async def original(tmp_path: Path) -> Path:
    path = tmp_path / "original.db"
    app = deliveries()
    async with app.run(store=f"sqlite:///{path}"):
        await app.submit("deliver", 1, id="one")
        assert await app.handle("one").result(timeout=20) == 1
    return path


def test_a_copy_is_for_its_owner_alone_and_needs_no_other_file(original: Path):
    copy = original.with_name("copy.db")

    written = back_up(settings_of(original), copy, quietly)

    assert (written.store, written.streams) == (str(copy), str(streams_beside(copy)))
    for file in (copy, streams_beside(copy)):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert not file.with_name(f"{file.name}-wal").exists()
        assert not file.with_name(f"{file.name}.partial").exists()
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("SELECT id, state FROM task").fetchall() == [("one", TaskState.PROCESSED)]


@pytest.mark.parametrize("taken", ["copy.db", "copy-streams.db", "copy.db.partial"])
def test_a_file_that_is_there_stays_as_it_is_and_nothing_else_is_made(original: Path, taken: str):
    there = original.with_name(taken)
    there.write_text("mine")
    before = copies(original)

    with pytest.raises(Conflict, match="already"):
        back_up(settings_of(original), original.with_name("copy.db"), quietly)

    assert there.read_text() == "mine"
    assert copies(original) == before


def test_a_backup_that_is_broken_off_leaves_nothing(original: Path):
    before = copies(original)

    def full(_path: Path, _done: int, _all: int) -> None:
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        back_up(settings_of(original), original.with_name("copy.db"), full)

    assert copies(original) == before


def test_a_copy_is_of_the_moment_at_which_it_began(original: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("backstay.sql.sqlite.backup.PAGES", 1)
    copy = original.with_name("copy.db")
    steps = 0

    def write_meanwhile(path: Path, _done: int, _all: int) -> None:
        nonlocal steps
        steps += 1
        if path == original:
            with closing(sqlite3.connect(original)) as connection, connection:
                connection.execute("UPDATE task SET workflow = workflow || '!' WHERE id = 'one'")

    back_up(settings_of(original), copy, write_meanwhile)

    assert steps > 20
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("SELECT workflow FROM task WHERE id = 'one'").fetchone() == ("deliver",)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_store_and_log_of_different_moments_do_not_fit(original: Path):
    """A checkpoint beyond the end of the log, or before its beginning, is of another moment."""
    log_path = streams_beside(original)
    with closing(sqlite3.connect(log_path)) as log, log:
        log.execute("UPDATE partition SET end_offset = 9, first_offset = 5")

    def fitting(checkpoint: int) -> bool:
        with closing(sqlite3.connect(original)) as connection, connection:
            connection.execute("DROP TRIGGER IF EXISTS checkpoint_goes_forward")
            connection.execute("UPDATE checkpoint SET checkpoint = ?", (checkpoint,))
        with snapshot(original) as store, snapshot(log_path) as log:
            return fits(store, log)

    assert [fitting(checkpoint) for checkpoint in (4, 5, 9, 10)] == [False, True, True, False]
    with pytest.raises(StoreUnavailable, match="store check"):
        back_up(settings_of(original), original.with_name("copy.db"), quietly)


def test_a_store_on_postgresql_is_pointed_to_its_own_tools(
    tmp_path: Path, postgres_database: PostgresDatabase
):
    settings = Settings.load({"store": postgres_database.url}, environment={})

    with pytest.raises(InvalidRequest, match="pg_dump"):
        back_up(settings, tmp_path / "copy.db", quietly)


def test_where_there_is_no_store_there_is_nothing_to_copy(tmp_path: Path):
    with pytest.raises(StoreUnavailable, match="there is no store"):
        back_up(settings_of(tmp_path / "none.db"), tmp_path / "copy.db", quietly)
