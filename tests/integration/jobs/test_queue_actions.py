"""Actions that send to queues and topics: what a receiver gets, and what is said of those who got nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from backstay import App
from backstay.domain.jobs.records import ActionName, EntryStatus
from tests.support.running_jobs import RunJobs
from tests.support.service import HttpService, says

NONE = {"retryType": "None"}


def to_queue(name: str = "orders", **more: Any) -> dict[str, Any]:
    message = {"queueName": name, "namespace": "shop", "message": "grüezi", "transportType": "amqp", **more}
    return {"type": "ServiceBusQueue", "serviceBusQueueMessage": message, "retryPolicy": NONE}


def to_topic(name: str = "news", **more: Any) -> dict[str, Any]:
    message = {
        "topicPath": name,
        "namespace": "shop",
        "message": "hi",
        "transportType": "netMessaging",
        **more,
    }
    return {"type": "ServiceBusTopic", "serviceBusTopicMessage": message, "retryPolicy": NONE}


async def test_a_message_to_a_queue_is_received_under_the_id_of_its_occurrence(app: App, run_jobs: RunJobs):
    app.queue("orders")

    async with run_jobs() as jobs:
        await jobs.put(to_queue())
        [entry] = await jobs.attempts(1)
        [task_id] = await jobs.ended()
        [message] = await jobs.client.exchange.receive("orders", max=10)

    assert (message.body, message.id, message.properties) == ("grüezi", task_id, {})
    assert entry.status is EntryStatus.COMPLETED
    assert entry.message == (
        "ServiceBusQueue Action - Message to queue 'orders' in namespace 'shop' succeeded:"
        f" it is sent as '{task_id}'."
    )


async def test_what_the_job_says_of_the_message_goes_with_it(app: App, run_jobs: RunJobs):
    app.queue("orders")
    said = {"messageId": "m1", "sessionId": "s1", "label": "new", "correlationId": "c", "timeToLive": "PT1H"}
    more: dict[str, Any] = {"brokeredMessageProperties": said, "customMessageProperties": {"color": "red"}}

    async with run_jobs() as jobs:
        await jobs.put(to_queue(**more))
        await jobs.ended()
        [message] = await jobs.client.exchange.receive("orders")

    assert (message.id, message.session) == ("m1", "s1")
    assert message.properties == {"label": "new", "correlationId": "c", "color": "red"}


async def test_a_topic_gives_the_message_to_the_subscriptions_that_match(app: App, run_jobs: RunJobs):
    topic = app.topic("news")
    topic.subscription("red", where={"color": "red"})
    topic.subscription("blue", where={"color": "blue"})

    async with run_jobs() as jobs:
        await jobs.put(to_topic(customMessageProperties={"color": "red"}))
        [entry] = await jobs.attempts(1)
        [message] = await jobs.client.exchange.receive("news:red")
        assert await jobs.client.exchange.receive("news:blue", wait=timedelta(0)) == []

    assert message.body == "hi"
    assert entry.message.startswith("ServiceBusTopic Action - Message to topic 'news' in namespace 'shop'")


@pytest.mark.parametrize(
    ("action", "said"),
    [
        (
            to_queue("none"),
            "queue 'none' in namespace 'shop' failed: there is no queue 'none' in this store; declare it",
        ),
        (
            to_topic("none"),
            "topic 'none' in namespace 'shop' failed: there is no topic 'none' in this store; declare it",
        ),
        (to_queue("no name"), "name of the queue is 'no name'; an id has"),
        (to_queue(namespace="Legacy"), "Azure wants to know who sends it; write authentication"),
    ],
)
async def test_what_cannot_be_sent_is_a_failed_attempt_that_names_the_remedy(
    run_jobs: RunJobs, action: dict[str, Any], said: str
):
    async with run_jobs(job_namespaces="legacy=azure") as jobs:
        await jobs.put(action)
        [entry] = await jobs.attempts(1)
        await jobs.ended()

    assert entry.status is EntryStatus.FAILED
    assert said in entry.message


async def test_a_request_that_failed_is_followed_by_a_message(
    app: App, run_jobs: RunJobs, service: HttpService
):
    app.queue("orders")
    service.answers = [says(500)]
    request = {"uri": service.url, "method": "GET"}

    async with run_jobs() as jobs:
        await jobs.put(
            {"type": "Http", "request": request, "retryPolicy": NONE, "errorAction": to_queue("orders")}
        )
        entries = await jobs.attempts(2)
        [task_id] = await jobs.ended()
        [message] = await jobs.client.exchange.receive("orders")

    assert [(one.action, one.status) for one in entries] == [
        (ActionName.MAIN, EntryStatus.FAILED),
        (ActionName.ERROR, EntryStatus.COMPLETED),
    ]
    assert message.id == f"{task_id}:error"
