"""What the vendor's packages have in common."""

from __future__ import annotations

import logging


def hush(package: str) -> None:
    """Keep a package's own log silent, unless somebody chose its level: it repeats what others said."""
    theirs = logging.getLogger(package)
    if theirs.level == logging.NOTSET:
        theirs.setLevel(logging.CRITICAL + 1)
