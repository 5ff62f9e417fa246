"""Named queries out of .sql files."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from backstay.store.sqlfile import load_queries, parse


def test_a_file_is_cut_at_the_names_and_keeps_their_order():
    text = "-- name: second\nSELECT 2;\n\n-- name: first\nSELECT 1;\n"

    assert parse(text) == [("second", "SELECT 2"), ("first", "SELECT 1")]


def test_comments_say_why_and_are_not_sent_to_the_database():
    text = (
        "-- A file may begin with words.\n-- name: q\n-- Why it is so.\nSELECT a,\n  -- and this too\n  b;\n"
    )

    assert parse(text) == [("q", "SELECT a,\n  b")]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An importable package, some_dialect, with an empty folder of queries."""
    folder = tmp_path / "some_dialect" / "queries"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    sys.modules.pop("some_dialect", None)


def test_a_query_may_stand_for_its_text_in_another_even_in_another_file(package: Path):
    (package / "a.sql").write_text("-- name: read\nSELECT {columns} FROM t;\n")
    (package / "b.sql").write_text("-- name: columns\na, b\n")

    assert load_queries("some_dialect")["read"] == "SELECT a, b FROM t"


def test_two_queries_of_one_name_are_refused(package: Path):
    (package / "a.sql").write_text("-- name: q\nSELECT 1;\n")
    (package / "b.sql").write_text("-- name: q\nSELECT 2;\n")

    with pytest.raises(ValueError, match=r"two queries are called 'q' \(the second is in b.sql\)"):
        load_queries("some_dialect")


def test_a_reference_to_a_query_that_does_not_exist_is_noticed_at_once(package: Path):
    (package / "a.sql").write_text("-- name: q\nSELECT {nothing};\n")

    with pytest.raises(KeyError, match="nothing"):
        load_queries("some_dialect")


def test_no_query_that_ships_has_an_open_reference_or_ends_in_a_semicolon():
    queries = load_queries("backstay.store.sqlite")

    assert queries
    closed = {name: text.replace("{rows}", "") for name, text in queries.items()}
    assert not [name for name, text in closed.items() if "{" in text or text.endswith(";")]
