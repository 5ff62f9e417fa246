"""The public Python SDK of Azure Scheduler, as it was published."""

from __future__ import annotations

import fcntl
from pathlib import Path

from bench.peers.catalogue import Packages
from bench.peers.environment import HOME, prepare

#: Each in an environment of its own, which is made once and found again.
SDKS = {
    "7.0.0": Packages(
        "azure-scheduler-7",
        (
            "azure-mgmt-scheduler==7.0.0",
            "azure-core==1.41.0",
            "azure-mgmt-core==1.6.0",
            "azure-common==1.1.28",
            "msrest==0.7.1",
            "isodate==0.7.2",
            "requests==2.34.2",
        ),
    ),
    "2.0.0": Packages(
        "azure-scheduler-2",
        (
            "azure-mgmt-scheduler==2.0.0",
            "azure-common==1.1.28",
            "azure-mgmt-nspkg==3.0.2",
            "msrest==0.7.1",
            "msrestazure==0.6.4.post1",
            "adal==1.2.7",
            "isodate==0.7.2",
            "requests==2.34.2",
        ),
    ),
}


def python_with(version: str) -> Path:
    """The Python of the environment that has this version. Whoever else needs it waits until it is made."""
    HOME.mkdir(exist_ok=True)
    with (HOME / f"{SDKS[version].name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return prepare(SDKS[version]).python
