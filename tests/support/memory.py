"""How much memory a process has, as its machine counts it."""

from __future__ import annotations

from pathlib import Path


def rss_kib(pid: int | None) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])
