"""A network between a client and PostgreSQL that fails where a test wants it to.

It reads the messages that pass, so that it can lose a COMMIT on its way to the server, or the answer to
it: the two cases that a client cannot tell apart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from types import TracebackType
from typing import Literal, NamedTuple, Self
from urllib.parse import urlencode

from tests.support.postgres import HOST, USER

Moment = Literal["before", "after"]

#: Is shown what a connection has had executed since its BEGIN, up to and including the COMMIT.
Chooser = Callable[[Sequence[str]], bool]

# What a client may send ahead of its startup packet, and the answer that makes it go on in plain text.
_REQUESTS_FOR_ENCRYPTION = (80877103, 80877104)
_IN_PLAIN_TEXT = b"N"


class _FromClient:
    """The types of those messages of a client that matter here."""

    QUERY, PARSE, BIND, EXECUTE = b"Q", b"P", b"B", b"E"


class _FromServer:
    COMMAND_COMPLETE, ERROR, NOTIFICATION = b"C", b"E", b"A"


def mentions(text: str) -> Chooser:
    """Chooses the transactions that executed a statement with ``text`` in it."""
    return lambda statements: any(text in statement for statement in statements)


class PgProxy:
    """Listens on a port of its own and forwards each connection to the server on ``server_port``."""

    def __init__(self, server_port: int) -> None:
        self.server_port = server_port
        self.port = 0
        #: Lose every notification, as a pooler does that lends its connections by the transaction.
        self.swallow_notifications = False
        #: Close every new connection at once.
        self.refuse = False
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._losses: list[_Loss] = []
        self._links: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._accept, HOST, 0)
        self.port = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()
        self.refuse = True  # whoever was accepted just before
        self.drop_all()
        if self._links:
            await asyncio.wait(self._links)
        await self._listener.wait_closed()

    def url(self, database: str = "postgres", schema: str | None = None) -> str:
        query = f"?{urlencode({'schema': schema})}" if schema else ""
        return f"postgresql://{USER}@{HOST}:{self.port}/{database}{query}"

    def lose_commit(self, moment: Moment, *, when: Chooser = lambda _: True) -> asyncio.Event:
        """Cut the connection of the next COMMIT that ``when`` chooses, once; the event tells that it is done.

        Before: the server never gets that COMMIT. After: the server has answered it, and the client never
        hears what.
        """
        loss = _Loss(moment, when)
        self._losses.append(loss)
        return loss.done

    def drop_all(self) -> None:
        """Cut every connection."""
        for link in self._links:
            link.cancel()

    def hold(self) -> None:
        """Forward nothing more, and close nothing: the network hangs."""
        self._flowing.clear()

    def release(self) -> None:
        """Go on with everything that was held up."""
        self._flowing.set()

    # ------------------------------------------------------------ for its links

    async def flowing(self) -> None:
        await self._flowing.wait()

    def take_loss(self, statements: Sequence[str]) -> _Loss | None:
        """The loss that a test wants for the transaction of these statements; nobody else gets it."""
        for loss in self._losses:
            if loss.when(statements):
                self._losses.remove(loss)
                return loss
        return None

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = _Side(reader, writer)
        if self.refuse:
            client.close()
            return
        link = asyncio.create_task(_Link(self, client).run())
        self._links.add(link)
        link.add_done_callback(self._links.discard)
        link.add_done_callback(lambda _: client.close())  # for one that is cut before it begins


@dataclass(frozen=True)
class _Loss:
    moment: Moment
    when: Chooser
    done: asyncio.Event = field(default_factory=asyncio.Event)


class _Link:
    """A client's connection, and the one to the server that was made for it: they end together."""

    def __init__(self, proxy: PgProxy, client: _Side) -> None:
        self._proxy = proxy
        self._client = client
        self._transcript = _Transcript()
        self._loss: _Loss | None = None

    async def run(self) -> None:
        try:
            with closing(self._client) as client:
                await self._proxy.flowing()
                with closing(await _Side.to(self._proxy.server_port)) as server:
                    await self._begin(client, server)
                    async with asyncio.TaskGroup() as both:
                        both.create_task(self._forward_requests(client, server))
                        both.create_task(self._forward_answers(server, client))
        except* (EOFError, OSError):
            pass  # a side has closed its end, or its end is to be lost here
        finally:
            if self._loss is not None:
                self._loss.done.set()

    async def _begin(self, client: _Side, server: _Side) -> None:
        """Forward the startup packet; every message after it has a type."""
        packet = await client.packet()
        while int.from_bytes(packet[4:8], "big") in _REQUESTS_FOR_ENCRYPTION:
            await self._proxy.flowing()
            await client.send(_IN_PLAIN_TEXT)
            packet = await client.packet()
        await self._proxy.flowing()
        await server.send(packet)

    async def _forward_requests(self, client: _Side, server: _Side) -> None:
        while True:
            message = await client.message()
            await self._proxy.flowing()
            if self._transcript.commits(message) and self._loss is None:
                self._loss = self._proxy.take_loss(self._transcript.statements)
                if self._loss is not None and self._loss.moment == "before":
                    raise ConnectionAbortedError
            await server.send(message.whole)

    async def _forward_answers(self, server: _Side, client: _Side) -> None:
        while True:
            message = await server.message()
            await self._proxy.flowing()
            if self._loss is not None and message.ends_commit:
                raise ConnectionAbortedError
            if message.type == _FromServer.NOTIFICATION and self._proxy.swallow_notifications:
                continue
            await client.send(message.whole)


