"""Messages to Azure Service Bus: by the vendor's package, to a peer that recomputes every signature."""

from __future__ import annotations

import logging
import socket
import ssl
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import msgspec
import pytest
import trustme

from backstay import Outbound
from backstay.domain.jobs.brokered import Bus as Place
from backstay.domain.jobs.brokered import addressed
from backstay.domain.jobs.messages import ADDRESS_REFUSED
from backstay.domain.jobs.records import EntryStatus
from backstay.jobs.service_bus_action import ServiceBusAction
from backstay.jobs.tried import Tried
from tests.support.running import eventually
from tests.support.running_jobs import RunJobs
from tests.support.service import dead_port
from tests.support.service_bus import (
    BABBLES,
    BREAKS,
    GONE,
    KEY,
    KEY_NAME,
    MUTE,
    REJECTS,
    SILENT,
    WELL,
    Bus,
    service_bus,
)

NONE = {"retryType": "None"}
ALL_OF_THEM = {
    "contentType": "text/plain",
    "correlationId": "c1",
    "forcePersistence": True,
    "label": "new",
    "messageId": "m1",
    "partitionKey": "s1",
    "replyTo": "answers",
    "replyToSessionId": "r1",
    "scheduledEnqueueTimeUtc": "2030-01-01T12:00:00Z",
    "sessionId": "s1",
    "timeToLive": "00:01:00",
    "to": "elsewhere",
    "viaPartitionKey": "v1",
}


def to_queue(name: str = "orders", *, key: str = KEY, **more: Any) -> dict[str, Any]:
    return {
        "type": "ServiceBusQueue",
        "serviceBusQueueMessage": {"queueName": name, **_message(key), **more},
        "retryPolicy": NONE,
    }


def to_topic(name: str = "news", *, key: str = KEY, **more: Any) -> dict[str, Any]:
    return {
        "type": "ServiceBusTopic",
        "serviceBusTopicMessage": {"topicPath": name, **_message(key), **more},
        "retryPolicy": NONE,
    }


def _message(key: str) -> dict[str, Any]:
    shown = {"type": "sharedAccessKey", "sasKeyName": KEY_NAME, "sasKey": key}
    return {
        "namespace": "legacy",
        "message": "grüezi",
        "transportType": "netMessaging",
        "authentication": shown,
    }


@pytest.fixture
async def bus() -> AsyncIterator[Bus]:
    async with service_bus() as made:
        yield made


def at(bus: Bus) -> dict[str, str]:
    return {"job_namespaces": f"legacy=amqp://127.0.0.1:{bus.port}"}


async def send(
    bus: Bus | None,
    action: dict[str, Any],
    *,
    key: str = KEY,
    place: Place | None = None,
    outbound: Outbound | None = None,
    seconds: float = 5,
) -> Tried:
    """One attempt, and nothing around it."""
    made = ServiceBusAction(timeout=timedelta(seconds=seconds), outbound=outbound or Outbound(("loopback",)))
    place = place or Place(host="127.0.0.1", port=bus.port if bus else 0, tls=False)
    return await made.send(addressed(action), place, key="k1", sas=(KEY_NAME, key))


@pytest.mark.parametrize("transport", ["netMessaging", "AMQP", "NotSpecified"])
async def test_every_property_stands_where_amqp_has_it_whatever_the_transport_was_called(
    bus: Bus, transport: str
):
    more: dict[str, Any] = {
        "brokeredMessageProperties": ALL_OF_THEM,
        "customMessageProperties": {"color": "red", "label": "mine"},
        "transportType": transport,
    }

    tried = await send(bus, to_queue(**more))

    [message] = bus.arrived
    assert tried.succeeded
    assert (message.entity, message.body) == ("orders", "grüezi")
    assert message.said() == {
        "message_id": "m1",
        "to": "elsewhere",
        "subject": "new",
        "reply_to": "answers",
        "correlation_id": "c1",
        "content_type": "text/plain",
        "group_id": "s1",
        "reply_to_group_id": "r1",
    }
    assert (message.header.durable, message.header.ttl) == (True, 60_000)
    assert message.annotations == {
        "x-opt-partition-key": "s1",
        "x-opt-via-partition-key": "v1",
        "x-opt-scheduled-enqueue-time": 1_893_499_200_000,
    }
    assert message.application == {"color": "red", "label": "mine"}


