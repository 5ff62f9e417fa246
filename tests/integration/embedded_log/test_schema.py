"""No query of the log reads more rows than it must, and none is there for nothing."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import backstay.messaging.embedded
from backstay.messaging.embedded.batch import prepare
from backstay.messaging.embedded.rows import EVENT_BYTES, OFFSET_BITS, headers_of, size_of
from backstay.runtime import backup
from backstay.sql.queries import load_queries
from backstay.sql.sqlite.connection import connect
from backstay.sql.sqlite.schema import migrate
from backstay.testing.promises.feed import Feed

PACKAGE = "backstay.messaging.embedded"
FOLDER = Path(backstay.messaging.embedded.__file__).parent
QUERIES = load_queries(PACKAGE)
FRAGMENTS = {"batch_trigger", "batch_view", "event_bytes", "stream_columns"}
#: Who copies a log reads of all its partitions where they begin and end.
FOR_COPIES = {"partition_bounds"}
LISTS = {"events", "ids", "moved", "names", "places", "seen", "starts", "streams", "wanted"}
#: Of the trigger that writes a batch.
PARTS = {"check_seen", "put_events", "put_ends", "put_ids"}
WIDTHS = {"insert_partitions": 2, "insert_events": 6, "insert_ids": 5}


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    database = connect(tmp_path / "schema.db", readonly=False)
    migrate(database, PACKAGE)
    prepare(database, QUERIES)
    yield database
    database.close()


def plan_of(database: sqlite3.Connection, query: str) -> list[str]:
    """How SQLite will go about a query."""
    width = WIDTHS.get(query, 0)
    text = QUERIES[query].replace("{rows}", f"({', '.join('?' * width)})")
    if query in PARTS:
        text = re.sub(r"RAISE\(ABORT, ('[^']*')\)", r"\1", text.replace("NEW.", ":"))
    values: Any = {name: "[]" if name in LISTS else 1 for name in re.findall(r":(\w+)", text)}
    return [row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {text}", values or [1] * width)]


@pytest.mark.parametrize("query", sorted(set(QUERIES) - FRAGMENTS - FOR_COPIES))
def test_no_query_walks_through_a_whole_table(database: sqlite3.Connection, query: str):
    walks = [
        line
        for line in plan_of(database, query)
        if re.match(r"SCAN (?!wanted|moved|seen|json_each|CONSTANT|\(subquery)", line)
        or "TEMP B-TREE" in line
        or "AUTOMATIC" in line
    ]
    assert walks == []


@pytest.mark.parametrize(
    ("query", "index"),
    [
        ("read_events", "SEARCH event USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"),
        ("oldest_events", "SEARCH later USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"),
        ("first_events", "SEARCH event USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"),
        ("delete_events", "SEARCH event USING INTEGER PRIMARY KEY (rowid=?)"),
        ("find_ids", "SEARCH known_id USING PRIMARY KEY (slot_key=? AND id=?)"),
        ("find_ids", "SEARCH id_slot USING COVERING INDEX id_slot_stream (stream_key=?)"),
        ("past_slot", "SEARCH id_slot USING COVERING INDEX id_slot_stream (stream_key=? AND until<?)"),
        ("check_seen", "SEARCH stream USING INTEGER PRIMARY KEY (rowid=?)"),
        ("check_seen", "SEARCH partition USING INDEX sqlite_autoindex_partition_1 (stream_key=?)"),
        ("put_ends", "SEARCH partition USING INTEGER PRIMARY KEY (rowid=?)"),
        ("states", "SEARCH stream USING INDEX sqlite_autoindex_stream_1 (name=?)"),
    ],
)
def test_a_query_that_runs_all_the_time_goes_by_its_index(
    database: sqlite3.Connection, query: str, index: str
):
    assert index in plan_of(database, query)


def test_every_query_is_used():
    code = "".join(file.read_text("utf-8") for file in [*FOLDER.rglob("*.py"), Path(backup.__file__)])
    texts = "".join(file.read_text("utf-8") for file in (FOLDER / "queries").glob("*.sql"))

    assert [name for name in QUERIES if f'"{name}"' not in code and f"{{{name}}}" not in texts] == []


async def test_python_and_sql_agree_on_what_an_event_counts_for(path: Path, feed: Feed):
    events = [
        feed.new("a"),
        feed.new("ä" * 100, key="ключ", id="e1"),
        feed.new({"b": 1}, key="k", headers={"source": "drône", "n": "1"}),
    ]
    for event in events:
        await feed.append(event)

    query = f"SELECT sum({QUERIES['event_bytes']}) FROM event"
    with connect(path, readonly=True) as database:
        [total] = database.execute(query).fetchone()
    database.close()
    assert total == (await feed.standing()).bytes == sum(size_of(one, headers_of(one)) for one in events)


def test_python_and_sql_agree_on_numbers():
    texts = "".join(file.read_text("utf-8") for file in (FOLDER / "queries").glob("*.sql"))

    assert set(re.findall(r"<< (\d+)", texts)) == {str(OFFSET_BITS)}
    assert QUERIES["event_bytes"].endswith(f" + {EVENT_BYTES}")
