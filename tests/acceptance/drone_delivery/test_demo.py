"""``backstay demo``: everything at once, from the outside."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from drone_delivery.demo.processes import WORKERS
from drone_delivery.services.catalogue import SERVICES
from tests.support.databases import Database

pytestmark = pytest.mark.timeout(240)

COMMAND = [str(Path(sys.executable).parent / "backstay"), "demo"]
NAMES = ["accepted", "processed", "undone", "error", "orphaned", "duplicates", "reconciled"]
#: Longer than it drains at most.
ENDS_SECONDS = 200


def finished(*options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *options],
        capture_output=True,
        text=True,
        timeout=ENDS_SECONDS,
        check=False,
        env={**os.environ, **environment},
    )


def last_lines(output: str) -> dict[str, str]:
    pairs = [line.replace(":", "").split() for line in output.splitlines()[-len(NAMES) :]]
    return dict(pairs)


def test_deliveries_survive_kills_and_outages_and_everything_reconciles():
    done = finished("--duration", "12", "--kill-every", "3", "--rate", "30", "--port", "0")

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("kill -9") >= 2
    assert "service is down for 10 s" in done.stdout
    numbers = last_lines(done.stdout)
    assert list(numbers) == NAMES
    assert numbers["reconciled"] == "yes"
    assert int(numbers["accepted"]) == int(numbers["processed"]) + int(numbers["undone"]) >= 300
    assert (numbers["error"], numbers["orphaned"], numbers["duplicates"]) == ("0", "0", "0")
    assert int(numbers["undone"]) > 0


def test_json_is_all_that_is_on_standard_output():
    done = finished("--duration", "3", "--rate", "20", "--port", "0", "--json")

    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert list(report) == NAMES
    assert report["reconciled"] is True
    assert report["accepted"] == report["processed"] + report["undone"] >= 50
    assert "accepted" in done.stderr


def test_a_store_that_stays_is_reconciled_anew_at_every_run(database: Database):
    """On both databases: what an earlier run left is not judged, and does not get in the way."""
    options = ("--duration", "3", "--rate", "20", "--port", "0", "--json", "--store", database.url)

    runs = [finished(*options), finished(*options, "--kill-every", "2")]

    assert [run.returncode for run in runs] == [0, 0], "".join(run.stdout + run.stderr for run in runs)
    for run in runs:
        assert 50 <= json.loads(run.stdout)["accepted"] <= 61


def test_who_stops_reading_gets_no_traceback():
    command = f"{COMMAND[0]} demo --duration 3 --rate 10 --port 0 | head -n 2"

    done = subprocess.run(
        command,
        shell=True,
        capture_output=True,
        text=True,
        timeout=ENDS_SECONDS,
        check=False,
    )

    assert len(done.stdout.splitlines()) == 2
    assert done.stderr == ""


def test_a_store_with_a_token_wants_it_and_says_so(tmp_path: Path):
    store = f"sqlite:///{tmp_path / 'locked.db'}"
    tokens = [COMMAND[0], "tokens", "create", "--name", "me", "--role", "submit", "--json", "--store", store]
    subprocess.run([COMMAND[0], "store", "migrate", "--store", store], check=True, capture_output=True)
    created = subprocess.run(tokens, check=True, capture_output=True, text=True)
    options = ("--duration", "2", "--rate", "10", "--port", "0", "--json", "--store", store)

    refused = finished(*options)
    let_in = finished(*options, BACKSTAY_TOKEN=json.loads(created.stdout)["token"])

    assert refused.returncode == 1
    assert "Error: the store has tokens: set BACKSTAY_TOKEN to one of the role submit" in refused.stderr
    assert let_in.returncode == 0, let_in.stdout + let_in.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--rate", "fast"], "--rate is 'fast'; give a whole number from 1 to 2,000"),
        (["--rate", "0"], "--rate is '0'; give a whole number from 1 to 2,000"),
        (["--duration", "-1"], "--duration is '-1'; give seconds from 1 to 86,400"),
        (["--kill-every", "0.5"], "--kill-every is '0.5'; give seconds from 1 to 86,400"),
        (["--port", "70000"], "--port is '70000'; give a whole number from 0 to 65,535"),
        (["--store", "redis://here"], "store has the scheme 'redis'"),
        (["--store", "sqlite:///:memory:"], "several processes cannot share a store in memory"),
        (["--store", "sqlite:////proc/nowhere/x.db"], "the services' files cannot be kept in"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_bad_option_is_one_clear_line(options: list[str], said: str):
    done = finished(*options)

    assert done.returncode in {1, 2}
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_port_in_use_is_one_clear_line():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        done = finished("--port", str(port))

    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"Error: port {port} is in use; choose another with --port, or 0 for any that is free"
    ]


class Demo:
    """One that runs until somebody stops it."""

    def __init__(self, *options: str) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "--port", "0", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.url = self.told("the server is ").split(";")[0]
        self.ports = dict(service.split() for service in self.told("ports: ").split(", "))

    def told(self, beginning: str) -> str:
        """What follows once it says this."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if beginning in line:
                return line.partition(beginning)[2].strip()
        raise AssertionError(f"it never said {beginning!r}: {self.process.communicate()}")

    def ended(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=ENDS_SECONDS)
        return self.process.returncode, out, err

    def get(self, path: str) -> Any:
        with urlopen(f"{self.url}{path}", timeout=10) as answer:
            return json.load(answer)

    def post(self, path: str, body: Any) -> Any:
        return _sent("POST", f"{self.url}{path}", body)

    def hang(self, service: str) -> None:
        _sent("PUT", f"http://127.0.0.1:{self.ports[service]}/faults", {"hang": True})


