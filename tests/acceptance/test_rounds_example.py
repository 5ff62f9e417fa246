"""The example whose job makes the supervisor's rounds."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.support.running import eventually
from tests.support.serve_command import environment

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "examples" / "rounds" / "rounds.py"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """All that the docstring of the example starts; nobody supervises."""
    roles = ("--roles", "api,scheduler,agents,jobs", "--port", "0")
    command = [sys.executable, "-m", "backstay", "serve", *roles]
    allowed = environment(BACKSTAY_OUTBOUND_ALLOW="loopback")
    with subprocess.Popen(command, cwd=tmp_path, env=allowed, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            [address] = re.findall(r"http://[0-9.:]+", process.stderr.readline())
            yield address
            process.send_signal(signal.SIGTERM)
            process.stderr.read()
            assert process.wait(30) == 0
        finally:
            process.kill()


async def asked(server: str, path: str) -> Any:
    async with aiohttp.ClientSession() as session, session.get(f"{server}{path}") as answer:
        return await answer.json()


async def test_the_supervisor_makes_a_round_because_a_job_says_so(server: str):
    assert (await asked(server, "/v1/supervisor"))["last_round"] is None

    told = subprocess.run(
        [sys.executable, PROGRAM, server, "--now"], capture_output=True, text=True, timeout=60, check=True
    )

    assert re.search(r"the next round is made at 20.*Z\nand one is made now\n", told.stdout)
    await eventually(lambda: asked(server, "/v1/supervisor"), lambda seen: seen["last_round"])
    jobs = "/subscriptions/shop/resourceGroups/night/providers/Microsoft.Scheduler/jobCollections/care/jobs"
    history = await eventually(
        lambda: asked(server, f"{jobs}/rounds/history?api-version=2016-03-01"), lambda seen: seen["value"]
    )
    assert "'OK'" in history["value"][0]["properties"]["message"]
