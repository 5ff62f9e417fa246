"""What changed, told to the other processes on the same store by LISTEN and NOTIFY.

A notice leaves with the commit that it tells of. Some poolers swallow notices, and a network may
hang: so we send one to ourselves now and then, and while none arrives we say, twice a second, that
anything may have changed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from typing import Any, Final, TypeVar

import asyncpg
import msgspec

from backstay.errors import BackstayError
from backstay.observe import STORE_DEAF, emit, log
from backstay.store.base import Changes, Listener
from backstay.store.postgres.connection import LOST, Server

# A notice must stay below 8,000 bytes. An id has up to 200 characters, a key up to 19 digits.
_IDS_PER_NOTICE: Final = 35
_KEYS_PER_NOTICE: Final = 350

POLL_SECONDS: Final = 0.5
POLLS_PER_PROBE: Final = 4
PROBE_EVERY_SECONDS: Final = 10.0
PROBE_WAIT_SECONDS: Final = 2.0

Item = TypeVar("Item")


class Notice(msgspec.Struct, omit_defaults=True):
    """What one commit changed, for other processes."""

    # The lane that wrote it: who heard it from the commit itself need not hear it again.
    by: str
    claimable: bool = False
    controls: bool = False
    requests: bool = False
    withdrawn: bool = False
    ownership: bool = False
    jobs: bool = False
    touched: list[int] = []
    replied: list[int] = []
    settled: list[str] = []
    queues: list[str] = []
    probe: int = 0


_decode: Final = msgspec.json.Decoder(Notice).decode

_NOTHING: Final = Changes()


def notices(changes: Changes, by: str) -> list[str]:
    """The notices that tell of ``changes``; none when there is nothing to tell."""
    found = [Notice(by, settled=ids) for ids in _cut([task.id for task in changes.settled], _IDS_PER_NOTICE)]
    found += [Notice(by, touched=keys) for keys in _cut(changes.touched, _KEYS_PER_NOTICE)]
    found += [Notice(by, queues=names) for names in _cut(sorted(set(changes.queues)), _IDS_PER_NOTICE)]
    found += [Notice(by, replied=keys) for keys in _cut(changes.replied, _KEYS_PER_NOTICE)]
    signs = Notice(
        by,
        claimable=changes.claimable,
        controls=changes.controls,
        requests=changes.requests,
        withdrawn=changes.withdrawn,
        ownership=changes.ownership,
        jobs=changes.jobs,
    )
    if signs != Notice(by):
        found.append(signs)
    return [msgspec.json.encode(notice).decode() for notice in found]


def _cut(items: Sequence[Item], size: int) -> Iterator[list[Item]]:
    for start in range(0, len(items), size):
        yield list(items[start : start + size])


class News:
    """Tells those in this process who listen what changed, here and elsewhere."""

    def __init__(
        self, server: Server, *, session: str, channel: str, send: Callable[[str], Awaitable[object]]
    ) -> None:
        self._server = server
        self._session = session
        self._channel = channel
        self._send = send
        self._listeners: list[Listener] = []
        self._connection: asyncpg.Connection | None = None
        self._probe = 0
        self._heard = asyncio.Event()
        self._lost = asyncio.Event()
        self._deaf = False

    def listen(self, listener: Listener) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def tell(self, changes: Changes) -> None:
        if changes == _NOTHING:
            return
        for listener in tuple(self._listeners):
            try:
                listener(changes)
            except Exception:  # noqa: BLE001  One listener's trouble must not keep the news from others.
                log.exception("what follows a commit failed")

    async def run(self) -> None:
        """Listen, until cancelled."""
        try:
            while True:
                self._lost.clear()
                reason = await self._why_deaf()
                self._report(reason)
                if reason is None:
                    await _within(PROBE_EVERY_SECONDS, self._lost.wait())
                else:
                    self._let_go()
                    await self._look_by_ourselves()
        finally:
            self._let_go()

    async def _why_deaf(self) -> str | None:
        """Why a notice that we send does not come back to us; ``None`` when it does."""
        self._probe += 1
        self._heard.clear()
        probe = msgspec.json.encode(Notice(self._session, probe=self._probe)).decode()
        try:
            await self._connect()
            await self._send(probe)
        except (*LOST, asyncpg.PostgresError, asyncpg.InterfaceError, BackstayError) as error:
            return str(self._server.translated(error))
        if await _within(PROBE_WAIT_SECONDS, self._heard.wait()):
            return None
        return "notices do not arrive; is there a pooler in transaction mode?"

    async def _connect(self) -> None:
        if self._connection is not None and not self._connection.is_closed():
            return
        connection = await self._server.connect()
        self._connection = connection
        connection.add_termination_listener(lambda _connection: self._lost.set())
        await connection.add_listener(self._channel, self._receive)
        # What was said before we listened, nobody repeats.
        self.tell(Changes(settled=[], touched=[], foreign=True))

    def _receive(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        try:
            notice = _decode(str(payload))
        except msgspec.DecodeError:
            # Not in our words, so of another release: something changed, whatever it was.
            self.tell(Changes(settled=[], touched=[], foreign=True))
            return
        if notice.by.partition("/")[0] != self._session:
            self.tell(
                Changes(
                    claimable=notice.claimable,
                    controls=notice.controls,
                    requests=notice.requests,
                    withdrawn=notice.withdrawn,
                    ownership=notice.ownership,
                    jobs=notice.jobs,
                    replied=notice.replied,
                    touched=notice.touched,
                    ended=notice.settled,
                    queues=notice.queues,
                )
            )
        elif notice.probe == self._probe:
            self._heard.set()

    def _report(self, reason: str | None) -> None:
        if reason is not None and not self._deaf:
            emit(
                STORE_DEAF,
                level=logging.WARNING,
                store=self._server.address.label,
                reason=reason,
                remedy=f"looking every {POLL_SECONDS} s instead",
            )
        self._deaf = reason is not None

    async def _look_by_ourselves(self) -> None:
        """Say for a while that anything may have changed."""
        for _ in range(POLLS_PER_PROBE):
            self.tell(Changes(settled=[], touched=[], foreign=True))
            await asyncio.sleep(POLL_SECONDS)

    def _let_go(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()


async def _within(seconds: float, event: Coroutine[Any, Any, object]) -> bool:
    """Whether what is awaited came true within ``seconds``."""
    try:
        async with asyncio.timeout(seconds):
            await event
    except TimeoutError:
        return False
    return True