def _sent(method: str, url: str, body: Any) -> Any:
    headers = {"Content-Type": "application/json"}
    with urlopen(Request(url, json.dumps(body).encode(), headers, method=method), timeout=10) as answer:
        return json.load(answer)


@pytest.fixture
def demo(request: pytest.FixtureRequest) -> Iterator[Demo]:
    running = Demo(*request.param)
    try:
        yield running
    finally:
        running.process.kill()
        running.process.communicate()


ORDER = {
    "ownerId": "customer-1",
    "pickupLocation": "20,47.6,-122.3",
    "dropOffLocation": "20,47.7,-122.2",
    "pickupTime": "2030-01-31T12:00:00Z",
    "deadline": "2030-01-31T14:00:00Z",
    "expedited": True,
    "confirmationRequired": "Picture",
    "packageInfo": {"packageId": "p1", "size": "small", "weight": 1.5, "tag": "t"},
}


@pytest.mark.parametrize("demo", [["--no-load"]], indirect=True)
def test_without_load_it_takes_requests_of_ones_own_until_it_is_stopped(demo: Demo):
    handed_in = demo.post("/api/deliveryrequests", ORDER)
    until = time.monotonic() + 30
    while "droneId" not in demo.get(f"/api/deliveries/{handed_in['deliveryId']}"):
        assert time.monotonic() < until
        time.sleep(0.1)

    demo.process.send_signal(signal.SIGINT)
    code, out, err = demo.ended()

    assert code == 0, out + err
    numbers = last_lines(out)
    assert (numbers["accepted"], numbers["processed"], numbers["reconciled"]) == ("1", "1", "yes")


@pytest.mark.parametrize("demo", [["--rate", "40", "--duration", "600"]], indirect=True)
def test_ctrl_c_drains(demo: Demo):
    demo.told("processed")

    demo.process.send_signal(signal.SIGINT)
    code, out, err = demo.ended()

    assert code == 0, out + err
    assert "what was accepted comes to its end" in out
    assert last_lines(out)["reconciled"] == "yes"


@pytest.mark.parametrize("demo", [["--no-load"]], indirect=True)
def test_a_second_ctrl_c_does_not_wait(demo: Demo):
    demo.hang("drone")
    demo.post("/api/deliveryrequests", ORDER)

    demo.process.send_signal(signal.SIGINT)
    demo.told("what was accepted comes to its end")
    demo.process.send_signal(signal.SIGINT)
    code, out, _ = demo.ended()

    assert code == 130
    assert "reconciled" not in out


@pytest.mark.parametrize("demo", [["--no-load"]], indirect=True)
def test_a_demo_that_is_killed_leaves_no_process_behind(demo: Demo):
    children = _children(demo.process.pid)
    # With the server, and who tells people of failures.
    assert len(children) == len(SERVICES) + len(WORKERS) + 2

    demo.process.kill()
    demo.process.communicate()

    until = time.monotonic() + 40
    while any(_alive(child) for child in children):
        assert time.monotonic() < until, "they hold on"
        time.sleep(0.1)


def _children(pid: int) -> list[int]:
    listed = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=True
    )
    return [int(child) for child in listed.stdout.split()]


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
