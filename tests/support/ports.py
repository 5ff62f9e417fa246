"""Ports for processes that a test starts, kills and starts again."""

from __future__ import annotations

from random import Random

from drone_delivery.demo.ports import HOST, choose

__all__ = ["HOST", "free_ports"]


def free_ports(count: int) -> list[int]:
    """Ports at which nobody listens, and which no outgoing connection takes meanwhile."""
    return choose(0, count - 1, Random())
