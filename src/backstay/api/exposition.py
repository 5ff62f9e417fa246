"""The text format that Prometheus reads."""

from __future__ import annotations

from collections.abc import Iterator


def family(name: str, kind: str, described: str) -> Iterator[str]:
    """What stands above the values of one metric."""
    yield f"# HELP {name} {described}"
    yield f"# TYPE {name} {kind}"
