"""A small Service Bus of the tests' own: it speaks AMQP 1.0 with the vendor's package and believes nothing.

    header, SASL ─▶ header, open, begin ─▶ $cbs: put-token ─▶ attach ─▶ transfer ─▶ disposition

A token is recomputed from the key; a link to what it does not cover is refused. How frames and messages are
written in bytes is the package's own codec: that is not what is tested here.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, quote_plus, unquote, urlsplit

from azure.servicebus._pyamqp._decode import decode_frame, decode_payload
from azure.servicebus._pyamqp._encode import encode_frame, encode_payload
from azure.servicebus._pyamqp.endpoints import Source, Target
from azure.servicebus._pyamqp.error import AMQPError
from azure.servicebus._pyamqp.message import Message, Properties
from azure.servicebus._pyamqp.outcomes import Accepted, Rejected
from azure.servicebus._pyamqp.performatives import (
    AttachFrame,
    BeginFrame,
    CloseFrame,
    DetachFrame,
    DispositionFrame,
    EndFrame,
    FlowFrame,
    OpenFrame,
    SASLMechanism,
    SASLOutcome,
    TransferFrame,
)

from backstay.clock import SystemClock

KEY_NAME, KEY = "sender", "a key of the namespace"
SASL, AMQP = b"AMQP\x03\x01\x00\x00", b"AMQP\x00\x01\x00\x00"
CBS = "$cbs"
CREDIT = 100
FRAME_BYTES_MAX = 65_536

# What a frame is, by its code.
OPEN, BEGIN, ATTACH, FLOW, TRANSFER, DISPOSITION, DETACH, END, CLOSE = range(0x10, 0x19)

#: How it behaves, and from when on: speaks no word, is gone at once, speaks no AMQP, refuses the message, …
WELL, MUTE, GONE, BABBLES, REJECTS = "well", "mute", "gone", "babbles", "rejects"
SILENT, BREAKS = "silent", "breaks"


@dataclass
class Arrived:
    """A message as a receiver would see it, by the names of AMQP."""

    entity: str
    body: str
    header: Any
    annotations: dict[str, Any]
    properties: Any
    application: dict[str, Any]

    @property
    def id(self) -> str:
        return _text(self.properties.message_id)

    def said(self) -> dict[str, Any]:
        """All that stands in the properties, but for the times that follow from how long it lives."""
        given = {name: _text(one) for name, one in self.properties._asdict().items() if one is not None}
        return {name: one for name, one in given.items() if not name.endswith("_time")}


@dataclass
class Bus:
    """What it has, what it got, and how it behaves."""

    entities: set[str] = field(default_factory=lambda: {"orders", "news"})
    behaves: list[str] = field(default_factory=lambda: [WELL])
    #: What it says of a token that it refuses; an ill-mannered one repeats it.
    refusal: Callable[[str], str] = lambda _token: "InvalidSignature: The token has an invalid signature."
    host: str = "127.0.0.1"
    port: int = 0
    arrived: list[Arrived] = field(default_factory=list)
    opened: int = 0
    connections: int = 0
    tokens: list[str] = field(default_factory=list)
    names: list[Any] = field(default_factory=list)

    def behaviour(self) -> str:
        return self.behaves.pop(0) if len(self.behaves) > 1 else self.behaves[0]


def covered(token: str, *, key: str = KEY, now: float) -> str | None:
    """The resource that a shared access signature is good for, or None."""
    if not token.startswith("SharedAccessSignature "):
        return None
    said = {name: one[0] for name, one in parse_qs(token.partition(" ")[2]).items()}
    if not {"sr", "sig", "se", "skn"} <= said.keys() or said["skn"] != KEY_NAME:
        return None
    signed = f"{quote_plus(said['sr'])}\n{said['se']}".encode()
    right = base64.b64encode(hmac.new(key.encode(), signed, hashlib.sha256).digest()).decode()
    if not hmac.compare_digest(right, said["sig"]) or int(said["se"]) < now:
        return None
    return urlsplit(unquote(said["sr"])).path.strip("/")


@asynccontextmanager
async def service_bus(tls: ssl.SSLContext | None = None, **given: Any) -> AsyncIterator[Bus]:
    """One that listens until the context is left."""
    bus = Bus(**given)
    talks: set[asyncio.Task[None]] = set()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        talks.add(task)
        bus.opened += 1
        bus.connections += 1
        try:
            await Talk(bus, reader, writer).run()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            bus.connections -= 1
            writer.transport.abort()
            talks.discard(task)

    server = await asyncio.start_server(talk, "127.0.0.1", 0, ssl=tls)
    bus.port = server.sockets[0].getsockname()[1]
    try:
        yield bus
    finally:
        server.close()
        for task in list(talks):
            task.cancel()
        await asyncio.gather(*talks, return_exceptions=True)


class Talk:
    """One connection."""

    def __init__(self, bus: Bus, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._bus = bus
        self._reader = reader
        self._writer = writer
        self._behaves = bus.behaviour()
        self._good_for: set[str] = set()
        #: By the client's number: what it sends to there.
        self._to: dict[int, str] = {}
        #: Where the client reads what $cbs answers.
        self._answers: int | None = None
        self._sent = 0

    async def run(self) -> None:
        if self._behaves == MUTE:
            await self._reader.read()  # Until the client gives up.
            return
        if self._behaves == GONE:
            return
        if self._behaves == BABBLES:
            self._writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            await self._reader.read()
            return
        await self._greeted()
        while True:
            channel, code, fields = await self._frame()
            if code is None:
                continue  # An empty one, by which the client says that it is there.
            if code == CLOSE:
                await self._send(channel, made(CloseFrame))
                return
            if await self._handled(channel, code, fields):
                return

    async def _greeted(self) -> None:
        assert await self._reader.readexactly(8) == SASL
        self._writer.write(SASL)
        await self._send(0, made(SASLMechanism, sasl_server_mechanisms=[b"MSSBCBS", b"ANONYMOUS"]), sasl=True)
        _, code, fields = await self._frame()
        assert (code, bytes(fields[0])) == (0x41, b"ANONYMOUS")
        await self._send(0, made(SASLOutcome, code=0, additional_data=b"Welcome!"), sasl=True)
        assert await self._reader.readexactly(8) == AMQP
        self._writer.write(AMQP)

    async def _handled(self, channel: int, code: int, fields: list[Any]) -> bool:
        """Whether that is the end of it."""
        match code:
            case 0x10:
                self._bus.names.append(_text(fields[1]))
                await self._send(channel, _opened())
            case 0x11:
                await self._send(channel, _begun(channel))
            case 0x12:
                await self._attached(channel, fields)
            case 0x14:
                return await self._transferred(channel, fields)
            case 0x16:
                await self._send(channel, made(DetachFrame, handle=fields[0], closed=True))
            case 0x17:
                await self._send(channel, made(EndFrame))
        return False

    # Links

    async def _attached(self, channel: int, fields: list[Any]) -> None:
        name, handle, reads = fields[0], fields[1], fields[2]
        address = _address(fields[5] if reads else fields[6])
        await self._send(channel, _mirrored(name, handle, fields, reads=reads))
        if address == CBS:
            if reads:
                self._answers = handle
            else:
                await self._credit(channel, handle)
            self._to[handle] = CBS
            return
        entity = urlsplit(address).path.strip("/")
        if not any(entity == one or entity.startswith(f"{one}/") for one in self._good_for):
            await self._detached(channel, handle, b"amqp:unauthorized-access")
        else:
            self._to[handle] = entity
            await self._credit(channel, handle)

    async def _detached(self, channel: int, handle: int, condition: bytes) -> None:
        error = made(AMQPError, condition=condition, description="no")
        await self._send(channel, made(DetachFrame, handle=handle, closed=True, error=error))

    async def _credit(self, channel: int, handle: int) -> None:
        flow = made(
            FlowFrame,
            next_incoming_id=0,
            incoming_window=2048,
            next_outgoing_id=self._sent,
            outgoing_window=2048,
            handle=handle,
            delivery_count=0,
            link_credit=CREDIT,
            available=None,
            drain=False,
            echo=False,
            properties=None,
        )
        await self._send(channel, flow)

    # Messages

    async def _transferred(self, channel: int, fields: list[Any]) -> bool:
        handle, delivery = fields[0], fields[1]
        if handle not in self._to:
            return False  # It was sent before the client read that there is no such link.
        message = decode_payload(memoryview(bytes(fields[-1])))
        if self._to[handle] == CBS:
            await self._settled(channel, delivery, Accepted())
            await self._put_token(channel, message)
            return False
        match self._behaves:
            case "breaks":
                return True
            case "silent":
                return False
            case "rejects":
                error = made(AMQPError, condition=b"amqp:resource-limit-exceeded", description="full")
                await self._settled(channel, delivery, made(Rejected, error=error))
                return False
        self._bus.arrived.append(_arrived(self._to[handle], message))
        await self._settled(channel, delivery, Accepted())
        return False

    async def _put_token(self, channel: int, message: Any) -> None:
        token = _text(message.value)
        self._bus.tokens.append(token)
        asked = {_text(name): _text(one) for name, one in message.application_properties.items()}
        assert asked["operation"] == "put-token"
        # The package says "jwt" of every token; the service looks at the token.
        assert asked["type"] in {"jwt", "servicebus.windows.net:sastoken"}
        resource = covered(token, now=SystemClock().now().timestamp())
        good = resource is not None and urlsplit(asked["name"]).path.strip("/") == resource
        if good and resource is not None:
            self._good_for.add(resource)
        status, said = (202, "Accepted") if good else (401, self._bus.refusal(token))
        if good and resource not in self._bus.entities:
            status, said = 404, f"The messaging entity '{asked['name']}' could not be found."
        answer = made(
            Message,
            properties=made(Properties, correlation_id=message.properties.message_id),
            application_properties={b"status-code": status, b"status-description": said},
            value=None,
        )
        await self._answered(channel, answer)

    async def _answered(self, channel: int, message: Any) -> None:
        payload = bytearray()
        encode_payload(payload, message)
        frame = made(
            TransferFrame,
            handle=self._answers,
            delivery_id=self._sent,
            delivery_tag=str(self._sent).encode(),
            message_format=0,
            settled=True,
            more=False,
            payload=payload,
        )
        self._sent += 1
        await self._send(channel, frame)

    async def _settled(self, channel: int, delivery: int, state: Any) -> None:
        frame = made(
            DispositionFrame,
            role=True,
            first=delivery,
            last=delivery,
            settled=True,
            state=state,
            batchable=False,
        )
        await self._send(channel, frame)

    # Bytes

    async def _frame(self) -> tuple[int, int | None, list[Any]]:
        head = await self._reader.readexactly(8)
        size = int.from_bytes(head[:4], "big")
        assert 8 <= size <= FRAME_BYTES_MAX, head
        body = await self._reader.readexactly(size - 8)
        channel = int.from_bytes(head[6:8], "big")
        if not body:
            return channel, None, []
        code, fields = decode_frame(memoryview(body[4 * head[4] - 8 :]))
        return channel, code, fields

    async def _send(self, channel: int, frame: Any, *, sasl: bool = False) -> None:
        header, body = encode_frame(frame, b"\x01" if sasl else b"\x00")
        self._writer.write(header + channel.to_bytes(2, "big") + bytes(body or b""))
        await self._writer.drain()


def made(kind: Any, **fields: Any) -> Any:
    """One of the package's tuples, of which it wants every field."""
    return kind(**{name: fields.get(name) for name in kind._fields})


