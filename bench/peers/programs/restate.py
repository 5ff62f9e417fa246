"""Five steps on Restate: its server, one process that serves the workflow, and a client that speaks HTTP."""

# mypy: disable-error-code="import-not-found, untyped-decorator"
# Restate is not installed where the types are checked.

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import uuid
from pathlib import Path

import aiohttp
import restate

from bench.peers.programs.measuring import STEPS, Point, given, print_points, until, with_coroutines

HOST = "127.0.0.1"
_TASK_SECONDS_MAX = 120.0

#: What Restate's documentation recommends, but with one worker.
_HYPERCORN = """
h2_max_concurrent_streams = 2147483647
keep_alive_max_requests = 2147483647
keep_alive_timeout = 2147483647
workers = 1
"""

workflow = restate.Workflow("five")


async def work(number: int) -> int:
    return number + 1


@workflow.main()
async def run(context: restate.WorkflowContext, number: int) -> int:
    for _ in range(STEPS):
        number = await context.run_typed("work", work, number=number)
    return number


app = restate.app(services=[workflow])


async def main() -> None:
    options = given()
    node, ingress, admin, service = options.ports
    start_server(node=node, ingress=ingress, admin=admin)
    start_service("bench.peers.programs.restate:app", service)
    any_number = aiohttp.TCPConnector(limit=0)
    patience = aiohttp.ClientTimeout(total=_TASK_SECONDS_MAX)
    async with aiohttp.ClientSession(connector=any_number, timeout=patience) as client:

        async def one() -> None:
            url = f"http://{HOST}:{ingress}/five/{uuid.uuid4().hex}/run"
            async with client.post(url, json=0) as answer:
                assert await answer.json() == STEPS

        async def measure(in_flight: int, seconds: float) -> Point:
            return await with_coroutines(one, in_flight, seconds=seconds)

        await register(client, admin=admin, service=service)
        await print_points(measure, options)


def start_server(*, node: int, ingress: int, admin: int) -> None:
    """With its own defaults, except where it listens; its data go into our folder."""
    ports = {
        "RESTATE_BIND_PORT": str(node),
        "RESTATE_INGRESS__BIND_PORT": str(ingress),
        "RESTATE_ADMIN__BIND_PORT": str(admin),
    }
    program = Path(sys.prefix, "node_modules", ".bin", "restate-server")
    here = ["--listen-mode", "tcp", "--bind-ip", HOST, "--advertised-host", HOST]
    subprocess.Popen([program, *here, "--no-logo"], env=os.environ | ports)


def start_service(target: str, port: int) -> None:
    Path("hypercorn.toml").write_text(_HYPERCORN)
    hypercorn = [sys.executable, "-P", "-m", "hypercorn", "--config", "hypercorn.toml"]
    bind = ["--bind", f"{HOST}:{port}"]
    subprocess.Popen([*hypercorn, *bind, target])


async def register(client: aiohttp.ClientSession, *, admin: int, service: int) -> None:
    """Tell the server of the service, as soon as both are up."""

    async def registered() -> bool:
        deployment = {"uri": f"http://{HOST}:{service}"}
        try:
            async with client.post(f"http://{HOST}:{admin}/deployments", json=deployment) as answer:
                return answer.ok
        except aiohttp.ClientError:
            return False

    await until(registered, what="Restate")


if __name__ == "__main__":
    asyncio.run(main())
