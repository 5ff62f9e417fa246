"""A rotation that is killed in its middle: everything opens as before, and the next one finishes it."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from backstay.domain.sealing import Belonging, key_id_of
from backstay.jobroom import RESEALED_MAX
from backstay.vault import KeyFile, Vault
from tests.support.databases import Database, PostgresDatabase, SqliteDatabase
from tests.support.jobs import Calendar
from tests.support.running import LeapingClock, eventually
from tests.support.serve_command import environment

#: They are sealed in three batches; in the third one the rotation comes to a stand.
SECRETS = {f"place{number:04}": f"secret{number}" for number in range(2 * RESEALED_MAX + 200)}
STANDS_AT = f"place{2 * RESEALED_MAX + 100:04}"
BARE = {"type": "Http", "request": {"uri": "http://127.0.0.1:9/", "method": "GET"}}
SECONDS_MAX = 60

# Whoever changes that row computes for ever.
SQLITE_STAND = f"""
CREATE VIEW endless AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n;
CREATE TRIGGER stand BEFORE UPDATE ON job_sealed_secret WHEN NEW.place = '{STANDS_AT}'
BEGIN SELECT count(*) FROM endless; END;
"""
SQLITE_GO_ON = "DROP TRIGGER stand; DROP VIEW endless;"
# Whoever changes that row waits for a number that the test holds.
POSTGRES_STAND = f"""
CREATE FUNCTION stand() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_advisory_xact_lock(hashtext(TG_TABLE_SCHEMA)); RETURN NEW; END $$;
CREATE TRIGGER stand BEFORE UPDATE ON job_sealed_secret FOR EACH ROW WHEN (NEW.place = '{STANDS_AT}')
EXECUTE FUNCTION stand();
"""


def insert(database: Database, rows: list[tuple[int, str, str]]) -> None:
    if isinstance(database, SqliteDatabase):
        with closing(sqlite3.connect(database.path)) as connection, connection:
            connection.executemany("INSERT INTO job_sealed_secret VALUES (?, ?, ?)", rows)
    elif isinstance(database, PostgresDatabase):
        database.rows("SELECT 1")  # From here on the connection looks into this schema.
        database.look.cursor().executemany("INSERT INTO job_sealed_secret VALUES (%s, %s, %s)", rows)


@contextmanager
def standing(database: Database) -> Iterator[None]:
    """Whoever seals all secrets comes to a stand before the last ones."""
    if isinstance(database, SqliteDatabase):
        with closing(sqlite3.connect(database.path)) as connection:
            connection.executescript(SQLITE_STAND)
        yield
        with closing(sqlite3.connect(database.path)) as connection:
            connection.executescript(SQLITE_GO_ON)
    elif isinstance(database, PostgresDatabase):
        database.rows("SELECT 1")
        database.look.execute(POSTGRES_STAND)
        with psycopg.connect(database.server.url(), autocommit=True) as held:
            held.execute("SELECT pg_advisory_lock(hashtext(%s))", (database.schema,))
            yield


class Rotation:
    """``backstay store rotate-key`` as a process of its own."""

    def __init__(self, database: Database, key: Path) -> None:
        self._command = [sys.executable, "-m", "backstay", "store", "rotate-key", "--json"]
        self._command += ["--store", database.url]
        self._variables = environment(BACKSTAY_SECRET_KEY_FILE=str(key))
        self._folder = key.parent

    @contextmanager
    def killed(self) -> Iterator[None]:
        """It is killed at the end of the context, in which it must not have ended by itself."""
        with subprocess.Popen(
            self._command, cwd=self._folder, env=self._variables, stdout=subprocess.DEVNULL
        ) as process:
            try:
                yield
            finally:
                process.kill()
        assert process.returncode == -signal.SIGKILL

    def done(self, *options: str) -> Any:
        said = subprocess.run(
            [*self._command, *options],
            cwd=self._folder,
            env=self._variables,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
        assert said.returncode == 0, said.stderr
        return json.loads(said.stdout)


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return tmp_path / "keys"


@pytest.fixture
async def uid(database: Database, key: Path) -> str:
    """Of a job that has all those secrets."""
    vault, clock = Vault(file=KeyFile(key)), LeapingClock()
    store = database.store(vault=vault)
    await store.open()
    calendar = Calendar(store)
    await calendar.open(clock.now())
    job = await calendar.put("j", {"action": BARE, "startTime": "2090-01-01T00:00:00Z"}, now=clock.now())
    await store.close()
    insert(
        database,
        [(job.key, place, vault.seal(one, Belonging(job.uid, place))) for place, one in SECRETS.items()],
    )
    return job.uid


async def opened(database: Database, key: Path, uid: str) -> dict[str, str]:
    """All secrets, by a process that has just started."""
    store = database.store(vault=Vault(file=KeyFile(key)))
    await store.open()
    try:
        [[job_key]] = database.rows("SELECT key FROM job")
        return dict(await store.jobs.secrets(job_key, uid=uid))
    finally:
        await store.close()


def sealed_by(database: Database) -> Counter[str]:
    """How many secrets each key has sealed."""
    return Counter(key_id_of(one) for (one,) in database.rows("SELECT sealed FROM job_sealed_secret"))


async def kill_in_the_middle(rotation: Rotation, database: Database, old: str) -> None:
    async def left() -> int:
        return sealed_by(database)[old]

    two_batches_less = len(SECRETS) - 2 * RESEALED_MAX
    with standing(database), rotation.killed():
        await eventually(
            left, lambda number: number == two_batches_less, what="two batches", seconds=SECONDS_MAX
        )


@pytest.mark.parametrize("options", [["--resume"], []], ids=["resumed", "rotated-again"])
async def test_a_rotation_that_was_killed_loses_nothing_and_is_finished_by_the_next(
    database: Database, key: Path, uid: str, options: list[str]
):
    [old] = KeyFile(key).keys()
    rotation = Rotation(database, key)

    await kill_in_the_middle(rotation, database, old.id)

    new = KeyFile(key).keys()[0].id
    assert sealed_by(database) == {new: 2 * RESEALED_MAX, old.id: 200}
    assert await opened(database, key, uid) == SECRETS

    said = rotation.done(*options)

    last = KeyFile(key).keys()[0].id
    anew = 200 if options else len(SECRETS)
    assert said == {"key": last, "made": not options, "sealed": anew, "unopened": 0}
    assert (last == new) is bool(options)
    assert sealed_by(database) == {last: len(SECRETS)}
    keep_only_the_first_key(key)
    [left] = KeyFile(key).keys()
    assert left.id == last
    assert await opened(database, key, uid) == SECRETS


def keep_only_the_first_key(key: Path) -> None:
    [first, *_] = [line for line in key.read_text().splitlines() if not line.startswith("#")]
    key.write_text(f"{first}\n")