def _opened() -> Any:
    return made(OpenFrame, container_id="peer", hostname=None, max_frame_size=FRAME_BYTES_MAX, channel_max=8)


def _begun(channel: int) -> Any:
    return made(
        BeginFrame,
        remote_channel=channel,
        next_outgoing_id=0,
        incoming_window=2048,
        outgoing_window=2048,
        handle_max=255,
    )


def _mirrored(name: Any, handle: int, fields: list[Any], *, reads: bool) -> Any:
    return made(
        AttachFrame,
        name=name,
        handle=handle,
        role=not reads,
        send_settle_mode=fields[3],
        rcv_settle_mode=fields[4],
        source=made(Source, address=_address(fields[5])),
        target=made(Target, address=_address(fields[6])),
        initial_delivery_count=0 if reads else None,
        max_message_size=262_144,
    )


def _arrived(entity: str, message: Any) -> Arrived:
    return Arrived(
        entity=entity,
        body=b"".join(bytes(one) for one in message.data).decode(),
        header=message.header,
        annotations={_text(name): _text(one) for name, one in (message.message_annotations or {}).items()},
        properties=message.properties,
        application={_text(name): _text(one) for name, one in (message.application_properties or {}).items()},
    )


def _address(end: Any) -> Any:
    return None if end is None else _text(end[0])


def _text(value: Any) -> Any:
    return bytes(value).decode() if isinstance(value, bytes | bytearray | memoryview) else value
