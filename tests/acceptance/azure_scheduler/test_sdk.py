"""The public Python SDK of Azure Scheduler, unmodified, walks every operation against a server of ours."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

from bench.peers.catalogue import Packages
from bench.peers.environment import HOME, prepare
from tests.support.databases import Database
from tests.support.serve_command import environment, serving

WALK = Path(__file__).with_name("walk.py")
SECONDS_MAX = 100

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


@pytest.fixture(params=SDKS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def python(version: str) -> Path:
    """Of the environment that has this version. Whoever else needs it waits until it is made."""
    HOME.mkdir(exist_ok=True)
    with (HOME / f"{SDKS[version].name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return prepare(SDKS[version]).python


# An environment that is not there yet is installed first.
@pytest.mark.timeout(600)
def test_the_published_sdk_walks_every_operation(
    version: str, python: Path, database: Database, tmp_path: Path
):
    store = ("--store", database.url)

    with serving(tmp_path, *store) as server:
        create = ("tokens", "create", "--role", "operate", "--name", "sdk", *store)
        token = run(sys.executable, "-m", "backstay", *create, folder=tmp_path)
        said = run(str(python), str(WALK), version, server.url, token, folder=tmp_path)

    assert said == "walked"


def run(*command: str, folder: Path) -> str:
    """What a command printed; all that it said, if it failed."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
