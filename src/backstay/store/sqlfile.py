"""Named queries out of ``.sql`` files.

A query begins with ``-- name: the_name``; comments below that line say why it is as it is and are
not sent to the database. ``{other_name}`` stands for the text of another query, so that a list of
columns is written once; ``{rows}`` is left for the caller, who knows how many there are.
"""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Final

_NAME: Final = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)
_REFERENCE: Final = re.compile(r"\{(?!rows\})(\w+)\}")


def load_queries(package: str) -> dict[str, str]:
    """Every query in the ``queries`` folder of ``package``, by name."""
    queries: dict[str, str] = {}
    for file in sorted((files(package) / "queries").iterdir(), key=lambda entry: entry.name):
        if file.name.endswith(".sql"):
            for name, text in parse(file.read_text("utf-8")):
                if name in queries:
                    raise ValueError(f"two queries are called {name!r} (the second is in {file.name})")
                queries[name] = text
    return {name: _REFERENCE.sub(lambda match: queries[match[1]], text) for name, text in queries.items()}


def parse(text: str) -> list[tuple[str, str]]:
    """The (name, SQL) pairs of one file, in order."""
    parts = _NAME.split(text)[1:]
    return [(name, _without_comments(body)) for name, body in zip(parts[::2], parts[1::2], strict=True)]


def _without_comments(body: str) -> str:
    lines = [line for line in body.splitlines() if not line.lstrip().startswith("--")]
    return "\n".join(lines).strip().rstrip(";")
