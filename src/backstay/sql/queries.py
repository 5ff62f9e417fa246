"""Named queries out of ``.sql`` files.

A query begins with ``-- name: the_name``; comments below that line say why it is as it is and are
not sent to the database. ``{other_name}`` stands for the text of another query, or for a fragment
that the caller gives, so that a list of columns is written once; ``{rows}`` is left for the caller,
who knows how many there are. Parameters are written ``:name``; drivers that want them otherwise get
them from ``numbered`` and ``pyformat``.
"""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Final, NamedTuple

_NAME: Final = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)
_REFERENCE: Final = re.compile(r"\{(?!rows\})(\w+)\}")
# Not the second colon of a cast (``:keys::bigint[]``).
_PARAMETER: Final = re.compile(r"(?<!:):([a-z_]+)")


class Numbered(NamedTuple):
    """A query for a driver that takes its parameters by position, ``$1`` and so on."""

    sql: str
    parameters: tuple[str, ...]


def load_queries(package: str, **fragments: str) -> dict[str, str]:
    """Every query in the ``queries`` folder of ``package``, by name."""
    queries: dict[str, str] = {}
    for file in sorted((files(package) / "queries").iterdir(), key=lambda entry: entry.name):
        if file.name.endswith(".sql"):
            for name, text in parse(file.read_text("utf-8")):
                if name in queries:
                    raise ValueError(f"two queries are called {name!r} (the second is in {file.name})")
                queries[name] = text
    known = {**queries, **fragments}
    return {name: _filled(text, known) for name, text in queries.items()}


def parse(text: str) -> list[tuple[str, str]]:
    """The (name, SQL) pairs of one file, in order."""
    parts = _NAME.split(text)[1:]
    return [(name, _without_comments(body)) for name, body in zip(parts[::2], parts[1::2], strict=True)]


def numbered(sql: str) -> Numbered:
    parameters = tuple(dict.fromkeys(_PARAMETER.findall(sql)))
    positions = {name: f"${position}" for position, name in enumerate(parameters, start=1)}
    return Numbered(_PARAMETER.sub(lambda match: positions[match[1]], sql), parameters)


def pyformat(sql: str) -> str:
    """A query for a driver that takes its parameters as ``%(name)s``."""
    return _PARAMETER.sub(r"%(\1)s", sql.replace("%", "%%"))


def _filled(text: str, known: dict[str, str]) -> str:
    """References resolved, also those in the text that a reference stands for."""
    while _REFERENCE.search(text):
        text = _REFERENCE.sub(lambda match: known[match[1]], text)
    return text


def _without_comments(body: str) -> str:
    lines = [line for line in body.splitlines() if not line.lstrip().startswith("--")]
    return "\n".join(lines).strip().rstrip(";")