@pytest.mark.parametrize(("action", "entity"), [(to_queue(), "orders"), (to_topic(), "news")])
async def test_a_job_sends_to_a_queue_or_topic_of_azure_under_the_id_of_its_occurrence(
    run_jobs: RunJobs, bus: Bus, action: dict[str, Any], entity: str
):
    async with run_jobs(**at(bus)) as jobs:
        await jobs.put(action)
        [entry] = await jobs.attempts(1)
        [task_id] = await jobs.ended()

    [message] = bus.arrived
    what = "queue" if entity == "orders" else "topic"
    assert (message.entity, message.body, message.id) == (entity, "grüezi", task_id)
    assert entry.status is EntryStatus.COMPLETED
    assert entry.message == (
        f"{action['type']} Action - Message to {what} '{entity}' in namespace 'legacy' succeeded:"
        f" it is sent as '{task_id}'."
    )


async def test_all_attempts_have_the_same_id_and_the_package_makes_none_of_its_own(
    run_jobs: RunJobs, bus: Bus
):
    bus.behaves = [REJECTS, BREAKS, WELL]
    retried = {"retryType": "Fixed", "retryInterval": "00:00:15", "retryCount": 4}

    async with run_jobs(**at(bus)) as jobs:
        await jobs.put({**to_queue(), "retryPolicy": retried})
        await jobs.after(timedelta(seconds=15), 2)
        entries = await jobs.after(timedelta(seconds=15), 3)
        [task_id] = await jobs.ended()

    assert [one.retry for one in entries if one.status is EntryStatus.FAILED] == [0, 1]
    assert [one.id for one in bus.arrived] == [task_id]
    assert bus.opened == 3


