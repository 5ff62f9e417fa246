"""Every connection is an open file, of which a process may have so many: room for them, or fewer of them."""

from __future__ import annotations

import dataclasses
import logging
import sys
from typing import Final

from backstay.errors import InvalidSetting
from backstay.observe import FEWER_CONNECTIONS, emit
from backstay.runtime.protocol import CONNECTIONS_IN_RESERVE, CONNECTIONS_TURNED_AWAY
from backstay.settings import Settings

#: Beside connections: the store, streams, the connections of agents, libraries that are yet to be imported.
FILES_BESIDE: Final = 256

_BESIDE_THOSE_THAT_ASK: Final = CONNECTIONS_IN_RESERVE + CONNECTIONS_TURNED_AWAY + FILES_BESIDE


def with_room(settings: Settings) -> Settings:
    """These settings, with no more connections than this process may have files open for.

    What is usual, 1,024, is raised to what is needed, as far as the system lets us. Without room a
    connection would not be refused but wait for nothing, and the store might not open its file either.
    Raises InvalidSetting where not even one connection has room.
    """
    files = _raised_to(settings.connections_max + _BESIDE_THOSE_THAT_ASK)
    if files is None:
        return settings
    room = files - _BESIDE_THOSE_THAT_ASK
    told = f"{_told(settings, files=files)}: raise that (ulimit -Hn, LimitNOFILE of a systemd unit)"
    if room < 1:
        raise InvalidSetting(told)
    emit(
        FEWER_CONNECTIONS,
        level=logging.WARNING,
        message=f"{told}, or set connections_max to {room:,}, which counts now",
    )
    return dataclasses.replace(settings, connections_max=room)


def _told(settings: Settings, *, files: int) -> str:
    needed = settings.connections_max + _BESIDE_THOSE_THAT_ASK
    return (
        f"connections_max is {settings.connections_max:,}, for which {needed:,} open files are needed,"
        f" and this process may have {files:,}"
    )


def _raised_to(needed: int) -> int | None:
    """How many files may be open where that is less than ``needed``, after we tried; None: enough."""
    if sys.platform == "win32":
        return None
    import resource  # noqa: PLC0415  Not there on Windows.

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return None
    most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    except (OSError, ValueError):
        most = soft  # The kernel may have another limit than the one that it tells.
    return most if most < needed else None
