"""A name server of the tests' own."""

from __future__ import annotations

import socket
from typing import Any

import pytest


class Rebinding:
    """Answers the first question with one address and all others with another."""

    def __init__(self, first: str, then: str) -> None:
        self.asked = 0
        self._first = first
        self._then = then

    def __call__(self, host: Any, port: Any, *rest: Any, **named: Any) -> list[Any]:
        self.asked += 1
        address = self._first if self.asked == 1 else self._then
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, int(port or 0)))]


def rebinding(monkeypatch: pytest.MonkeyPatch, first: str, then: str) -> Rebinding:
    """Whom this process asks for addresses until the test is over."""
    made = Rebinding(first, then)
    monkeypatch.setattr(socket, "getaddrinfo", made)
    return made