async def test_a_wrong_key_is_refused_and_neither_it_nor_a_signature_is_told_anywhere(
    run_jobs: RunJobs, bus: Bus, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    bus.refusal = lambda token: f"I do not like {token}"

    async with run_jobs(**at(bus)) as jobs:
        await jobs.put(to_queue(key="hunter2"))
        [entry] = await jobs.attempts(1)

    [token] = bus.tokens
    signature = token.partition("sig=")[2].partition("&")[0]
    told = msgspec.json.encode(entry).decode() + caplog.text
    assert "failed: 'Unauthorized' The sasKeyName or the sasKey is not accepted" in entry.message
    assert bus.arrived == []
    assert signature
    assert signature not in told
    assert "hunter2" not in told


@pytest.mark.parametrize(
    ("behaves", "said"),
    [
        (MUTE, "Timeout The operation has timed out"),
        (SILENT, "Timeout The operation has timed out"),
        (GONE, "ConnectionClosed The underlying connection was closed unexpectedly"),
        (BABBLES, "ConnectionClosed The underlying connection was closed unexpectedly"),
        (BREAKS, "ConnectionClosed The underlying connection was closed unexpectedly"),
        (REJECTS, "'amqp:resource-limit-exceeded' The message is not accepted"),
    ],
)
async def test_a_broker_that_misbehaves_costs_one_attempt_its_time_and_no_connection(
    bus: Bus, behaves: str, said: str
):
    bus.behaves = [behaves]

    tried = await send(bus, to_queue(), seconds=1.5)

    assert not tried.succeeded
    assert said in tried.message
    assert bus.opened == 1

    async def connections() -> int:
        return bus.connections

    await eventually(connections, lambda number: number == 0, what="the connection is closed")


async def test_what_is_not_there_is_named(bus: Bus):
    tried = await send(bus, to_topic("none"))

    assert tried.message == (
        "ServiceBusTopic Action - Message to topic 'none' in namespace 'legacy' failed:"
        " the topic does not exist."
    )


async def test_a_broker_that_is_away_and_a_name_that_nobody_knows_are_told_apart():
    away = await send(None, to_queue(), place=Place(host="127.0.0.1", port=dead_port(), tls=False))
    unknown = await send(None, to_queue(), place=Place(host="nowhere.invalid", port=5671))

    assert "failed: ConnectFailure Unable to connect" in away.message
    assert "The remote name could not be resolved: 'nowhere.invalid'" in unknown.message


async def test_properties_that_contradict_each_other_fail_the_attempt_and_are_named(bus: Bus):
    said = {"sessionId": "s1", "partitionKey": "p1"}

    tried = await send(bus, to_queue(brokeredMessageProperties=said))

    assert not tried.succeeded
    assert "partition_key" in tried.message
    assert bus.opened == 0


async def test_without_a_key_nothing_is_sent_and_the_history_asks_for_it(run_jobs: RunJobs, bus: Bus):
    action = to_queue()
    del action["serviceBusQueueMessage"]["authentication"]

    async with run_jobs(**at(bus)) as jobs:
        await jobs.put(action)
        [entry] = await jobs.attempts(1)

    assert "write authentication with sasKeyName and sasKey" in entry.message
    assert bus.opened == 0


async def test_without_the_package_the_history_says_how_to_get_it(
    run_jobs: RunJobs, bus: Bus, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delitem(sys.modules, "backstay.jobs.service_bus_action", raising=False)
    monkeypatch.setitem(sys.modules, "azure.servicebus.aio", None)

    async with run_jobs(**at(bus)) as jobs:
        await jobs.put(to_queue())
        [entry] = await jobs.attempts(1)

    assert "in namespace 'legacy' failed: this process lacks a package" in entry.message
    assert "pip install 'backstay[azure]'" in entry.message


# TLS, and which addresses are reached


@pytest.fixture
async def tls_bus(authority: trustme.CA) -> AsyncIterator[Bus]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("bus.example").configure_cert(context)
    async with service_bus(context) as made:
        yield made


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Which addresses a name has; each question is answered with the next of them, the last for ever."""
    known: dict[str, list[str]] = {}

    def answer(host: Any, port: Any, *rest: Any, **named: Any) -> list[Any]:
        name = host.decode() if isinstance(host, bytes) else host
        given = known.get(name, [name])
        address = given.pop(0) if len(given) > 1 else given[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, int(port or 0)))]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    return known


async def test_with_tls_the_certificate_must_be_that_of_the_host_not_of_its_address(
    tls_bus: Bus, names: dict[str, list[str]]
):
    names["bus.example"] = names["other.example"] = ["127.0.0.1"]

    tried = await send(None, to_queue(), place=Place(host="bus.example", port=tls_bus.port))
    other = await send(None, to_queue(), place=Place(host="other.example", port=tls_bus.port))

    assert tried.succeeded, tried.message
    assert tls_bus.names == ["bus.example"]
    assert len(tls_bus.arrived) == 1
    assert "TrustFailure" in other.message


async def test_a_broker_nobody_vouches_for_is_not_spoken_with(
    names: dict[str, list[str]], tls_bus: Bus, monkeypatch: pytest.MonkeyPatch
):
    names["bus.example"] = ["127.0.0.1"]
    monkeypatch.delenv("SSL_CERT_FILE")

    tried = await send(None, to_queue(), place=Place(host="bus.example", port=tls_bus.port))

    assert "TrustFailure" in tried.message
    assert tls_bus.tokens == []


async def test_an_address_that_is_not_public_is_not_reached_unless_it_is_allowed(bus: Bus):
    tried = await send(bus, to_queue(), outbound=Outbound())

    assert ADDRESS_REFUSED in tried.message
    assert bus.opened == 0


async def test_the_address_that_was_checked_is_the_one_that_is_connected_to(
    bus: Bus, names: dict[str, list[str]]
):
    # By now 127.0.0.2 is what the name stands for; the bus listens at 127.0.0.1 alone.
    names["rebind.example"] = ["127.0.0.1", "127.0.0.2"]
    only = Outbound(("127.0.0.1",))
    place = Place(host="rebind.example", port=bus.port, tls=False)

    first = await send(bus, to_queue(), place=place, outbound=only)
    second = await send(bus, to_queue(), place=place, outbound=only)

    assert first.succeeded
    assert ADDRESS_REFUSED in second.message
    assert bus.opened == 1
