"""Whoever must know whether something is still under way looks at what a group has yet to pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from backstay import App, Event
from backstay.errors import Conflict, InvalidInput, InvalidRequest, UnknownGroup, UnknownStream
from backstay.store.records import AuditFilter
from tests.support.databases import Database
from tests.support.ingesting import STREAM, Process, process, task_ids

ONE_PARTITION = 1


def shop() -> App:
    app = App("shop")

    @app.workflow
    async def fulfil(order: int) -> int:
        return order

    app.stream(STREAM, partitions=ONE_PARTITION).source(group="g").start(
        fulfil, attributes=lambda event: {"customer": event.key}
    )
    return app


async def append(reader: Process, *keys: str) -> None:
    await reader.client.stream(STREAM).append_all(
        Event(body=number, key=key) for number, key in enumerate(keys)
    )


async def test_the_events_of_a_key_are_unread_until_the_group_has_passed_them(
    database: Database, tmp_path: Path
):
    async with process(shop(), database.store(), tmp_path) as reader:
        stream = reader.client.stream(STREAM)
        await append(reader, "ada", "bob", "ada")

        before = await stream.unread("g", key="ada")
        nobodys = await stream.unread("g", key="eve")
        await reader.run_dry()
        after = await stream.unread("g", key="ada")

        assert [(event.body, event.key, event.offset) for event in before.events] == [
            (0, "ada", 0),
            (2, "ada", 2),
        ]
        assert (before.more, nobodys.events, nobodys.more) == (False, [], False)
        assert (after.events, after.more) == ([], False)


async def test_what_a_group_has_passed_another_one_may_have_yet_to_pass(database: Database, tmp_path: Path):
    async with process(shop(), database.store(), tmp_path) as reader:
        await append(reader, "ada")
        await reader.run_dry()

        unread = await reader.client.stream(STREAM).unread("another", key="ada")

        assert [event.body for event in unread.events] == [0]


async def test_nobody_looks_further_than_the_limit_and_is_told_so(database: Database, tmp_path: Path):
    async with process(shop(), database.store(), tmp_path) as reader:
        stream = reader.client.stream(STREAM)
        await append(reader, *["bob"] * 10, "ada")

        near = await stream.unread("g", key="ada", limit=10)
        far = await stream.unread("g", key="ada", limit=12)

        assert (near.events, near.more) == ([], True)
        assert (len(far.events), far.more) == (1, False)


async def test_a_look_that_cannot_be_is_refused_by_name(database: Database, tmp_path: Path):
    async with process(shop(), database.store(), tmp_path) as reader:
        with pytest.raises(InvalidRequest, match="limit is 0"):
            await reader.client.stream(STREAM).unread("g", key="ada", limit=0)
        with pytest.raises(InvalidInput, match="key is ''"):
            await reader.client.stream(STREAM).unread("g", key="")
        with pytest.raises(UnknownStream, match="nowhere"):
            await reader.client.stream("nowhere").unread("g", key="ada")


async def test_tasks_can_be_listed_by_the_attributes_that_the_pipeline_gave_them(
    database: Database, tmp_path: Path
):
    async with process(shop(), database.store(), tmp_path) as reader:
        await append(reader, "ada", "bob")
        await reader.run_dry()

        tasks = [await reader.client.task(one) for one in await task_ids(reader.store)]

        assert [task.attributes for task in tasks] == [{"customer": "ada"}, {"customer": "bob"}]


async def test_a_group_that_is_forgotten_begins_anew_and_not_while_somebody_reads_for_it(
    database: Database, tmp_path: Path
):
    async with process(shop(), database.store(), tmp_path) as reader:
        room = reader.client.streamroom
        await append(reader, "ada")
        await reader.run_dry()

        with pytest.raises(Conflict):
            await room.forget(STREAM, "g")
        with pytest.raises(UnknownGroup, match="another"):
            await room.forget(STREAM, "another")
        await reader.ingest.drain()
        await room.forget(STREAM, "g", reason="begin anew")

        unread = await reader.client.stream(STREAM).unread("g", key="ada")
        assert [event.body for event in unread.events] == [0]
        [entry] = (await reader.client.audit(AuditFilter())).items
        assert (entry.action, entry.target) == ("forget", f"group:{STREAM}/g")
        assert entry.reason == "begin anew"
