"""One receiver of each kind, and how a job says that something is to be sent there, or where nobody is."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import trustme
from aiohttp import web

from tests.support import storage_queue
from tests.support.serve_command import Served
from tests.support.service import HttpService, http_service
from tests.support.service_bus import KEY, KEY_NAME, Bus, service_bus

APP = """
from backstay import App

app = App("shop")
app.queue("orders")
app.topic("news").subscription("all")


@app.workflow
async def report(name: str) -> str:
    return name
"""

NONE = {"retryType": "None"}
COLLECTION = "/subscriptions/S/resourceGroups/RG/providers/Microsoft.Scheduler/jobCollections/jc"
VERSION = "api-version=2016-03-01"

Action = dict[str, Any]


async def refuses_what_is_asked_to_fail(request: web.Request) -> web.Response:
    return web.Response(status=500 if request.path.startswith("/none") else 200)


@dataclass
class Receivers:
    http: HttpService
    https: HttpService
    storage: HttpService
    bus: Bus

    @property
    def settings(self) -> dict[str, str]:
        return {
            "BACKSTAY_OUTBOUND_ALLOW": "loopback",
            "BACKSTAY_JOB_IMMEDIATELY": "10ms",
            "BACKSTAY_JOB_NAMESPACES": f"shop=backstay, legacy=amqps://127.0.0.1:{self.bus.port}",
            "BACKSTAY_JOB_STORAGE_ENDPOINT": f"{self.storage.url}/{{account}}",
        }

    def action(self, kind: str, text: str, *, there: bool = True) -> Action:
        """An action that sends ``text``, to where it is received or to where nothing is."""
        return {**_ACTIONS[kind](self, text, there), "retryPolicy": NONE}


@asynccontextmanager
async def receivers(authority: trustme.CA) -> AsyncIterator[Receivers]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    async with (
        http_service(refuses_what_is_asked_to_fail) as http,
        http_service(refuses_what_is_asked_to_fail, tls=context) as https,
        http_service(storage_queue.storage) as storage,
        service_bus(context) as bus,
    ):
        yield Receivers(http, https, storage, bus)


# What a job says


def _request(kind: str, service: HttpService, text: str, there: bool) -> Action:
    where = f"{service.url}/{'there' if there else 'none'}/{text}"
    return {"type": kind, "request": {"uri": where, "method": "POST", "body": text}}


def _storage(text: str, there: bool) -> Action:
    queue = storage_queue.QUEUE if there else "none"
    said = {
        "storageAccount": storage_queue.ACCOUNT,
        "queueName": queue,
        "sasToken": storage_queue.token(queue=queue),
        "message": text,
    }
    return {"type": "StorageQueue", "queueMessage": said}


def _message(namespace: str, name: str, text: str) -> Action:
    kind, member, named, entity = {
        "queue": ("ServiceBusQueue", "serviceBusQueueMessage", "queueName", "orders"),
        "topic": ("ServiceBusTopic", "serviceBusTopicMessage", "topicPath", "news"),
        "no queue": ("ServiceBusQueue", "serviceBusQueueMessage", "queueName", "none"),
        "no topic": ("ServiceBusTopic", "serviceBusTopicMessage", "topicPath", "none"),
    }[name]
    said: Action = {named: entity, "namespace": namespace, "message": text, "transportType": "AMQP"}
    if namespace == "legacy":
        said["authentication"] = {"type": "SharedAccessKey", "sasKeyName": KEY_NAME, "sasKey": KEY}
    return {"type": kind, member: said}


def _workflow(text: str, there: bool) -> Action:
    name = "report" if there else "none"
    return {"type": "Workflow", "workflow": {"name": name, "input": text, "attributes": {"text": text}}}


def _to(namespace: str, what: str) -> Callable[[Receivers, str, bool], Action]:
    return lambda _, text, there: _message(namespace, what if there else f"no {what}", text)


_ACTIONS: dict[str, Callable[[Receivers, str, bool], Action]] = {
    "Http": lambda those, text, there: _request("Http", those.http, text, there),
    "Https": lambda those, text, there: _request("Https", those.https, text, there),
    "StorageQueue": lambda _, text, there: _storage(text, there),
    "ServiceBusQueue": _to("shop", "queue"),
    "ServiceBusTopic": _to("shop", "topic"),
    "ServiceBusQueue of Azure": _to("legacy", "queue"),
    "ServiceBusTopic of Azure": _to("legacy", "topic"),
    "Workflow": lambda _, text, there: _workflow(text, there),
}
KINDS = tuple(_ACTIONS)


# What they got


async def got(those: Receivers, server: Served) -> dict[str, list[str]]:
    """Of each kind the texts that arrived; those of queues here are taken out of them."""
    stored = [await storage_queue.envelope(one) for one in those.storage.asked if "/orders/" in one.path]
    arrived = {
        name: [one.body for one in those.bus.arrived if one.entity == name] for name in ("orders", "news")
    }
    return {
        "Http": [one.path.split("/")[2] for one in those.http.asked if "/there/" in one.path],
        "Https": [one.path.split("/")[2] for one in those.https.asked if "/there/" in one.path],
        "StorageQueue": [one.findtext("Message") or "" for one in stored],
        "ServiceBusQueue": await taken(server, "orders"),
        "ServiceBusTopic": await taken(server, "news:all"),
        "ServiceBusQueue of Azure": arrived["orders"],
        "ServiceBusTopic of Azure": arrived["news"],
        "Workflow": await started(server),
    }


async def taken(server: Served, queue: str) -> list[str]:
    _, found = await server.ask("POST", f"/v1/queues/{queue}/receive?max=100&wait=0s", json={})
    return [one["body"] for one in found["items"]]


async def started(server: Served) -> list[str]:
    _, found = await server.ask("GET", "/v1/tasks?workflow=report&limit=1000")
    return [one["attributes"]["text"] for one in found["items"]]


# The jobs, by the interface of Azure Scheduler


async def collected(server: Served) -> None:
    document = {"location": "westus", "properties": {"sku": {"name": "P20Premium"}}}
    status, answer = await server.ask("PUT", f"{COLLECTION}?{VERSION}", json=document)
    assert status == 201, answer


async def put(server: Served, name: str, action: Action) -> None:
    status, answer = await server.ask(
        "PUT", f"{COLLECTION}/jobs/{name}?{VERSION}", json={"properties": {"action": action}}
    )
    assert status == 201, answer
    told = json.dumps(answer)
    assert '"sasKey"' not in told
    assert "sasToken" not in told


async def history(server: Served, name: str) -> list[dict[str, Any]]:
    """The oldest first."""
    status, answer = await server.ask("GET", f"{COLLECTION}/jobs/{name}/history?{VERSION}")
    assert status == 200, answer
    return [one["properties"] for one in reversed(answer["value"])]


async def ended(server: Served, name: str) -> str:
    _, answer = await server.ask("GET", f"{COLLECTION}/jobs/{name}?{VERSION}")
    state: str = answer["properties"]["state"]
    return state
