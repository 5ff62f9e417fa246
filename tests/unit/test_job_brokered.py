"""What a job says of a message, in Backstay's own terms, and whose a namespace is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from backstay.domain.jobs.brokered import Bus, brokered, namespaces_of
from backstay.errors import InvalidSetting
from backstay.settings import Settings


def test_a_message_has_the_key_of_its_action_for_an_id_unless_the_job_names_it():
    assert brokered({}, key="k").id == "k"
    assert brokered({"brokeredMessageProperties": {"messageId": ""}}, key="k").id == "k"
    assert brokered({"brokeredMessageProperties": {"messageId": "m"}}, key="k").id == "m"


def test_times_are_read_and_the_rest_are_properties():
    said = {
        "timeToLive": "00:01:00",
        "scheduledEnqueueTimeUtc": "2030-01-01T12:00:00Z",
        "label": "theirs",
        "forcePersistence": True,
    }
    made = brokered(
        {"brokeredMessageProperties": said, "customMessageProperties": {"label": "mine"}}, key="k"
    )

    assert (made.ttl, made.at) == (timedelta(minutes=1), datetime(2030, 1, 1, 12, tzinfo=UTC))
    assert made.properties == {"label": "mine", "forcePersistence": True}


def test_namespaces_are_mapped_whatever_their_letter_case():
    assert namespaces_of(" Orders=backstay, legacy = azure,") == {
        "orders": None,
        "legacy": Bus(host="legacy.servicebus.windows.net", port=5671),
    }


@pytest.mark.parametrize(
    ("text", "bus"),
    [
        ("a.servicebus.chinacloudapi.cn=azure", Bus(host="a.servicebus.chinacloudapi.cn", port=5671)),
        ("a=amqps://a.servicebus.usgovcloudapi.net", Bus(host="a.servicebus.usgovcloudapi.net", port=5671)),
        ("a=amqps://localhost:8671", Bus(host="localhost", port=8671)),
        ("a=amqp://127.0.0.1", Bus(host="127.0.0.1", port=5672, tls=False)),
        ("a=AMQP://[::1]:99", Bus(host="::1", port=99, tls=False)),
    ],
)
def test_a_namespace_may_be_anywhere_with_tls_or_plainly_without(text: str, bus: Bus):
    [found] = namespaces_of(text).values()

    assert found == bus


@pytest.mark.parametrize(
    "text",
    [
        "orders",
        "=azure",
        "orders=aws",
        "a b=azure",
        "a=amqps://",
        "a=amqps://host:0",
        "a=amqps://host:99999",
        "a=amqps://user@host",
        "a=amqps://host/path",
        "a=https://host",
    ],
)
def test_a_namespace_of_nobody_is_refused(text: str):
    with pytest.raises(InvalidSetting, match=r"job_namespaces has .* write name=backstay, name=azure"):
        Settings(job_namespaces=text)
