"""What was in a file before a migration is there after it, and means the same."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from backstay.domain.audit import Act
from backstay.sql.migrations import Migration, load_migrations
from backstay.sql.sqlite import schema
from backstay.sql.sqlite.connection import connect
from backstay.store.records import AlertFilter
from backstay.store.sqlite import SqliteStore
from backstay.testing import ManualClock
from backstay.testing.promises.calendar import Calendar
from backstay.testing.promises.holder import Holder
from backstay.testing.promises.mail import Mail, ids

#: The last one before queues had a bound.
BEFORE_BOUNDS = 6
#: The last one before readers shared a partition.
BEFORE_SLOTS = 8
#: The last one before secrets were sealed.
BEFORE_SEALS = 10
#: The last one before there were jobs.
BEFORE_JOBS = 9

QUEUES = """
INSERT INTO queue VALUES (7, 'orders', 60000000, 10, 600000000, NULL, 0, 0, 0);
INSERT INTO message (sequence, queue_key, id, properties, priority, state, rank, enqueued_at, body)
VALUES (3, 7, 'm3', '{}', 0, 'ready', 0, 0, x'31'), (9, 7, 'gone', '{}', 0, 'ready', 1, 1, x'31');
INSERT INTO message (sequence, queue_key, id, properties, priority, state, rank, enqueued_at, reason, dead_at,
                     body)
VALUES (4, 7, 'm4', '{}', 0, 'dead', 0, 0, 'no', 0, x'31');
DELETE FROM message WHERE sequence = 9;
INSERT INTO alert (kind, target, message, at) VALUES ('submission_conflict', 'queue:orders', 'which one?', 0);
"""


GROUPS = """
INSERT INTO checkpoint (stream, grp, partition, checkpoint, log, holder, epoch, updated_at)
VALUES ('orders', 'billing', 0, 7, 'log', 'gone', 2, 0), ('orders', 'billing', 1, NULL, 'log', NULL, 0, 0);
"""


@pytest.fixture
def wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int, str], Path]:
    """Writes a store as a release wrote it that knew so many migrations."""

    def write(number: int, content: str) -> Path:
        path = tmp_path / "old.db"
        with monkeypatch.context() as before:
            known = _up_to(number, load_migrations("backstay.store.sqlite"))
            before.setattr(schema, "load_migrations", lambda _package: known)
            connection = connect(path, readonly=False)
            schema.migrate(connection, "backstay.store.sqlite")
        connection.executescript(content)
        connection.close()
        return path

    return write


def _up_to(number: int, migrations: list[Migration]) -> list[Migration]:
    return [one for one in migrations if one.number <= number]


async def test_messages_and_alerts_survive_and_numbers_go_on(wrote: Callable[[int, str], Path]):
    old_file = wrote(BEFORE_BOUNDS, QUEUES)
    store = SqliteStore(f"sqlite:///{old_file}")
    await store.open()
    mail = Mail(store.queues, ManualClock())

    [queue] = await store.queues.standings(limit=9, counted=9)
    assert (queue.queue.max_messages, queue.ready, queue.dead) == (1_000_000, 1, 1)
    assert [one.message for one in await store.records.alerts(AlertFilter(open_only=True))] == ["which one?"]
    sent = await mail.send("a", id="m10")

    assert sent.sequence == 10  # 9 was given to one that is gone.
    assert ids(await mail.receive()) == ["m3", "m10"]
    assert ids(await mail.dead()) == ["m4"]
    act = Act(who="me", action="resubmit", target="queue:orders")
    assert await store.queues.resubmit("orders", None, limit=9, act=act, now=mail.now) == [11]
    await store.close()


async def test_a_store_without_messages_goes_on_counting_too(wrote: Callable[[int, str], Path]):
    old_file = wrote(BEFORE_BOUNDS, QUEUES)
    with sqlite3.connect(old_file) as connection:
        connection.execute("DELETE FROM message")

    store = SqliteStore(f"sqlite:///{old_file}")
    await store.open()

    assert (await Mail(store.queues, ManualClock()).send("a")).sequence == 10
    await store.close()


async def test_groups_go_on_reading_where_they_were(wrote: Callable[[int, str], Path]):
    old_file = wrote(BEFORE_SLOTS, GROUPS)

    store = SqliteStore(f"sqlite:///{old_file}")
    await store.open()

    standings = await store.groups.standings("orders")
    assert [(one.unit, one.checkpoint, one.epoch) for one in standings] == [((0, 0), 7, 2), ((1, 0), None, 0)]
    await store.close()
    with (
        closing(sqlite3.connect(old_file)) as connection,
        pytest.raises(sqlite3.IntegrityError, match="a checkpoint never moves back"),
    ):
        connection.execute("UPDATE checkpoint SET checkpoint = 6 WHERE partition = 0")


async def test_a_store_that_knew_no_jobs_takes_some(wrote: Callable[[int, str], Path]):
    old_file = wrote(BEFORE_JOBS, GROUPS)
    clock = ManualClock()

    store = SqliteStore(f"sqlite:///{old_file}")
    await store.open()

    calendar = Calendar(store, clock, (await Holder.joined(store, clock, "new")).owner)
    await calendar.collect()
    await calendar.put()
    assert (await calendar.fired()).occurrences == 1
    assert len(await store.groups.standings("orders")) == 2
    await store.close()


async def test_secrets_in_plain_text_are_sealed_and_leave_no_trace_in_the_file(
    wrote: Callable[[int, str], Path],
):
    old_file = wrote(
        BEFORE_SEALS,
        """
INSERT INTO job (key, collection_key, name, name_folded, uid, generation, state, catch_up, overlap,
                 created_at, updated_at, occurrences, executions, failures, faults, entries, definition)
VALUES (1, 1, 'j', 'j', 'uid1', 1, 'enabled', 'one', 'skip', 0, 0, 0, 0, 0, 0, 0, '{}');
INSERT INTO job_secret VALUES (1, 'action.queueMessage.sasToken', 'pl4nted');
""",
    )
    store = SqliteStore(f"sqlite:///{old_file}")
    await store.open()

    assert await store.jobs.secrets(1, uid="uid1") == {"action.queueMessage.sasToken": "pl4nted"}
    files = b"".join(file.read_bytes() for file in old_file.parent.glob("old.db*"))
    await store.close()
    assert b"pl4nted" not in files
