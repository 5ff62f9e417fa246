"""What another process uses, where the system tells."""

from __future__ import annotations

import os
from pathlib import Path

_KIB_PER_MIB = 1024


def cpu_seconds(pid: int) -> float:
    """User and system time of the process so far. Linux only."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mib_max(pid: int) -> float | None:
    """The most memory that the process has held; None where the system does not tell."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except FileNotFoundError:
        return None
    [most] = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
    return round(int(most) / _KIB_PER_MIB, 1)
