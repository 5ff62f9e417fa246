"""An operating-system lock per instance, and per leader that is none: a dead local process is known at once.

The kernel drops the lock when the process ends, however it ends. A lock that can be taken belongs
to nobody, so its instance is dead; one that cannot says nothing (the process may be stalled), and
the lease decides.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

if sys.platform != "win32":  # Windows has no flock; there the lease alone decides.
    import fcntl


class Liveness:
    """The lock files beside one database."""

    def __init__(self, database: Path) -> None:
        self._folder = database.with_name(database.name + "-instances")
        self._held: dict[str, int] = {}

    def hold(self, instance_id: str) -> None:
        """Take the lock of an instance of this process; the kernel keeps it until we die or let go."""
        if sys.platform == "win32":
            return
        self._folder.mkdir(exist_ok=True)
        descriptor = os.open(self._file(instance_id), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise
        self._held[instance_id] = descriptor

    def hold_if_free(self, holder: str) -> bool:
        """The same for somebody who may hold it already; whether it was taken just now."""
        if holder in self._held:
            return False
        try:
            self.hold(holder)
        except BlockingIOError:
            return False  # Another store in this process has it.
        return True

    def release(self, instance_id: str) -> None:
        descriptor = self._held.pop(instance_id, None)
        if descriptor is not None:
            self._file(instance_id).unlink(missing_ok=True)
            os.close(descriptor)

    def let_go(self) -> None:
        """Drop every lock and leave the files: an instance that did not retire is found dead at once."""
        for descriptor in self._held.values():
            os.close(descriptor)
        self._held.clear()

    def is_dead(self, instance_id: str) -> bool:
        """Whether the process of this instance has certainly ended."""
        if sys.platform == "win32" or instance_id in self._held:
            return False
        try:
            descriptor = os.open(self._file(instance_id), os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False  # No file: another host's instance, or one being registered. The lease decides.
        try:
            # Shared: two who look at the same time must not take each other for the living.
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return False
        finally:
            os.close(descriptor)
        return True

    def forget(self, instance_id: str) -> None:
        """Remove the file of an instance that was declared dead."""
        if instance_id not in self._held:
            self._file(instance_id).unlink(missing_ok=True)

    def _file(self, instance_id: str) -> Path:
        return self._folder / f"{instance_id}.lock"
