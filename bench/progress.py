"""What a bench is doing, for whoever waits: on standard error, so that the result can be piped."""

from __future__ import annotations

import sys


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
