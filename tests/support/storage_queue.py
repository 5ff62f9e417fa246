"""A double of Azure Storage's queues that recomputes the signature of every request."""

from __future__ import annotations

import base64
import hashlib
import hmac
from datetime import UTC, datetime
from xml.etree import ElementTree as ET

from aiohttp import web
from azure.storage.queue import QueueSasPermissions, generate_queue_sas

ACCOUNT, QUEUE = "shop1", "orders"
KEY = base64.b64encode(b"a key of the account").decode()
STORED = (
    "<QueueMessagesList><QueueMessage><MessageId>m</MessageId><InsertionTime>Tue, 01 Jan 2030 12:00:00 GMT"
    "</InsertionTime><ExpirationTime>Tue, 08 Jan 2030 12:00:00 GMT</ExpirationTime><PopReceipt>p</PopReceipt>"
    "<TimeNextVisible>Tue, 01 Jan 2030 12:00:00 GMT</TimeNextVisible></QueueMessage></QueueMessagesList>"
)


def token(key: str = KEY, *, queue: str = QUEUE, account: str = ACCOUNT) -> str:
    return generate_queue_sas(
        account, queue, key, permission=QueueSasPermissions(add=True), expiry=datetime(2100, 1, 1, tzinfo=UTC)
    )


def is_signed(request: web.Request) -> bool:
    """Whether its signature is that of this account and of the queue that it asks for."""
    said = request.query
    queue = request.path.split("/")[2]
    names = ("sp", "st", "se", None, "si", "sip", "spr", "sv")
    parts = [f"/queue/{ACCOUNT}/{queue}" if name is None else said.get(name, "") for name in names]
    right = hmac.new(base64.b64decode(KEY), "\n".join(parts).encode(), hashlib.sha256).digest()
    return hmac.compare_digest(said.get("sig", ""), base64.b64encode(right).decode())


def refused(status: int, code: str) -> web.Response:
    body = f"<Error><Code>{code}</Code><Message>no</Message></Error>"
    headers = {"x-ms-error-code": code}
    return web.Response(status=status, text=body, content_type="application/xml", headers=headers)


async def storage(request: web.Request) -> web.Response:
    """It has one queue."""
    if not is_signed(request):
        return refused(403, "AuthenticationFailed")
    if request.path != f"/{ACCOUNT}/{QUEUE}/messages":
        return refused(404, "QueueNotFound")
    return web.Response(status=201, text=STORED, content_type="application/xml")


async def envelope(request: web.Request) -> ET.Element:
    """What the original service wrote around a message."""
    text = ET.fromstring(await request.text()).findtext("MessageText") or ""
    return opened(text)


def opened(text: str) -> ET.Element:
    assert text.startswith('<?xml version="1.0" encoding="utf-16"?>')
    return ET.fromstring(text.partition("?>")[2])
