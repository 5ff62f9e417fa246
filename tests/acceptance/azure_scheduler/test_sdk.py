"""The public Python SDK of Azure Scheduler, unmodified, walks every operation against a server of ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.azure_sdk import SDKS, python_with
from tests.support.databases import Database
from tests.support.serve_command import environment, serving

WALK = Path(__file__).with_name("walk.py")
SECONDS_MAX = 100


@pytest.fixture(params=SDKS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def python(version: str) -> Path:
    return python_with(version)


# An environment that is not there yet is installed first.
@pytest.mark.timeout(600)
def test_the_published_sdk_walks_every_operation(
    version: str, python: Path, database: Database, tmp_path: Path
):
    store = ("--store", database.url)
    variables = {"BACKSTAY_OUTBOUND_ALLOW": "loopback", **database.sealing_variables}

    with serving(tmp_path, *store, **variables) as server:
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
