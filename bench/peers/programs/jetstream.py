"""Events into NATS JetStream: published one by one, each acknowledged once the server has synced it."""

# mypy: disable-error-code="import-not-found"
# NATS is not installed where the types are checked.

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import nats
import uvloop
from nats.errors import NoServersError

from bench.peers.programs.events import BODY
from bench.peers.programs.measuring import Point, given, print_points, until, with_coroutines

_HOST: Final = "127.0.0.1"
_STREAM: Final = "orders"
_ACK_SECONDS_MAX: Final = 60.0

#: The data go into our folder. Without the interval the server syncs every two minutes.
_CONFIGURATION: Final = """
host: "{host}"
port: {port}
jetstream: {{ store_dir: "jetstream", sync_interval: always }}
"""


async def main() -> None:
    options = given()
    [port] = options.ports
    start_server(port)
    client = await connected(f"nats://{_HOST}:{port}")
    stream = client.jetstream(timeout=_ACK_SECONDS_MAX)
    await stream.add_stream(name=_STREAM, subjects=[_STREAM])
    body = BODY.encode()

    async def one() -> None:
        await stream.publish(_STREAM, body)

    async def measure(in_flight: int, seconds: float) -> Point:
        return await with_coroutines(one, in_flight, seconds=seconds)

    await print_points(measure, options)
    await client.close()


def start_server(port: int) -> None:
    Path("nats.conf").write_text(_CONFIGURATION.format(host=_HOST, port=port))
    subprocess.Popen([Path(sys.prefix, "bin", "nats-server"), "--config", "nats.conf"])


async def connected(url: str) -> Any:
    found: list[Any] = []

    async def answers() -> bool:
        try:
            found.append(await nats.connect(url, allow_reconnect=False))
        except (NoServersError, OSError):
            return False
        return True

    await until(answers, what="NATS")
    return found[0]


if __name__ == "__main__":
    uvloop.run(main())
