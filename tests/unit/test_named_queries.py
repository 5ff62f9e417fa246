"""Named queries out of .sql files."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from backstay.sql.queries import Numbered, load_queries, numbered, parse, pyformat


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


def test_what_a_reference_stands_for_may_hold_references_itself(package: Path):
    (package / "a.sql").write_text(
        "-- name: read\nSELECT {columns} FROM t;\n-- name: columns\n{key}, b\n-- name: key\na\n"
    )

    assert load_queries("some_dialect")["read"] == "SELECT a, b FROM t"


def test_the_caller_may_give_fragments_that_are_no_queries(package: Path):
    (package / "a.sql").write_text("-- name: read\nSELECT a FROM {schema}.t;\n-- name: t\n{schema}.t\n")

    assert load_queries("some_dialect", schema="orders") == {
        "read": "SELECT a FROM orders.t",
        "t": "orders.t",
    }


def test_a_fragment_reaches_into_the_text_that_a_reference_stands_for(package: Path):
    (package / "a.sql").write_text("-- name: read\nSELECT {now};\n-- name: now\n{schema}.clock()\n")

    assert load_queries("some_dialect", schema="orders")["read"] == "SELECT orders.clock()"


def test_the_place_of_the_rows_is_left_for_the_caller(package: Path):
    (package / "a.sql").write_text("-- name: write\nINSERT INTO t VALUES {rows};\n")

    assert load_queries("some_dialect")["write"] == "INSERT INTO t VALUES {rows}"


def test_two_queries_of_one_name_are_refused(package: Path):
    (package / "a.sql").write_text("-- name: q\nSELECT 1;\n")
    (package / "b.sql").write_text("-- name: q\nSELECT 2;\n")

    with pytest.raises(ValueError, match=r"two queries are called 'q' \(the second is in b.sql\)"):
        load_queries("some_dialect")


def test_a_reference_to_a_query_that_does_not_exist_is_noticed_at_once(package: Path):
    (package / "a.sql").write_text("-- name: q\nSELECT {nothing};\n")

    with pytest.raises(KeyError, match="nothing"):
        load_queries("some_dialect")


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_no_query_that_ships_has_an_open_reference_or_ends_in_a_semicolon(dialect: str):
    queries = load_queries(f"backstay.store.{dialect}", schema="any")

    assert queries
    closed = {name: text.replace("{rows}", "") for name, text in queries.items()}
    assert not [name for name, text in closed.items() if "{" in text or text.endswith(";")]


# In the words of a driver


def test_a_driver_that_counts_gets_its_parameters_in_the_order_of_their_first_use():
    sql = "UPDATE t SET a = :value, b = :other WHERE key = :key"

    assert numbered(sql) == Numbered("UPDATE t SET a = $1, b = $2 WHERE key = $3", ("value", "other", "key"))


def test_a_parameter_that_is_used_twice_is_given_once():
    assert numbered("SELECT :now, :key, :now") == Numbered("SELECT $1, $2, $1", ("now", "key"))


def test_a_cast_is_no_parameter():
    sql = "SELECT attributes::text FROM unnest(:keys::bigint[], :names::text[]) WHERE at < :now::timestamptz"

    assert numbered(sql) == Numbered(
        "SELECT attributes::text FROM unnest($1::bigint[], $2::text[]) WHERE at < $3::timestamptz",
        ("keys", "names", "now"),
    )


def test_a_query_without_parameters_stays_as_it_is():
    assert numbered("SELECT count(*)::int FROM t") == Numbered("SELECT count(*)::int FROM t", ())
    assert pyformat("SELECT count(*)::int FROM t") == "SELECT count(*)::int FROM t"


def test_of_two_names_the_longer_is_not_cut():
    assert numbered("SELECT :key, :key_before") == Numbered("SELECT $1, $2", ("key", "key_before"))
    assert pyformat("SELECT :key, :key_before") == "SELECT %(key)s, %(key_before)s"


def test_a_driver_that_goes_by_names_gets_them_in_its_own_form():
    sql = "SELECT a FROM t WHERE key = ANY (:keys::bigint[]) AND at < :now"

    assert pyformat(sql) == "SELECT a FROM t WHERE key = ANY (%(keys)s::bigint[]) AND at < %(now)s"


def test_a_percent_sign_is_doubled_for_a_driver_to_which_it_means_something():
    sql = "SELECT format('%s', a) FROM t WHERE a LIKE '%x' AND b = :b"

    assert pyformat(sql) == "SELECT format('%%s', a) FROM t WHERE a LIKE '%%x' AND b = %(b)s"
    assert numbered(sql).sql == "SELECT format('%s', a) FROM t WHERE a LIKE '%x' AND b = $1"


def test_no_query_that_ships_has_a_parameter_left_in_the_form_of_its_file():
    queries = load_queries("backstay.store.postgres", schema="any").values()

    for sql in (*(numbered(text).sql for text in queries), *map(pyformat, queries)):
        assert not re.search(r"(?<!:):[a-z]", sql)
