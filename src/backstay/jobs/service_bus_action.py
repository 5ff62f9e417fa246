"""The actions that send to queues and topics of Azure Service Bus, by the vendor's own package.

The only module of this role that knows that package, which is in the extra ``azure``. It opens connections by
itself, to a host; so that none leads where it may not, it is given an address that was looked up and checked
here, and TLS that still wants the certificate of the host.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import ssl
from datetime import timedelta
from http import HTTPStatus
from typing import Any, Final

from azure.core.credentials import AzureNamedKeyCredential
from azure.servicebus import ServiceBusMessage, TransportType
from azure.servicebus.aio import ServiceBusSender
from azure.servicebus.amqp import AmqpMessageHeader
from azure.servicebus.exceptions import (
    MessagingEntityNotFoundError,
    OperationTimeoutError,
    ServiceBusAuthenticationError,
    ServiceBusAuthorizationError,
    ServiceBusConnectionError,
    ServiceBusError,
)

from backstay.domain.jobs.brokered import Addressed, Brokered, Bus, brokered
from backstay.domain.jobs.messages import (
    ADDRESS_REFUSED,
    service_bus_failed,
    service_bus_missing,
    service_bus_sent,
)
from backstay.domain.outbound import Outbound
from backstay.jobs.tried import Tried
from backstay.jobs.vendor import hush
from backstay.outbound import checked_address, tls_with, was_refused

#: For a farewell nobody waits long.
CLOSE_SECONDS_MAX: Final = 2.0

#: What the broker calls a property, and what the package does.
_FIELDS: Final = {
    "contentType": "content_type",
    "correlationId": "correlation_id",
    "label": "subject",
    "partitionKey": "partition_key",
    "replyTo": "reply_to",
    "replyToSessionId": "reply_to_session_id",
    "to": "to",
}
_VIA_PARTITION_KEY: Final = "x-opt-via-partition-key"
# What a broker calls its reason; anything else that it says is for nobody to read.
_CONDITION: Final = re.compile(r"[a-z][a-z.:-]{1,63}")
_TIMED_OUT: Final = "Timeout The operation has timed out"
_CLOSED: Final = "ConnectionClosed The underlying connection was closed unexpectedly"


class ServiceBusAction:
    """An attempt is one connection and one message, with a time limit; the package's own retries are off."""

    def __init__(self, *, timeout: timedelta, outbound: Outbound) -> None:
        self._seconds = timeout.total_seconds()
        self._outbound = outbound
        hush("azure.servicebus")

    async def send(self, to: Addressed, bus: Bus, *, key: str, sas: tuple[str, str]) -> Tried:
        """Send it under ``key``, unless the job names the message itself. ``sas`` is a name and its key."""
        where = (to.kind, to.name, to.namespace)
        try:
            made = brokered(to.message, key=key)
            message = message_of(to.message["message"], made)
        except ValueError as error:
            # Of what the job says of its message; a key has no part in it.
            return Tried(succeeded=False, message=service_bus_failed(*where, str(error)))
        try:
            await self._sent(message, to, bus, sas)
        except TimeoutError:
            reason = _TIMED_OUT
        except ServiceBusError as error:
            if _is_missing(error):
                return Tried(succeeded=False, message=service_bus_missing(*where))
            reason = _reason(error)
        except OSError as error:
            reason = _of_connection(error, bus.host)
        else:
            return Tried(succeeded=True, message=service_bus_sent(*where, made.id))
        return Tried(succeeded=False, message=service_bus_failed(*where, reason))

    async def _sent(self, message: ServiceBusMessage, to: Addressed, bus: Bus, sas: tuple[str, str]) -> None:
        sender: _Sender | None = None
        try:
            async with asyncio.timeout(self._seconds):
                address = await checked_address(self._outbound, bus.host, bus.port)
                sender = _sender(to, bus, address, sas)
                await sender.send_messages(message, timeout=self._seconds)
        finally:
            # Past the time limit: it must not make a failure of a message that was accepted.
            if sender is not None:
                await sender.hang_up()


