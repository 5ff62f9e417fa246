"""The commands of queues, on a store and at a server that has it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.databases import SqliteDatabase
from tests.support.shell import Shell


@pytest.fixture(params=["store", "server"])
def shell(
    request: pytest.FixtureRequest,
    sqlite_database: SqliteDatabase,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Shell:
    shell = Shell("queues", sqlite_database, monkeypatch, capsys, remote=request.param == "server")
    shell.work(lambda client: client.mailroom.declare("orders"))
    return shell


async def set_all_aside(client: Any) -> None:
    for message in await client.queue("orders").receive(max=100):
        await message.dead_letter("bad address", "no such street")


def test_a_message_is_sent_and_seen(shell: Shell):
    sent = shell("send", "orders", '{"item": 7}', "--id", "m1", "--property", "kind=book", "--priority", "2")
    again = shell("send", "orders", "--id", "m1")
    later = shell("send", "orders", "null", "--at", "1h", "--ttl", "2h", "--session", "s", "--json")

    assert (sent.code, sent.out.strip()) == (0, "m1")
    assert (again.code, again.out.strip()) == (0, "m1")
    assert "not sent again" in again.err
    assert set(later.json) == {"id", "sequence", "duplicate"}
    page = shell("peek", "orders", "--json").json
    assert [one["state"] for one in page["items"]] == ["ready", "scheduled"]
    [first, second] = page["items"]
    assert (first["body"], first["properties"], first["priority"]) == ({"item": 7}, {"kind": "book"}, 2)
    assert second["session"] == "s"
    shown = shell("peek", "orders", "--limit", "1")
    assert (shown.code, "m1" in shown.out) == (0, True)


def test_queues_are_listed(shell: Shell):
    shell("send", "orders", "1")

    listed = shell("ls")
    as_json = shell("ls", "--json").json

    assert (listed.code, "orders" in listed.out) == (0, True)
    assert [(one["name"], one["ready"], one["lock"]) for one in as_json["items"]] == [("orders", 1, "1m")]
    assert as_json["next"] is None


def test_a_queue_is_made(shell: Shell):
    made = shell("create", "others", "--lock", "5s", "--max-deliveries", "3", "--sessions")
    again = shell("create", "others", "--ttl", "1h", "--json")

    assert (made.code, made.out.strip()) == (0, "queue others is made")
    assert (again.json["ttl"], again.json["lock"]) == ("1h", "1m")
    wrong = shell("create", "others", "--lock", "1ms")
    assert wrong.code == 2
    assert "lock" in wrong.err


def test_dead_letters_are_listed_and_put_back(shell: Shell):
    for number in range(3):
        shell("send", "orders", str(number), "--id", f"m{number}")
    shell.work(set_all_aside)

    listed = shell("dead", "orders")
    page = shell("dead", "orders", "--limit", "2", "--json").json
    rest = shell("dead", "orders", "--cursor", page["next"], "--json").json

    assert "bad address" in listed.out
    assert [one["id"] for one in page["items"] + rest["items"]] == ["m0", "m1", "m2"]
    one = shell("resubmit", "orders", "m1", "--reason", "mended")
    assert (one.code, one.out.strip()) == (0, "1 put back into orders")
    assert shell("resubmit", "orders", "--all", "--json").json["resubmitted"] == 2
    assert shell("dead", "orders").err.strip() == "nothing of orders was set aside"
    assert shell("resubmit", "orders", "m1").code == 1


def test_dead_letters_are_dropped_for_good(shell: Shell):
    for number in range(3):
        shell("send", "orders", str(number), "--id", f"m{number}")
    shell.work(set_all_aside)

    one = shell("discard", "orders", "m1", "--reason", "nonsense")
    rest = shell("discard", "orders", "--all", "--json")

    assert (one.code, one.out.strip()) == (0, "1 dropped from orders")
    assert rest.json == {"discarded": 2}
    assert shell("discard", "orders", "m1").code == 1


def test_a_queue_is_deleted_when_it_is_empty_or_by_force(shell: Shell):
    shell("send", "orders", "1")

    refused = shell("delete", "orders")
    gone = shell("delete", "orders", "--force", "--reason", "moved")

    assert (refused.code, refused.out) == (1, "")
    assert "force" in refused.err
    assert (gone.code, gone.out.strip()) == (0, "queue orders is deleted; messages dropped: 1")
    assert shell("peek", "orders").code == 1
    shell("create", "orders")
    assert shell("delete", "orders", "--json").json == {"name": "orders", "messages": 0}


def test_a_full_queue_is_an_error_that_says_so(shell: Shell):
    made = shell("create", "orders", "--max-messages", "1", "--json")
    shell("send", "orders", "1")

    refused = shell("send", "orders", "2")

    assert made.json["max_messages"] == 1
    assert (refused.code, refused.out) == (1, "")
    assert "full" in refused.err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["send", "nowhere", "1"], 1, "nowhere"),
        (["peek", "nowhere"], 1, "nowhere"),
        (["dead", "nowhere"], 1, "nowhere"),
        (["send", "nowhere", "1", "--topic"], 1, "topic"),
        (["send", "orders", "{not json"], 2, "JSON"),
        (["send", "orders", "1", "--property", "kind"], 2, "property"),
        (["send", "orders", "1", "--priority", "11"], 2, "priority"),
        (["send", "two words", "1"], 2, "name of the queue"),
        (["resubmit", "orders"], 2, "--all"),
        (["resubmit", "orders", "m1", "--all"], 2, "--all"),
        (["discard", "orders"], 2, "--all"),
        (["discard", "nowhere", "--all"], 1, "nowhere"),
        (["delete", "nowhere"], 1, "nowhere"),
        (["delete", "two words", "--force"], 2, "name of the queue"),
        (["create", "others", "--max-messages", "0"], 2, "max_messages"),
        (["ls", "--limit", "0"], 2, "--limit"),
    ],
)
def test_what_goes_wrong_is_said_on_one_line(shell: Shell, arguments: list[str], code: int, said: str):
    answer = shell(*arguments)

    assert answer.code == code
    assert said in answer.err
    assert answer.out == ""


def test_a_message_reaches_the_subscriptions_of_a_topic(shell: Shell):
    async def declared(client: Any) -> None:
        await client.mailroom.declare_topic("prices")
        await client.mailroom.subscribe("prices", "euros", {"currency": "EUR"})

    shell.work(declared)

    assert shell("send", "prices", "1", "--topic", "--property", "currency=EUR").code == 0
    assert shell("send", "prices", "2", "--topic", "--property", "currency=USD").code == 0
    assert [one["body"] for one in shell("peek", "prices:euros", "--json").json["items"]] == [1]
