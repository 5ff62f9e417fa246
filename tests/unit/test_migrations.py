"""Numbered schema changes, each applied once and never edited afterwards."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from backstay.errors import StoreTooNew, StoreUnavailable
from backstay.sql.migrations import Migration, load_migrations, outstanding

ONE, TWO, THREE = (
    Migration(number, f"change_{number}", f"CREATE TABLE t{number} (a)") for number in (1, 2, 3)
)
KNOWN = [ONE, TWO, THREE]


def applied(*migrations: Migration) -> dict[int, str]:
    return {migration.number: migration.checksum for migration in migrations}


@pytest.mark.parametrize(
    ("there", "missing"),
    [((), KNOWN), ((ONE,), [TWO, THREE]), ((ONE, TWO), [THREE]), ((ONE, TWO, THREE), [])],
)
def test_what_a_store_does_not_have_yet_is_outstanding_in_order(
    there: tuple[Migration, ...], missing: list[Migration]
):
    assert outstanding(KNOWN, applied(*there)) == missing


def test_a_store_that_knows_more_than_this_release_is_too_new():
    with pytest.raises(StoreTooNew, match="the store has schema 4, this release knows 3: upgrade backstay"):
        outstanding(KNOWN, {**applied(*KNOWN), 4: "whatever"})


def test_a_migration_that_was_edited_after_it_was_applied_is_refused_by_name():
    with pytest.raises(StoreUnavailable, match=r"migration 0002 \(change_2\) of this store differs"):
        outstanding(KNOWN, {**applied(ONE), 2: "another checksum"})


def test_the_checksum_covers_every_character():
    assert Migration(1, "a", "SELECT 1").checksum != Migration(1, "a", "SELECT 1 ").checksum


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An importable package, some_backend, with an empty folder of migrations."""
    folder = tmp_path / "some_backend" / "migrations"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    sys.modules.pop("some_backend", None)


def test_migrations_are_read_from_their_folder_in_order_whatever_else_lies_there(package: Path):
    (package / "0002_more.sql").write_text("SELECT 2;")
    (package / "0001_first.sql").write_text("SELECT 1;")
    (package / "README.md").write_text("not a migration")

    assert load_migrations("some_backend") == [
        Migration(1, "first", "SELECT 1;"),
        Migration(2, "more", "SELECT 2;"),
    ]


@pytest.mark.parametrize(
    "names", [["0002_late.sql"], ["0001_a.sql", "0003_c.sql"], ["0001_a.sql", "0001_b.sql"]]
)
def test_a_gap_or_a_number_used_twice_is_noticed(package: Path, names: list[str]):
    for name in names:
        (package / name).write_text("SELECT 1;")

    with pytest.raises(ValueError, match="not numbered 1, 2, 3"):
        load_migrations("some_backend")


def test_the_migrations_that_ship_are_numbered_without_a_gap():
    assert [migration.number for migration in load_migrations("backstay.store.sqlite")][:1] == [1]
