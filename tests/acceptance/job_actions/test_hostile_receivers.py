"""Receivers that hang, break off, babble without end or lead in circles: each costs its attempt, no more."""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.job_actions.receivers import APP, NONE, collected, history, put
from tests.support.running import eventually
from tests.support.serve_command import Served, serving

TIMEOUT_SECONDS = 7
# On a machine that has other things to do.
SLACK_SECONDS = 5
# A retry comes 15 seconds later at the earliest, by the rules of the interface.
PATIENCE_SECONDS = 60
# So much more memory the server may have used at its worst, with all of them at once.
MEMORY_MIB_MAX = 80

LARGE = b"x" * 65_536

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def hangs(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def resets(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    sock: socket.socket = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def pours(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Ten gigabytes, as fast as they are taken."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n")
    await _without_end(writer, LARGE)


async def pours_in_chunks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    await _without_end(writer, f"{len(LARGE):x}\r\n".encode() + LARGE + b"\r\n")


async def explodes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Two gigabytes of nothing, packed into two megabytes."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 10000000000\r\n\r\n")
    nothing = bytes(16 * 1024 * 1024)
    for _ in range(128):
        writer.write(packer.compress(nothing) + packer.flush(zlib.Z_FULL_FLUSH))
        await writer.drain()
    await reader.read()


async def drips(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """An answer, one byte of it now and then."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    await _without_end(writer, b".", every=0.1)


async def drips_before_it_says_anything(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    await _without_end(writer, b".", every=0.1)


async def says_to_go_on_without_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await _without_end(writer, b"HTTP/1.1 100 Continue\r\n\r\n" * 1_000, every=0.01)


async def has_no_end_of_headers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    await _without_end(writer, b"X-More: and more\r\n" * 1_000)


async def has_a_header_without_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nX-More: ")
    await _without_end(writer, LARGE)


async def leads_in_circles(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 302 Found\r\nLocation: /circle\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")


async def says_no_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"\x00\xff" * 100)


async def _without_end(writer: asyncio.StreamWriter, piece: bytes, every: float = 0) -> None:
    while True:
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(every)


#: Each with what the history says of it, and whether that was a success: the status is the verdict.
HOSTILE: dict[str, tuple[Talk, str, bool]] = {
    "hangs": (hangs, "failed: Timeout The operation has timed out", False),
    "resets": (resets, "failed: ", False),
    "pours": (pours, "'OK' Response Headers: Content-Length: 10000000000", True),
    "chunks": (pours_in_chunks, "'OK' Response Headers: Transfer-Encoding: chunked", True),
    "explodes": (explodes, "'OK' Response Headers: Content-Encoding: gzip", True),
    "drips": (drips, "'OK' Response Headers: Content-Length: 1000000", True),
    "slow": (drips_before_it_says_anything, "failed: Timeout The operation has timed out", False),
    "continues": (says_to_go_on_without_end, "failed: Timeout The operation has timed out", False),
    "headers": (has_no_end_of_headers, "failed: ServerProtocolViolation", False),
    "header": (has_a_header_without_end, "failed: ServerProtocolViolation", False),
    "circle": (leads_in_circles, "failed: ProtocolError Too many automatic redirections", False),
    "noise": (says_no_http, "failed: ServerProtocolViolation", False),
}


class Hostile:
    """Behaves as the path says, and counts who came."""

    def __init__(self) -> None:
        self.port = 0
        self.asked: list[str] = []
        self.busy = 0
        self.answers = [503, 200]

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.busy += 1
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            name = head.split()[1].decode().strip("/")
            self.asked.append(name)
            with suppress(ConnectionError):
                await (self._recovers(writer) if name == "recovers" else HOSTILE[name][0](reader, writer))
                await writer.drain()
        except (asyncio.CancelledError, asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.busy -= 1
            writer.close()

    async def _recovers(self, writer: asyncio.StreamWriter) -> None:
        status = self.answers.pop(0)
        writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())


@asynccontextmanager
async def hostile() -> AsyncIterator[Hostile]:
    made = Hostile()
    server = await asyncio.start_server(made.talk, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()


def peak_mib(server: Served) -> int:
    """The most memory that the process ever had, as Linux tells it."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    [line] = [one for one in status.splitlines() if one.startswith("VmHWM:")]
    return int(line.split()[1]) // 1024


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(APP)
    return tmp_path


async def test_hostile_receivers_cost_their_attempts_and_neither_memory_nor_other_jobs(folder: Path):
    settings = {
        "BACKSTAY_OUTBOUND_ALLOW": "loopback",
        "BACKSTAY_JOB_IMMEDIATELY": "10ms",
        "BACKSTAY_JOB_HTTP_TIMEOUT": f"{TIMEOUT_SECONDS}s",
    }
    async with hostile() as there:
        with serving(folder, "shop:app", **settings) as server:
            await collected(server)
            before = peak_mib(server) if sys.platform == "linux" else 0
            retried = {"retryType": "Fixed", "retryInterval": "00:00:15", "retryCount": 4}
            await put(server, "recovers", _asking(there, "recovers", retried))
            for name in HOSTILE:
                await put(server, name, _asking(there, name, NONE))

            found = {name: (await _entries(server, name, 1))[0] for name in HOSTILE}
            healthy, _ = await server.ask("GET", "/healthz")
            recovered = await _entries(server, "recovers", 2)
            if sys.platform == "linux":
                assert peak_mib(server) - before < MEMORY_MIB_MAX

    for name, (_, said, succeeded) in HOSTILE.items():
        assert said in found[name]["message"], name
        assert ("status" not in found[name]) == succeeded, (name, found[name])
        assert len(found[name]["message"]) < 8_192
        began, ended = (datetime.fromisoformat(found[name][one]) for one in ("startTime", "endTime"))
        assert ended - began < timedelta(seconds=TIMEOUT_SECONDS + SLACK_SECONDS), name
    assert {name: there.asked.count(name) for name in HOSTILE} == dict.fromkeys(HOSTILE, 1) | {"circle": 6}
    assert healthy == 200
    assert [one.get("status") for one in recovered] == ["failed", None]
    assert [one["retryCount"] for one in recovered] == [0, 1]


def _asking(there: Hostile, name: str, retried: dict[str, Any]) -> dict[str, Any]:
    request = {"uri": f"http://127.0.0.1:{there.port}/{name}", "method": "GET"}
    return {"type": "Http", "request": request, "retryPolicy": retried}


async def _entries(server: Served, name: str, number: int) -> list[dict[str, Any]]:
    return await eventually(
        lambda: history(server, name),
        lambda found: len(found) >= number,
        what=f"{number} entries of {name}",
        seconds=PATIENCE_SECONDS,
    )
