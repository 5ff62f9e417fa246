"""Two dialects, one set of names: what a verb does is found under the same name in each."""

from __future__ import annotations

from pathlib import Path

import pytest

import backstay.store
from backstay.sql.queries import parse

STORE = Path(backstay.store.__file__).parent

#: Files in which a dialect keeps what it alone needs.
OWN = {"postgres": {"session.sql", "many.sql"}, "sqlite": {"many.sql", "sequences.sql"}}


def query_names(dialect: str) -> dict[str, list[str]]:
    """The names in each file that the dialects share."""
    files = sorted((STORE / dialect / "queries").glob("*.sql"))
    return {
        file.name: sorted(name for name, _ in parse(file.read_text("utf-8")))
        for file in files
        if file.name not in OWN[dialect]
    }


def test_both_dialects_have_the_same_files_with_the_same_names():
    assert query_names("sqlite") == query_names("postgres")


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_every_query_is_used(dialect: str):
    code = "".join(file.read_text("utf-8") for file in STORE.rglob("*.py"))
    texts = "".join(file.read_text("utf-8") for file in (STORE / dialect / "queries").glob("*.sql"))
    for names in query_names(dialect).values():
        assert [name for name in names if f'"{name}"' not in code and f"{{{name}}}" not in texts] == []
