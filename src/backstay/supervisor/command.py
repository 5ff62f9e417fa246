"""Tells of alerts by starting a program."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

import msgspec

from backstay.domain.alert import Alert
from backstay.domain.durations import describe
from backstay.domain.sinks import Command
from backstay.supervisor.sinks import NotTold

KEY_VARIABLE: Final = "ALERT_KEY"
_SETTINGS: Final = "BACKSTAY_"


class CommandSink:
    """Starts a program, without a shell, with the alert as JSON on its standard input.

    What it prints is thrown away; it has told whoever it tells when it ends with 0. It sees none of our
    settings, and when its time is over it is killed with all that it started.
    """

    def __init__(self, target: Command, *, timeout: timedelta) -> None:
        self._target = target
        self._timeout = timeout

    @property
    def name(self) -> str:
        return self._target.name

    async def tell(self, alert: Alert) -> None:
        try:
            process = await self._start(alert)
        except (OSError, ValueError) as error:
            raise NotTold(f"the command cannot be started: {type(error).__name__}") from None
        try:
            async with asyncio.timeout(self._timeout.total_seconds()):
                await process.communicate(msgspec.json.encode(alert))
        except TimeoutError:
            raise NotTold(f"the command did not end within {describe(self._timeout)}") from None
        finally:
            await _end(process)
        if process.returncode != 0:
            raise NotTold(f"the command ended with {process.returncode}")

    async def close(self) -> None:
        """Nothing is kept open."""

    async def _start(self, alert: Alert) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *self._target.argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            env=_environment(os.environ, alert),
            start_new_session=True,
        )


def _environment(ours: Mapping[str, str], alert: Alert) -> dict[str, str]:
    theirs = {name: value for name, value in ours.items() if not name.startswith(_SETTINGS)}
    return {**theirs, KEY_VARIABLE: alert.key}


async def _end(process: asyncio.subprocess.Process) -> None:
    """Whatever of it is left: a program that ended may have started others."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
