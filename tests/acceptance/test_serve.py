"""``backstay serve``: roles, addresses, TLS, tokens at the door, and what a wrong option gets."""

from __future__ import annotations

import asyncio
import json
import resource
import signal
import socket
import ssl
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import trustme

from backstay.clock import SystemClock
from backstay.domain.jobs.records import JobState
from backstay.domain.recurrence import Moment
from backstay.store.sqlite import SqliteStore
from tests.support.jobs import Calendar
from tests.support.running import eventually
from tests.support.serve_command import Served, command, environment, serving, when_it_runs
from tests.support.service import http_service

APP = """
import asyncio
from backstay import App

app = App("shop")
bank = app.agent("bank")


@bank.step
async def charge(order: str) -> str:
    return f"charged {order}"


@app.workflow
async def buy(order: str) -> str:
    return await charge(order)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(APP)
    return tmp_path


def with_files(soft: int, hard: int) -> list[str]:
    """What stands before a command that may have so many files open."""
    return ["sh", "-c", f'ulimit -Sn {soft}; ulimit -Hn {hard}; exec "$@"', "sh"]


def refused(folder: Path, *options: str, under: Sequence[str] = ()) -> tuple[int, str]:
    """The exit code of a server that does not start, and the one line that it says."""
    done = subprocess.run(
        [*under, *command(*options)],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr.strip().splitlines()[-1]


def in_store(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "backstay", *arguments],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout


async def processed(server: Served, task_id: str) -> Any:
    async with asyncio.timeout(30):
        while True:
            _, task = await server.ask("GET", f"/v1/tasks/{task_id}")
            if task["state"] == "processed":
                return task
            await asyncio.sleep(0.02)


async def test_one_process_has_every_role_unless_told_otherwise(folder: Path):
    with serving(folder, "shop:app") as server:
        assert server.said.endswith(" as api, ingest, scheduler, agents, supervisor, jobs; Ctrl-C stops it")

        status, _ = await server.ask(
            "POST", "/v1/tasks", json={"workflow": "buy", "input": "order-1", "id": "order-1"}
        )

        assert status == 202
        assert (await processed(server, "order-1"))["output"] == "charged order-1"


async def test_what_a_step_prints_is_seen_at_once_in_a_file_as_well(folder: Path):
    (folder / "shop.py").write_text(APP.replace("return f", 'print("charging"); return f'))
    into_file = ["sh", "-c", 'exec "$@" >printed', "sh"]

    with serving(folder, "shop:app", under=into_file, PYTHONUNBUFFERED="") as server:
        await server.ask("PUT", "/v1/tasks/order-1", json={"workflow": "buy", "input": "order-1"})
        await processed(server, "order-1")

        assert (folder / "printed").read_text() == "charging\n"


async def test_an_interface_without_code_takes_what_some_live_scheduler_can_run(folder: Path):
    with (
        serving(folder, "--roles", "api") as front,
        serving(folder, "shop:app", "--roles", "scheduler,agents,supervisor") as back,
    ):
        assert front.said.endswith(" as api; Ctrl-C stops it")
        assert back.said == "backstay is running as scheduler, agents, supervisor; Ctrl-C stops it"

        known, _ = await front.ask("PUT", "/v1/tasks/t", json={"workflow": "buy", "input": "order-1"})
        unknown, problem = await front.ask("PUT", "/v1/tasks/u", json={"workflow": "bye", "input": 1})

        assert (known, unknown) == (201, 404)
        assert "there is no workflow 'bye'" in problem["detail"]
        assert (await processed(front, "t"))["output"] == "charged order-1"


async def test_with_a_certificate_it_speaks_tls_and_nothing_else(folder: Path):
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost", "127.0.0.1")
    certificate.private_key_and_cert_chain_pem.write_to_path(folder / "server.pem")
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)

    with serving(folder, "shop:app", "--tls-cert", "server.pem", "--tls-key", "server.pem") as server:
        assert server.url.startswith("https://")
        assert (await server.ask("GET", "/readyz", tls=trusting))[0] == 200
        with pytest.raises(aiohttp.ClientError):
            await server.ask("GET", "/readyz", tls=ssl.create_default_context())

        assert (await server.ask("PUT", "/v1/streams/rides", json={}, tls=trusting))[0] == 201
        for offset in range(3):
            placed = await server.ask("POST", "/v1/streams/rides/events?key=k", json=offset, tls=trusting)
            assert (placed[0], placed[1]["offset"]) == (202, offset)


async def test_a_token_made_while_it_runs_locks_the_door(folder: Path):
    with serving(folder, "shop:app") as server:
        assert (await server.ask("GET", "/v1/tasks"))[0] == 200

        made = json.loads(in_store(folder, "tokens", "create", "--name", "me", "--role", "read", "--json"))

        async with asyncio.timeout(30):
            while (await server.ask("GET", "/v1/tasks"))[0] != 401:
                await asyncio.sleep(0.05)
        headers = {"Authorization": f"Bearer {made['token']}"}
        assert (await server.ask("GET", "/v1/tasks", headers=headers))[0] == 200
        assert (await server.ask("POST", "/v1/supervisor/run", headers=headers))[0] == 403
        assert (await server.ask("GET", "/healthz"))[0] == 200


HANGING = """
import asyncio
from backstay import App

app = App("hanging")
agent = app.agent("agent")


@agent.step
async def hang() -> None:
    await asyncio.sleep(60)


@app.workflow
async def wait() -> None:
    await hang()
