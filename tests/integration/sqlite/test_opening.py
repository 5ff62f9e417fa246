"""Files that are opened, and files that are refused untouched."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from backstay.errors import InvalidSetting, StoreTooNew, StoreUnavailable
from backstay.sql.migrations import load_migrations
from backstay.sql.sqlite import schema
from backstay.store.base import Report
from backstay.store.sqlite import SqliteStore
from backstay.testing import ManualClock
from tests.integration.sqlite.file import OpenStore, change, rows


async def test_a_store_of_a_newer_release_is_refused_and_not_touched(path: Path, opened: OpenStore):
    await (await opened()).close()
    change(path, "INSERT INTO migration VALUES (999, 'from_the_future', 'x')")
    before = rows(path)

    with pytest.raises(StoreTooNew, match="the store has schema 999"):
        await SqliteStore(f"sqlite:///{path}").open()

    assert rows(path) == before


async def test_a_store_whose_migration_was_edited_is_refused_and_not_touched(path: Path, opened: OpenStore):
    await (await opened()).close()
    change(path, "UPDATE migration SET checksum = 'another' WHERE number = 1")
    before = rows(path)

    with pytest.raises(StoreUnavailable, match="migration 0001"):
        await SqliteStore(f"sqlite:///{path}").open()

    assert rows(path) == before


async def test_a_file_that_is_no_database_is_refused_and_not_touched(path: Path):
    path.write_bytes(b"these are my notes\n" * 100)

    with pytest.raises(StoreUnavailable, match="file is not a database"):
        await SqliteStore(f"sqlite:///{path}").open()

    assert path.read_bytes().startswith(b"these are my notes")


@pytest.mark.parametrize("name", ["task", "migration"])
async def test_a_file_with_a_table_of_the_application_in_our_place_is_refused_and_not_touched(
    path: Path, name: str
):
    change(path, f"CREATE TABLE {name} (title TEXT)")
    before = rows(path)

    with pytest.raises(StoreUnavailable, match=f"names that the store needs: {name}; keep the store in"):
        await SqliteStore(f"sqlite:///{path}").open()

    assert rows(path) == before


@pytest.fixture
async def of_the_first_release(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that knows the first migration only, with somebody in it."""
    first = load_migrations("backstay.store.sqlite")[:1]
    with monkeypatch.context() as patch:
        patch.setattr(schema, "load_migrations", lambda _package: first)
        store = SqliteStore(f"sqlite:///{path}")
        await store.open()
        await store.close()
    change(path, "INSERT INTO instance VALUES ('old', 1, 1, 'box', 7, '[[\"ship\", 1]]', 0, 0)")


async def test_a_store_of_an_earlier_release_keeps_what_it_holds_and_learns_the_rest(
    of_the_first_release: None, opened: OpenStore, clock: ManualClock
):
    store = await opened()

    [old] = await store.instances()
    assert (old.id, old.runs, old.roles, old.report) == ("old", (("ship", 1),), (), Report())
    leader = await store.supervision.lead("new", lease=timedelta(seconds=15), now=clock.now())
    assert (leader.holder, leader.epoch) == ("new", 1)


async def test_a_table_of_the_application_that_a_later_release_needs_is_not_touched(
    of_the_first_release: None, path: Path
):
    change(path, "CREATE TABLE token (mine TEXT)")
    before = rows(path)

    with pytest.raises(StoreUnavailable, match="names that the store needs: token; keep the store in"):
        await SqliteStore(f"sqlite:///{path}").open()

    assert rows(path) == before


async def test_a_store_lives_beside_other_tables_of_the_application(path: Path, opened: OpenStore):
    change(path, "CREATE TABLE orders (id TEXT)")

    await (await opened()).close()
    await (await opened()).close()


async def test_a_folder_that_does_not_exist_is_named(tmp_path: Path):
    with pytest.raises(StoreUnavailable, match=r"store\.db: unable to open database file"):
        await SqliteStore(f"sqlite:///{tmp_path}/nowhere/store.db").open()


@pytest.mark.parametrize("url", ["", "store.db", "sqlite:///", "sqlite:store.db", "postgresql://host/db"])
def test_another_kind_of_address_is_refused(url: str):
    with pytest.raises(InvalidSetting, match=r"write sqlite:///relative\.db or sqlite:////absolute/path\.db"):
        SqliteStore(url)
