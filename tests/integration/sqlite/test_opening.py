"""Files that are opened, and files that are refused untouched."""

from __future__ import annotations

from pathlib import Path

import pytest

from backstay.errors import InvalidSetting, StoreTooNew, StoreUnavailable
from backstay.store.sqlite import SqliteStore
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