"""


async def test_a_second_signal_does_not_wait_and_says_so_in_one_line(folder: Path):
    (folder / "hanging.py").write_text(HANGING)
    with subprocess.Popen(
        command("hanging:app", "--port", "0"),
        cwd=folder,
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            server = when_it_runs(process, process.stderr)
            await server.ask("PUT", "/v1/tasks/t", json={"workflow": "wait"})
            async with asyncio.timeout(30):
                while not (await server.ask("GET", "/v1/tasks/t/steps"))[1]["items"]:
                    await asyncio.sleep(0.02)
            process.send_signal(signal.SIGTERM)
            said = await asyncio.to_thread(_read_until, process, "draining in_flight=1")

            process.send_signal(signal.SIGTERM)

            said += await asyncio.to_thread(process.stderr.read)
            assert process.wait(30) == 1
        finally:
            process.kill()
    assert "Traceback" not in said
    assert said.rstrip().endswith("stopped without waiting; what was at work is taken up again elsewhere")


def _read_until(process: subprocess.Popen[str], words: str) -> str:
    said = ""
    assert process.stderr is not None
    while words not in said:
        line = process.stderr.readline()
        assert line, said
        said += line
    return said


def test_an_address_that_others_can_reach_needs_a_token_first(folder: Path):
    code, said = refused(folder, "shop:app", "--host", "0.0.0.0", "--port", "0")

    assert code == 2
    assert "host is '0.0.0.0', which others can reach, and no token exists" in said
    assert "backstay tokens create" in said


def test_with_a_token_such_an_address_is_fine(folder: Path):
    in_store(folder, "store", "migrate")
    in_store(folder, "tokens", "create", "--name", "me", "--role", "admin")

    with serving(folder, "shop:app", "--host", "0.0.0.0") as server:
        assert server.url.startswith("http://0.0.0.0:")


def test_a_port_in_use_is_one_clear_line_and_touches_no_store(folder: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        code, said = refused(folder, "shop:app", "--port", str(port))

    assert code == 1
    assert said.startswith(f"Error: cannot listen on 127.0.0.1:{port}: ")
    assert "choose another with --port" in said
    assert not list(folder.glob("*.db"))


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("shop:app", "--roles", "api,janitor"), "there is no role 'janitor'"),
        (("shop:app", "--port", "99999"), "port is 99999; it must be at most 65535"),
        (("shop:app", "--port", "many"), "port is 'many'; it must be a whole number"),
        (("shop:app", "--host", "no such host"), "host is 'no such host'"),
        (("shop:app", "--tls-cert", "nowhere.pem"), "tls_cert and tls_key belong together"),
        (
            ("shop:app", "--port", "0", "--tls-cert", "nowhere.pem", "--tls-key", "nowhere.pem"),
            "tls_cert 'nowhere.pem' and tls_key 'nowhere.pem' cannot be used",
        ),
        (("nothing:app",), "nothing"),
    ],
)
def test_a_wrong_option_is_one_clear_line(folder: Path, options: tuple[str, ...], complaint: str):
    code, said = refused(folder, *options)

    assert code == 2
    assert complaint in said


# Open files


@contextmanager
def connected(server: Served, many: int) -> Iterator[None]:
    """So many connections are open that say nothing."""
    address = urllib.parse.urlsplit(server.url)
    assert address.port is not None
    with ExitStack() as stack:
        for _ in range(many):
            stack.enter_context(socket.create_connection(("127.0.0.1", address.port), 10))
        yield


async def test_a_low_limit_of_open_files_is_raised_to_what_the_connections_need(folder: Path):
    with (
        serving(folder, "shop:app", under=with_files(128, 4_096)) as server,
        connected(server, 400),
    ):
        status, _ = await server.ask("GET", "/v1/tasks")

        soft, hard = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
        assert (status, hard) == (200, 4_096)
        assert 1_000 + 50 + 500 < soft < hard


async def test_where_the_limit_cannot_be_raised_so_far_fewer_connections_are_let_in_and_that_is_said(
    folder: Path,
):
    with serving(folder, "shop:app", under=with_files(128, 1_000)) as server:
        [told, room] = server.before[0].split("set connections_max to ")
        assert "connections_max is 1,000, for which 1,806 open files are needed" in told
        assert "may have 1,000" in told
        assert "ulimit -Hn" in told
        assert room == "194, which counts now"

        with connected(server, 194 + 50):
            refused, problem = await server.ask("GET", "/v1/tasks")
            healthy, _ = await server.ask("GET", "/healthz")

        assert (refused, healthy) == (503, 200)
        assert "connections_max" in problem["detail"]


def test_where_there_is_room_for_no_connection_at_all_nothing_starts(folder: Path):
    code, said = refused(folder, "shop:app", "--port", "0", under=with_files(128, 256))

    assert code != 0
    assert "and this process may have 256: raise that (ulimit -Hn" in said
    assert not (folder / "backstay.db").exists()


# Jobs


async def test_without_an_application_it_runs_jobs(folder: Path):
    with serving(folder, BACKSTAY_OUTBOUND_ALLOW="loopback") as server:
        assert server.said.endswith(" as api, ingest, scheduler, agents, supervisor, jobs; Ctrl-C stops it")
        store = SqliteStore(f"sqlite:///{folder / 'backstay.db'}")
        await store.open()
        async with http_service() as receiver:
            calendar, now = Calendar(store), SystemClock().now()
            await calendar.open(now)
            action = {"type": "Http", "request": {"uri": receiver.url, "method": "GET"}}
            await calendar.put("j", {"startTime": Moment(now).text, "action": action}, now=now)

            await eventually(calendar.job, lambda job: job.state is JobState.COMPLETED)
            [task] = await calendar.tasks()
            shown = await processed(server, task.id)
            async with aiohttp.ClientSession() as session, session.get(f"{server.url}/metrics") as answer:
                metrics = await answer.text()
        await store.close()

    assert (shown["state"], shown["attributes"]) == ("processed", {"collection": "jc", "job": "j"})
    assert "backstay_occurrences_started_total 1" in metrics
