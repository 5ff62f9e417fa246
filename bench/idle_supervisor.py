"""What a supervisor costs that finds nothing to do, on a store with a million finished tasks."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg

from backstay.runtime import open_store
from backstay.settings import Settings

FINISHED = 1_000_000
WARM_UP_SECONDS = 5.0
SECONDS = 20.0

_COLUMNS = "id, workflow, version, state, input, output, attributes, created_at, updated_at"

_SQLITE = f"""
WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?)
INSERT INTO task ({_COLUMNS})
SELECT 'done-' || n, 'five', 1, 'processed', x'30', x'35', '{{}}', n, n FROM numbers
"""

_POSTGRES = """
INSERT INTO {schema}.task ({columns})
SELECT 'done-' || n, 'five', 1, 'processed', '0', '5', '{{}}', now(), now() FROM generate_series(1, %s) AS n
"""


async def fill(url: str) -> None:
    """A store with its schema, and finished tasks in bulk: what is measured is not how they came there."""
    store = open_store(Settings(store=url))
    await store.open()
    await store.close()
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection, connection:
            connection.execute(_SQLITE, (FINISHED,))
        return
    schema = parse_qs(urlsplit(url).query)["schema"][0]
    with psycopg.connect(url.partition("?")[0], autocommit=True) as server:
        server.execute(_POSTGRES.format(schema=schema, columns=_COLUMNS), (FINISHED,))
        server.execute("VACUUM ANALYZE")


def measure(url: str) -> dict[str, float]:
    """The share of one core that ``backstay serve --roles supervisor`` uses while nothing happens."""
    command = [sys.executable, "-m", "backstay", "serve", "--roles", "supervisor", "--store", url]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as supervisor:
        try:
            time.sleep(WARM_UP_SECONDS)
            begun, cpu = time.monotonic(), _cpu_seconds(supervisor.pid)
            time.sleep(SECONDS)
            share = (_cpu_seconds(supervisor.pid) - cpu) / (time.monotonic() - begun)
        finally:
            supervisor.terminate()
    return {"finished_tasks": FINISHED, "seconds": SECONDS, "percent_of_a_core": round(share * 100, 2)}


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
