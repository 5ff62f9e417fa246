"""The action that sends to a queue of Azure Storage, by the vendor's own package.

The only module of this role that knows that package, which is in the extra ``azure``.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import uuid
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final
from xml.sax.saxutils import escape

from aiohttp import (
    ClientConnectorDNSError,
    ClientPayloadError,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    DummyCookieJar,
)
from azure.core.credentials import AzureSasCredential
from azure.core.exceptions import AzureError, HttpResponseError, ServiceRequestError
from azure.core.pipeline.transport import AioHttpTransport
from azure.storage.queue.aio import QueueClient

from backstay.domain.jobs.messages import (
    ADDRESS_REFUSED,
    status_name,
    storage_account_missing,
    storage_failed,
    storage_queue_missing,
    storage_sent,
)
from backstay.domain.jobs.occurrences import Run
from backstay.domain.outbound import Outbound
from backstay.jobs.tried import Tried
from backstay.jobs.vendor import hush
from backstay.outbound import guarded_connector, was_refused

#: No answer that says something is larger.
ANSWER_BYTES_MAX: Final = 64 * 1024

# They become part of an address: nothing else may come of them than names of an account and of a queue.
_ACCOUNT: Final = re.compile(r"[a-z0-9]{3,24}")
_QUEUE: Final = re.compile(r"[a-z0-9-]{3,63}")
_NOT_IN_XML: Final = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# What an answer calls its reason; anything longer or with blanks in it is not that.
_CODE: Final = re.compile(r"[A-Za-z]{1,64}")

_OPENING: Final = (
    '<StorageQueueMessage xmlns:xsd="http://www.w3.org/2001/XMLSchema"'
    ' xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">'
)


class StorageQueueAction:
    """An attempt is one request, with a time limit; the package's own retries are off."""

    def __init__(self, *, endpoint: str, timeout: timedelta, outbound: Outbound) -> None:
        self._endpoint = endpoint
        self._outbound = outbound
        self._seconds = timeout.total_seconds()
        hush("azure.storage")

    async def send(self, message: Mapping[str, Any], text: str, *, token: str) -> Tried:
        account, queue = message["storageAccount"].lower(), message["queueName"]
        if _ACCOUNT.fullmatch(account) is None:
            return Tried(succeeded=False, message=storage_account_missing(account, queue))
        if _QUEUE.fullmatch(queue) is None:
            return Tried(succeeded=False, message=storage_queue_missing(queue, account))
        try:
            async with (
                asyncio.timeout(self._seconds),
                self._session() as session,
                self._client(account, queue, token, session) as client,
            ):
                await client.send_message(text)
        except TimeoutError:
            said = storage_failed(account, queue, "Timeout The operation has timed out")
        except AzureError as error:
            said = _reason(error, account, queue)
        except ValueError:
            # Its text would show the address, and with it the token.
            said = storage_failed(account, queue, "the address, or the sasToken, cannot be read")
        else:
            return Tried(succeeded=True, message=storage_sent(account, queue))
        return Tried(succeeded=False, message=said)

    def _session(self) -> ClientSession:
        """What the package would open by itself goes wherever a name leads; this one is guarded."""
        return ClientSession(
            connector=guarded_connector(self._outbound, limit=1),
            cookie_jar=DummyCookieJar(),
            timeout=ClientTimeout(total=None),
            response_class=_BoundedResponse,
        )

    def _client(self, account: str, queue: str, token: str, session: ClientSession) -> QueueClient:
        return QueueClient(
            self._endpoint.replace("{account}", account),
            queue,
            AzureSasCredential(token.removeprefix("?")),
            transport=AioHttpTransport(session=session, session_owner=False, use_env_settings=False),
            retry_total=0,
            permit_redirects=False,
            logging_enable=False,
        )


class _BoundedResponse(ClientResponse):
    """One that the package, which reads an answer as a whole, does not read without end."""

    async def read(self) -> bytes:
        if self._body is None:
            body = bytearray()
            async for piece in self.content.iter_any():
                body += piece
                if len(body) > ANSWER_BYTES_MAX:
                    self.close()
                    raise ClientPayloadError("it is too large")
            self._body = bytes(body)
        return self._body


def envelope(run: Run, message: str, *, attempt: str) -> str:
    """The text of a message as the original service wrote it, which receivers take apart."""
    members = {
        "ExecutionTag": hashlib.sha256(run.occurrence.task_id.encode()).hexdigest()[:32],
        "ClientRequestId": str(uuid.uuid5(uuid.NAMESPACE_URL, attempt)),
        "ExpectedExecutionTime": run.occurrence.at.replace(microsecond=0, tzinfo=None).isoformat(),
        "SchedulerJobId": run.job,
        "SchedulerJobCollectionId": run.collection.name,
        "Region": run.region,
        "Message": message,
    }
    lines = [f"  <{name}>{_xml(one)}</{name}>" for name, one in members.items()]
    return "\n".join(
        [
            '<?xml version="1.0" encoding="utf-16"?>',
            _OPENING,
            *lines,
            "</StorageQueueMessage>",
        ]
    )


def _xml(text: str) -> str:
    return escape(_NOT_IN_XML.sub("\ufffd", text))


def _reason(error: AzureError, account: str, queue: str) -> str:
    """In our own words: what the package says may show the address, and with it the token."""
    if isinstance(error, HttpResponseError) and error.status_code is not None:
        given = getattr(error, "error_code", None)
        code = str(getattr(given, "value", given) or "")
        if code == "QueueNotFound":
            return storage_queue_missing(queue, account)
        told = code if _CODE.fullmatch(code) else ""
        return storage_failed(account, queue, f"'{status_name(error.status_code)}' {told}".rstrip())
    if isinstance(error.__cause__, Exception) and was_refused(error.__cause__):
        return storage_failed(account, queue, f"ConnectFailure {ADDRESS_REFUSED}")
    if isinstance(error.__cause__, ClientConnectorDNSError):
        return storage_account_missing(account, queue)
    if isinstance(error, ServiceRequestError):
        return storage_failed(account, queue, "ConnectFailure Unable to connect to the remote server")
    return storage_failed(account, queue, "ReceiveFailure The answer did not come, or cannot be read")
