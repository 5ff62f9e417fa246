"""The same requests by wrk, where it is installed: another client's word for what ours measures.

It sends the next request when it has its answer, so that its latencies leave out what a stall delays.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

from bench.openloop.plan import DIGITS, MARK
from bench.streaming.servers import Server

#: One thread: each would begin to number its requests anew.
_SCRIPT: Final = """
local text, number = {text}, 0

request = function()
  number = number + 1
  return (string.gsub(text, "{mark}", string.format("%0{digits}d", number)))
end

done = function(summary, latency)
  local errors = summary.errors
  io.write(string.format('{{"requests": %d, "seconds": %f, "failed": %d, "p50_ms": %f, "p99_ms": %f}}\\n',
    summary.requests, summary.duration / 1e6,
    errors.connect + errors.read + errors.write + errors.timeout + errors.status,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3))
end
"""
_SPARE_SECONDS: Final = 30.0


class Told(NamedTuple):
    """What wrk says."""

    requests: int
    seconds: float
    failed: int
    p50_ms: float
    p99_ms: float


def is_installed() -> bool:
    return shutil.which("wrk") is not None


def asked_by_wrk(server: Server, request: str, *, connections: int, seconds: int) -> Told:
    """So many connections ask for so long, each as soon as it has its answer. Raises CalledProcessError."""
    # What is a text in JSON is one in Lua as well, as long as it is ASCII.
    script = _SCRIPT.format(text=json.dumps(request), mark=MARK, digits=DIGITS)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "requests.lua")
        path.write_text(script, encoding="ascii")
        command = ["wrk", "--threads=1", f"--connections={connections}", f"--duration={seconds}s"]
        done = subprocess.run(
            [*command, f"--script={path}", f"http://{server.address}"],
            stdout=subprocess.PIPE,
            text=True,
            timeout=seconds + _SPARE_SECONDS,
            check=True,
        )
    return Told(**json.loads(done.stdout.splitlines()[-1]))