class _Transcript:
    """What a client has had executed since its last BEGIN, as its messages tell."""

    def __init__(self) -> None:
        self.statements: list[str] = []
        self._prepared: dict[bytes, str] = {}
        self._portals: dict[bytes, str] = {}

    def commits(self, message: _Message) -> bool:
        """Note what this message has executed; whether that ends in a COMMIT."""
        sql = self._executed(message)
        if sql is None:
            return False
        if sql.lstrip().upper().startswith(("BEGIN", "START TRANSACTION")):
            self.statements.clear()
        self.statements.append(sql)
        last = sql.strip("; \n").rpartition(";")[2]
        return last.strip().upper() == "COMMIT"

    def _executed(self, message: _Message) -> str | None:
        # A statement is parsed once; from then on it goes by its name, bound with arguments to a portal.
        # Those that were named in SQL (PREPARE, DECLARE) are not followed.
        match message.type, message.body.split(b"\0", 2):
            case _FromClient.QUERY, [sql, *_]:
                return sql.decode(errors="replace")
            case _FromClient.PARSE, [name, sql, _]:
                self._prepared[name] = sql.decode(errors="replace")
            case _FromClient.BIND, [portal, name, _]:
                self._portals[portal] = self._prepared.get(name, "")
            case _FromClient.EXECUTE, [portal, *_]:
                return self._portals.get(portal, "")
        return None


class _Message(NamedTuple):
    type: bytes
    packet: bytes

    @property
    def whole(self) -> bytes:
        return self.type + self.packet

    @property
    def body(self) -> bytes:
        return self.packet[4:]

    @property
    def ends_commit(self) -> bool:
        """Whether a server answers so to a COMMIT: done, rolled back instead, or failed."""
        if self.type == _FromServer.COMMAND_COMPLETE:
            return self.body in (b"COMMIT\0", b"ROLLBACK\0")
        return self.type == _FromServer.ERROR


class _Side:
    """One end of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        # What is sent has left when `send` returns: closing at once takes none of it back.
        writer.transport.set_write_buffer_limits(high=0)

    @classmethod
    async def to(cls, port: int) -> Self:
        return cls(*await asyncio.open_connection(HOST, port))

    async def packet(self) -> bytes:
        """A message without a type: its length, itself included, and its content."""
        length = await self._reader.readexactly(4)
        return length + await self._reader.readexactly(int.from_bytes(length, "big") - len(length))

    async def message(self) -> _Message:
        return _Message(await self._reader.readexactly(1), await self.packet())

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    def close(self) -> None:
        self._writer.transport.abort()
