"""The file that holds the keys of secrets: one on a line, the newest first.

It appears whole or not at all, and durably before anything is sealed with what is in it. Of two processes
that make it at once one wins, and both use what it made.
"""

from __future__ import annotations

import os
import secrets
import stat
import sys
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from backstay.domain.sealing import KEY_BYTES, KEYS_MAX, SecretKey, key_of, read_keys
from backstay.errors import InvalidRequest, SecretKeyMissing

if sys.platform != "win32":  # Windows has neither flock nor modes; there the folder has to be guarded.
    import fcntl

#: What belongs to a file of keys is not more than this.
FILE_BYTES_MAX: Final = 16 * 1024
_OWNER_ONLY: Final = 0o600
_HEAD: Final = """\
# The keys that seal the secrets of jobs: the first one seals, all of them open what they sealed.
# Without this file those secrets are lost. Keep a copy, and not beside the copies of the store.
"""


class KeyFile:
    """Keys that lie in a file. Whoever looks sees what is in it now."""

    def __init__(self, path: Path, *, may_make: bool = True) -> None:
        self.path = path
        # Where several hosts share a store, each would make its own.
        self.may_make = may_make
        # What the file was like when it was read, and what was in it; threads replace both at once.
        self._last: tuple[tuple[int, int, int], tuple[SecretKey, ...]] | None = None

    def keys(self) -> tuple[SecretKey, ...]:
        """What is in it; nothing where there is no file. Raises SecretKeyMissing if it may not be used."""
        try:
            with self.path.open("rb") as file:
                status = os.fstat(file.fileno())
                self._check(status)
                seen = (status.st_ino, status.st_mtime_ns, status.st_size)
                last = self._last
                if last is None or last[0] != seen:
                    last = self._last = (seen, self._read(file.read(FILE_BYTES_MAX + 1)))
                return last[1]
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise SecretKeyMissing(f"the key file {self.path} cannot be read: {error.strerror}") from error

    def made(self) -> tuple[SecretKey, ...]:
        """Those that are in it, which is made if it is not there."""
        return self.keys() or self._make()

    def add(self) -> SecretKey:
        """A new key, which seals from now on. Those before it open; beyond KEYS_MAX the oldest go."""
        if not self.keys():
            return self._make()[0]
        new = _new_key()
        with self._alone():
            self._replace((new, *self.keys())[:KEYS_MAX])
        return new

    # Reading

    def _check(self, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise SecretKeyMissing(f"the key file {self.path} is no file; name another as secret_key_file")
        if sys.platform != "win32" and status.st_mode & 0o077:
            raise SecretKeyMissing(
                f"the key file {self.path} can be read or written by others than its owner, and is not used:"
                f" chmod 600 {self.path}; if others may have read it, make a new key as well"
                " (backstay store rotate-key)"
            )

    def _read(self, content: bytes) -> tuple[SecretKey, ...]:
        lines = [line.strip() for line in content.decode("utf-8", "replace").splitlines()]
        written = [line for line in lines if line and not line.startswith("#")]
        try:
            if not written or len(content) > FILE_BYTES_MAX:
                raise InvalidRequest("holds no key, or is no file of keys")
            return read_keys(written)
        except InvalidRequest as error:
            raise SecretKeyMissing(
                f"the key file {self.path}: a line {error}; bring back a copy of the file"
            ) from None

    # Writing

    def _make(self) -> tuple[SecretKey, ...]:
        with self._prepared([_new_key()]) as prepared:
            try:
                # Unlike a rename, a link replaces nothing: who comes second uses what the first one made.
                os.link(prepared, self.path)
            except FileExistsError:
                pass
            except OSError as error:
                raise self._not_written(error) from error
        return self.keys()

    def _replace(self, keys: Sequence[SecretKey]) -> None:
        with self._prepared(keys) as prepared:
            prepared.replace(self.path)

    @contextmanager
    def _prepared(self, keys: Sequence[SecretKey]) -> Iterator[Path]:
        """A file beside ours with these keys, on the disk; afterwards ours is, if it was put there."""
        beside = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}")
        text = _HEAD + "".join(f"{b64encode(key.material).decode()}\n" for key in keys)
        try:
            descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(text.encode())
                    file.flush()
                    os.fsync(file.fileno())
                yield beside
                _sync_folder(self.path.parent)
            finally:
                beside.unlink(missing_ok=True)
        except OSError as error:
            raise self._not_written(error) from error

    def _not_written(self, error: OSError) -> SecretKeyMissing:
        return SecretKeyMissing(
            f"the key file {self.path} cannot be written: {error.strerror};"
            " name another as secret_key_file, or give a key as secret_key"
        )

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Nobody else replaces the file meanwhile: of two who add a key neither loses the other's."""
        if sys.platform == "win32":
            yield
            return
        while True:
            with self.path.open("rb") as file:
                fcntl.flock(file.fileno(), fcntl.LOCK_EX)
                # While we waited it may have been replaced: then we hold one that is gone.
                if _is_at(file.fileno(), self.path):
                    yield
                    return


def _is_at(descriptor: int, path: Path) -> bool:
    return os.path.samestat(os.fstat(descriptor), path.stat())


def _new_key() -> SecretKey:
    return key_of(secrets.token_bytes(KEY_BYTES))


def _sync_folder(folder: Path) -> None:
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
