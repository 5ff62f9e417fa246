"""Messages to a queue of Azurite: an implementation of Azure Storage that is not ours."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import timedelta

import pytest
from azure.core.credentials import AzureNamedKeyCredential
from azure.storage.queue.aio import QueueClient

from backstay import Outbound
from backstay.jobs.storage_queue_action import StorageQueueAction
from backstay.jobs.tried import Tried
from tests.support.azurite import INSTALL_SECONDS_MAX, azurite, npm
from tests.support.storage_queue import ACCOUNT, KEY, QUEUE, token

pytestmark = [
    pytest.mark.skipif(npm() is None, reason="Azurite comes from npm, and there is no npm on this machine"),
    # The first time it is installed; whoever comes while that is going on waits for it.
    pytest.mark.timeout(INSTALL_SECONDS_MAX + 120),
]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with azurite() as where:
        yield where


def queue_of(endpoint: str, name: str = QUEUE) -> QueueClient:
    """As a receiver has it, who has the key of the account."""
    return QueueClient(endpoint.replace("{account}", ACCOUNT), name, AzureNamedKeyCredential(ACCOUNT, KEY))


async def sent(endpoint: str, text: str, *, sas: str, queue: str = QUEUE) -> Tried:
    action = StorageQueueAction(
        endpoint=endpoint, timeout=timedelta(seconds=20), outbound=Outbound(("loopback",))
    )
    return await action.send({"storageAccount": ACCOUNT, "queueName": queue}, text, token=sas)


async def test_a_message_is_received_as_it_was_written(endpoint: str):
    text = "<?xml version='1.0'?><Message>grüezi &amp; so</Message>"

    async with queue_of(endpoint) as queue:
        await queue.create_queue()
        tried = await sent(endpoint, text, sas=token())
        received = [one.content async for one in queue.receive_messages()]

    assert tried.succeeded, tried.message
    assert received == [text]


@pytest.mark.parametrize(
    ("key", "queue", "said"),
    [
        (base64.b64encode(b"another key").decode(), QUEUE, "failed: 'Forbidden' A"),
        (KEY, "none", "The queue 'none' of account 'shop1' does not exist."),
    ],
)
async def test_what_it_refuses_is_told_without_the_token(endpoint: str, key: str, queue: str, said: str):
    sas = token(key, queue=queue)

    tried = await sent(endpoint, "m", sas=sas, queue=queue)

    assert not tried.succeeded
    assert said in tried.message
    assert sas.rpartition("sig=")[2] not in tried.message