def message_of(text: str, made: Brokered) -> ServiceBusMessage:
    """With each property where AMQP has it. Raises ValueError where they contradict each other."""
    said: dict[str, Any] = {_FIELDS[name]: one for name, one in made.said.items() if name in _FIELDS}
    custom: dict[str | bytes, Any] = dict(made.custom.items())
    message = ServiceBusMessage(
        text,
        message_id=made.id,
        session_id=made.session,
        time_to_live=made.ttl,
        scheduled_enqueue_time_utc=made.at,
        application_properties=custom or None,
        **said,
    )
    raw = message.raw_amqp_message
    if "viaPartitionKey" in made.said:
        raw.annotations = {**(raw.annotations or {}), _VIA_PARTITION_KEY: made.said["viaPartitionKey"]}
    if made.said.get("forcePersistence"):
        ttl = None if raw.header is None else raw.header.time_to_live
        raw.header = AmqpMessageHeader(durable=True, time_to_live=ttl)
    return message


class _Sender(ServiceBusSender):
    """Closes its connection in every state: the package leaves one open that broke, or was not yet ready."""

    async def hang_up(self) -> None:
        """In bounded time; whether the message is there is known by then."""
        with contextlib.suppress(Exception):
            async with asyncio.timeout(CLOSE_SECONDS_MAX):
                await self.close()

    async def _close_handler(self) -> None:
        connection = getattr(self._handler, "_connection", None)
        try:
            await super()._close_handler()  # type: ignore[no-untyped-call]
        finally:
            if connection is not None:
                await connection._transport.close()  # noqa: SLF001  There is no other way to it.


def _sender(to: Addressed, bus: Bus, address: str, sas: tuple[str, str]) -> _Sender:
    name = f"[{bus.host}]" if ":" in bus.host else bus.host
    return _Sender(
        name if bus.tls else f"{name}:{bus.port}",
        AzureNamedKeyCredential(*sas),
        **({"topic_name": to.name} if to.to_topic else {"queue_name": to.name}),
        custom_endpoint_address=f"sb://{f'[{address}]' if ':' in address else address}:{bus.port}",
        # Whatever the job says: what was called netMessaging is spoken by nobody any more.
        transport_type=TransportType.Amqp,
        use_tls=bus.tls,
        ssl_context=tls_with(bus.host) if bus.tls else None,
        retry_total=0,
        # A connection for one message needs none, and would be waited for at its end.
        keep_alive=0,
        logging_enable=False,
        user_agent="backstay",
    )


# What went wrong, in our own words: what others say may show what was sent to them.


def _is_missing(error: ServiceBusError) -> bool:
    # Who asks for what is not there is told so as early as when it shows its token.
    status = getattr(error.inner_exception, "status_code", None)
    return isinstance(error, MessagingEntityNotFoundError) or status == HTTPStatus.NOT_FOUND


def _reason(error: ServiceBusError) -> str:
    inner = error.inner_exception
    if isinstance(error, OperationTimeoutError) or isinstance(inner, TimeoutError):
        return _TIMED_OUT
    status = getattr(inner, "status_code", None)
    if status is not None or isinstance(error, ServiceBusAuthenticationError | ServiceBusAuthorizationError):
        return "'Unauthorized' The sasKeyName or the sasKey is not accepted"
    if isinstance(inner, Exception) and isinstance(cause := inner.__cause__, OSError):
        return _of_connection(cause, "")
    if isinstance(error, ServiceBusConnectionError) or inner is None or _condition(inner) is None:
        return _CLOSED
    return f"'{_condition(inner)}' The message is not accepted"


def _condition(error: BaseException) -> str | None:
    given = getattr(error, "condition", None)
    text = given.decode("ascii", "replace") if isinstance(given, bytes) else str(given)
    return text if _CONDITION.fullmatch(text) else None


def _of_connection(error: OSError, host: str) -> str:
    if was_refused(error):
        return f"ConnectFailure {ADDRESS_REFUSED}"
    match error:
        case socket.gaierror():
            return f"NameResolutionFailure The remote name could not be resolved: '{host}'"
        case ssl.SSLCertVerificationError():
            return "TrustFailure Could not establish trust relationship for the SSL/TLS secure channel"
        case ssl.SSLError():
            return "SecureChannelFailure Could not create SSL/TLS secure channel"
        # One without a number is the package's own: it read the end of the connection.
        case ConnectionResetError() | BrokenPipeError() | OSError(errno=None):
            return _CLOSED
    return "ConnectFailure Unable to connect to the remote server"
