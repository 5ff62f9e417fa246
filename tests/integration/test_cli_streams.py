"""The commands of streams, on a store and at a server that has it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from backstay.cli.tail import Tail
from backstay.client import Client
from backstay.definitions.registry import Registry
from backstay.domain.lease import Owner
from backstay.domain.stream import Group, NewQuarantined
from backstay.runtime import connected
from backstay.settings import Settings
from backstay.store.base import NewInstance
from backstay.store.groups import Advance
from tests.support.databases import Database, SqliteDatabase
from tests.support.running import comes_true
from tests.support.shell import Shell


@pytest.fixture(params=["store", "server"])
def shell_on(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[[Database], Shell]:
    monkeypatch.chdir(tmp_path)  # Streams are there, unless there is a file of the store to be beside.

    def shell_on(database: Database) -> Shell:
        shell = Shell("streams", database, monkeypatch, capsys, remote=request.param == "server")
        shell.work(lambda client: client.streamroom.declare("orders", partitions=2))
        return shell

    return shell_on


@pytest.fixture
def shell(shell_on: Callable[[Database], Shell], sqlite_database: SqliteDatabase) -> Shell:
    return shell_on(sqlite_database)


@pytest.fixture
def each_shell(shell_on: Callable[[Database], Shell], database: Database) -> Shell:
    """For what groups know, which is in the state store."""
    return shell_on(database)


async def read_some(client: Client) -> None:
    """A group passes three events of a partition and sets one of them aside."""
    now = client.streams._clock.now()
    owner = await client._store.register(NewInstance(id="reader", host="localhost", pid=1), now=now)
    partition = (await client.streams.append("orders", "last", key="d")).partition
    group, groups = Group("orders", "billing"), client._store.groups
    how: Any = {"log": "log", "owner": owner, "lease": timedelta(minutes=1), "now": now}
    await groups.join(group, partitions=partition + 1, **how)
    seen = (await groups.ownership(group, **how)).units
    [holding] = await groups.take(seen[partition:], log="log", owner=owner, now=now)
    events = (await client.streams.read("orders", partition, limit=3)).events
    bad = NewQuarantined(event=events[1], reason="map: ValueError: no")
    await groups.advance(
        [Advance(holding=holding, to=3, quarantined=[bad])], owner=owner, quarantine_max=9, now=now
    )


def lines(*bodies: Any, key: str = "d") -> bytes:
    return b"".join(json.dumps({"body": body, "key": key}).encode() + b"\n" for body in bodies)


def test_a_stream_is_made_and_listed(shell: Shell):
    made = shell("create", "telemetry", "--partitions", "3", "--retention", "1d")
    again = shell("create", "telemetry", "--dedup", "1m", "--json")
    other = shell("create", "telemetry", "--partitions", "4")
    listed = shell("ls")
    page = shell("ls", "--limit", "1", "--json").json

    assert (made.code, made.out.strip()) == (0, "stream telemetry is made")
    assert (again.json["dedup"], len(again.json["partitions"])) == ("1m", 3)
    assert (other.code, other.out, "partitions" in other.err) == (1, "", True)
    assert "telemetry" in listed.out
    assert ([one["name"] for one in page["items"]], page["next"]) == (["orders"], "orders")


def test_an_event_is_appended_and_shown(shell: Shell):
    first = shell("append", "orders", '{"order": 7}', "--key", "ann", "--id", "e1")
    again = shell("append", "orders", '{"order": 7}', "--key", "ann", "--id", "e1", "--json")
    nothing = shell("append", "orders", "null", "--id", "e2")

    partition = int(first.out.partition("/")[0])
    assert (first.code, first.out.strip()) == (0, f"{partition}/0")
    assert again.json == {"partition": partition, "offset": 0, "duplicate": True}
    assert nothing.code == 0
    shown = shell("tail", "orders", "--from", "0", "--no-follow")
    assert sum(' ann {"order":7}' in line for line in shown.lines) == 1
    assert sum(line.endswith("Z null") for line in shown.lines) == 1
    [event] = [
        json.loads(line) for line in shell("tail", "orders", "--from", "0", "--limit", "1", "--json").lines
    ]
    assert {"partition", "offset", "key", "id", "body", "enqueued_at", "headers"} == set(event)


def test_lines_of_standard_input_are_appended_and_bad_ones_are_told(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("backstay.cli.appending.PART_LINES", 4)
    monkeypatch.setattr("backstay.cli.appending._EVERY", 3)
    good = lines(*range(5))

    said = shell("append", "orders", "-", stdin=good + b"oops\n" + lines(5) + b"\n\n\n\n\n\n" + b"oops")

    assert (said.code, said.out.strip()) == (1, "6 accepted, 2 refused")
    assert "line 6: the line must be one JSON value" in said.err
    assert "line 14: " in said.err
    assert "3 accepted" in said.err or "4 accepted" in said.err
    shown = shell("tail", "orders", "--from", "0", "--no-follow", "--json")
    assert [one["body"] for one in shown.each] == list(range(6))
    assert shell("append", "orders", "-", "--json", stdin=lines(1)).json == {"accepted": 1, "rejected": 0}
    assert shell("append", "orders", "-", stdin=b"").out.strip() == "0 accepted, 0 refused"


def test_of_many_bad_lines_some_are_shown_and_all_counted(shell: Shell):
    said = shell("append", "orders", "-", stdin=b"oops\n" * 50)

    assert (said.code, said.out.strip()) == (1, "0 accepted, 50 refused")
    assert said.err.count("Error: line") == 20
    assert "no longer shown" in said.err


def test_a_partition_is_shown_from_an_offset_on(shell: Shell):
    shell("append", "orders", "-", stdin=lines(*range(5)))
    [partition] = {
        json.loads(line)["partition"]
        for line in shell("tail", "orders", "--from", "0", "--no-follow", "--json").lines
    }

    shown = shell("tail", "orders", "--partition", str(partition), "--from", "3", "--no-follow", "--json")
    end = shell("tail", "orders", "--no-follow")
    beyond = shell("tail", "orders", "--from", "100", "--no-follow")

    assert [one["offset"] for one in shown.each] == [3, 4]
    assert (end.code, end.out) == (beyond.code, beyond.out) == (0, "")


def test_lag_and_quarantine_are_shown_and_put_back(each_shell: Shell):
    shell = each_shell
    shell("append", "orders", "-", stdin=lines(*range(9)))
    shell.work(read_some)

    table, as_json = shell("lag", "orders"), shell("lag", "orders", "--group", "billing", "--json").json
    [row] = as_json["items"]
    assert (row["checkpoint"], row["lag"], row["owner"]) == (3, 7, "reader")
    assert "billing" in table.out
    assert "7" in table.out
    assert "group other never read orders" in shell("lag", "orders", "--group", "other").err
    assert "billing 7 behind" in shell("ls").out

    listed = shell("quarantine", "orders")
    [aside] = shell("quarantine", "orders", "--group", "billing", "--json").json["items"]
    assert "map: ValueError: no" in listed.out
    assert (aside["offset"], aside["body"]) == (1, 1)
    done = shell("resubmit", "orders", str(aside["id"]), "--reason", "mended")
    assert (done.code, done.out.strip()) == (0, "1 of orders will be processed again")
    assert "to be processed again" in shell("quarantine", "orders").out
    assert shell("resubmit", "orders", "--all", "--json").json["resubmitted"] in (0, 1)
    assert shell("resubmit", "orders", "999").code == 1


async def stop_reading(client: Client) -> None:
    await client._store.retire(Owner("reader", 1), now=client.streams._clock.now())


def test_a_group_is_forgotten_once_nobody_reads_for_it(each_shell: Shell):
    shell = each_shell
    shell("append", "orders", "-", stdin=lines(*range(9)))
    shell.work(read_some)

    refused = shell("forget", "orders", "billing")
    shell.work(stop_reading)
    gone = shell("forget", "orders", "billing", "--reason", "another log")

    assert (refused.code, refused.out, "is read by reader" in refused.err) == (1, "", True)
    assert (gone.code, gone.out.strip()) == (0, "group billing of orders is forgotten")
    assert "no group reads orders" in shell("lag", "orders").err
    assert "nothing of orders was set aside" in shell("quarantine", "orders").err
    assert "`backstay streams lag orders`" in shell("forget", "orders", "billing").err


def test_forgetting_is_confirmed_on_a_terminal(shell: Shell):
    shell("append", "orders", "-", stdin=lines(*range(3)))
    shell.work(read_some)
    shell.work(stop_reading)

    refused = shell("forget", "orders", "billing", typed="n\n")
    kept = shell("lag", "orders", "--json").json["items"]
    gone = shell("forget", "orders", "billing", "--json", typed="y\n")

    assert (refused.code, refused.out.strip()) == (1, "")
    assert "Forget how far group billing has got in orders" in refused.err
    assert refused.err.endswith("nothing was forgotten\n")
    assert [one["checkpoint"] for one in kept] == [3]
    assert gone.json == {"stream": "orders", "group": "billing"}


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["append", "nowhere", "1"], 1, "nowhere"),
        (["append", "nowhere", "-"], 1, "nowhere"),
        (["tail", "nowhere"], 1, "nowhere"),
        (["lag", "nowhere"], 1, "nowhere"),
        (["quarantine", "nowhere"], 1, "nowhere"),
        (["tail", "orders", "--partition", "2"], 1, "partition 2"),
        (["append", "orders", "{not json"], 2, "JSON"),
        (["append", "orders", "1", "--id", "a b"], 2, "id"),
        (["append", "orders", "-", "--key", "k"], 2, "each says its own key"),
        (["append", "two words", "1"], 2, "name of the stream"),
        (["create", "orders", "--partitions", "0"], 2, "partitions"),
        (["forget", "orders", "nobody"], 1, "no group 'nobody'"),
        (["forget", "nowhere", "nobody"], 1, "no group 'nobody'"),
        (["forget", "orders", "two words"], 2, "name of the group"),
        (["forget", "two words", "nobody"], 2, "name of the stream"),
        (["resubmit", "orders"], 2, "--all"),
        (["resubmit", "orders", "1", "--all"], 2, "--all"),
        (["ls", "--limit", "0"], 2, "--limit"),
    ],
)
def test_what_goes_wrong_is_said_on_one_line(shell: Shell, arguments: list[str], code: int, said: str):
    answer = shell(*arguments, stdin=b'{"body": 1}\n')

    assert answer.code == code, answer
    assert said in answer.err
    assert answer.out == ""


async def test_tail_waits_for_what_comes(
    sqlite_database: SqliteDatabase, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("backstay.cli.tail.LOOK_SECONDS", 0.01)
    async with connected(Registry(), Settings.load({"store": sqlite_database.url}, environment={})) as client:
        await client.streamroom.declare("orders", partitions=2)
        await client.streams.append("orders", "before")
        looked = asyncio.Event()
        room = client.streamroom

        class Desk:
            def __getattr__(self, name: str) -> Any:
                looked.set() if name == "events" else None
                return getattr(room, name)

        tail = Tail(Desk(), "orders", json=False, limit=2)
        showing = asyncio.create_task(tail.run(partition=None, start=None, follow=True))
        await asyncio.wait_for(looked.wait(), 5)
        await client.streams.append("orders", "one")
        await client.streams.append("orders", "two")
        await comes_true(showing.done)

    assert sorted(line.split()[-1] for line in capsys.readouterr().out.splitlines()) == ['"one"', '"two"']
