"""Readers of a stream, displaced or declared dead while they write: an advance is whole, or refused whole."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from backstay.domain.audit import Act
from backstay.domain.lease import Leader
from backstay.domain.stream import Holding
from backstay.errors import BackstayError, Conflict, LeaseLost, QuarantineFull, StoreUnavailable
from backstay.store.groups import Advance, Advanced
from backstay.store.postgres import PostgresStore
from backstay.store.records import AlertFilter
from backstay.testing import ManualClock
from backstay.testing.promises.holder import LEASE, SECOND, Holder
from backstay.testing.promises.readers import ARCHIVE, Reader, a_start, set_aside
from tests.integration.postgres.schema import OpenStore, Schema, Threshold
from tests.support.leading import seize_lead

ANN = Act(who="ann", action="forget", target="group:telemetry/archive")
#: Bob's own sign of life was answered when he registered, by a clock that nobody turns.
SHORTER_THAN_BOB_WAS_SILENT = timedelta(microseconds=1)

STARTS = [a_start(f"t{number}", number) for number in range(5)]


class Stalled:
    """A reader whose transactions a test can stop just before their COMMIT."""

    def __init__(self, reader: Reader, threshold: Threshold) -> None:
        self.reader = reader
        self.threshold = threshold

    @classmethod
    async def joined(cls, opened: OpenStore, clock: ManualClock, name: str) -> Stalled:
        threshold = Threshold()
        store = await opened(boundary=threshold)
        holder = await Holder.joined(store, clock, name)
        return cls(Reader(store, clock, holder.owner), threshold)

    async def advancing(self, held: Holding, **made: Any) -> asyncio.Task[Advanced | BackstayError]:
        """An advance that stands there."""
        self.threshold.close()
        advancing = asyncio.create_task(self.reader.advance(held, **{"to": 5, "starts": STARTS, **made}))
        await self.threshold.reached()
        return advancing

    async def holding(self, *partitions: int) -> asyncio.Task[list[Holding]]:
        """A hold that stands there."""
        self.threshold.close()
        holding = asyncio.create_task(self.reader.hold(*partitions))
        await self.threshold.reached()
        return holding

    def go_on(self) -> None:
        self.threshold.open()


@pytest.fixture
async def leader(store: PostgresStore, clock: ManualClock) -> Leader:
    return await seize_lead(store, now=clock.now())


@pytest.fixture
async def alice(opened: OpenStore, clock: ManualClock) -> Stalled:
    return await Stalled.joined(opened, clock, "alice")


@pytest.fixture
async def bob(opened: OpenStore, clock: ManualClock) -> Stalled:
    return await Stalled.joined(opened, clock, "bob")


async def nothing_was_written(schema: Schema) -> bool:
    return (
        await schema.states() == {}
        and await schema.value("SELECT max(checkpoint) FROM {schema}.checkpoint") is None
        and await schema.value("SELECT count(*) FROM {schema}.quarantine") == 0
    )


# Declared dead


async def test_a_burial_leaves_a_reader_alone_whose_advance_is_about_to_be_committed(
    store: PostgresStore, clock: ManualClock, leader: Leader, alice: Stalled, schema: Schema
):
    held = await alice.reader.held()
    clock.pass_time(LEASE + SECOND)
    advancing = await alice.advancing(held)

    await store.supervision.bury(leader, lease=LEASE, now=clock.now())
    assert await schema.value("SELECT live FROM {schema}.instance")
    alice.go_on()

    assert await advancing == Advanced(started=5)
    await store.supervision.bury(leader, lease=LEASE, now=clock.now())
    assert isinstance(await alice.reader.advance(held, to=9), LeaseLost)
    assert await alice.reader.checkpoint() == 5


async def test_a_graceful_stop_waits_for_the_advance_that_is_about_to_be_committed(
    store: PostgresStore, clock: ManualClock, alice: Stalled, schema: Schema
):
    advancing = await alice.advancing(await alice.reader.held())

    retiring = asyncio.create_task(store.retire(alice.reader.owner, now=clock.now()))
    await schema.waits_for_a_lock("UPDATE {schema}.instance")
    alice.go_on()

    assert await advancing == Advanced(started=5)
    await retiring


async def test_an_advance_that_comes_upon_its_burial_waits_for_it_and_is_refused_whole(
    opened: OpenStore, clock: ManualClock, leader: Leader, alice: Stalled, schema: Schema
):
    held = await alice.reader.held()
    clock.pass_time(LEASE + SECOND)
    threshold = Threshold()
    undertaker = await opened(boundary=threshold)
    threshold.close()
    burial = asyncio.create_task(undertaker.supervision.bury(leader, lease=LEASE, now=clock.now()))
    await threshold.reached()

    advancing = asyncio.create_task(
        alice.reader.advance(held, to=5, starts=STARTS, quarantined=[set_aside(9)])
    )
    await schema.waits_for_a_lock("FROM {schema}.instance")
    assert not advancing.done()
    threshold.open()

    await burial
    assert isinstance(await advancing, LeaseLost)
    assert await nothing_was_written(schema)


# Displaced


async def test_who_is_just_writing_is_not_displaced_and_its_heir_goes_on_where_it_left_off(
    clock: ManualClock, alice: Stalled, bob: Stalled
):
    held = await alice.reader.held()
    clock.pass_time(LEASE + SECOND)
    advancing = await alice.advancing(held)

    assert await bob.reader.hold(0) == []
    alice.go_on()

    assert await advancing == Advanced(started=5)
    assert await bob.reader.hold(0) == [Holding(group=ARCHIVE, partition=0, epoch=2, checkpoint=5)]
    assert isinstance(await alice.reader.advance(held, to=9), LeaseLost)


async def test_an_advance_that_comes_upon_its_displacement_waits_for_it_and_is_refused_whole(
    clock: ManualClock, alice: Stalled, bob: Stalled, schema: Schema
):
    held = await alice.reader.held()
    clock.pass_time(LEASE + SECOND)
    holding = await bob.holding(0)

    advancing = asyncio.create_task(
        alice.reader.advance(held, to=5, starts=STARTS, quarantined=[set_aside(9)])
    )
    await schema.waits_for_a_lock("UPDATE {schema}.checkpoint")
    assert not advancing.done()
    bob.go_on()

    assert [one.partition for one in await holding] == [0]
    assert isinstance(await advancing, LeaseLost)
    assert await nothing_was_written(schema)


async def test_a_displacement_that_is_given_up_costs_nobody_anything(
    clock: ManualClock, alice: Stalled, bob: Stalled, schema: Schema
):
    held = await alice.reader.held()
    clock.pass_time(LEASE + SECOND)
    holding = await bob.holding(0)
    advancing = asyncio.create_task(alice.reader.advance(held, to=5, starts=STARTS))
    await schema.waits_for_a_lock("UPDATE {schema}.checkpoint")

    holding.cancel()

    assert await advancing == Advanced(started=5)


async def test_who_was_out_of_contact_displaces_nobody_whose_first_sign_of_life_may_be_on_its_way(
    clock: ManualClock, alice: Stalled, bob: Stalled
):
    held = await alice.reader.held()
    clock.pass_time(LEASE + SECOND)

    assert await bob.reader.hold(0, lease=SHORTER_THAN_BOB_WAS_SILENT) == []

    assert await alice.reader.advance(held, to=1) == Advanced()


async def test_of_two_who_take_the_same_partitions_each_gets_what_the_other_did_not(
    alice: Stalled, bob: Stalled, schema: Schema
):
    holding = await bob.holding(0, 1)

    hers = asyncio.create_task(alice.reader.hold(0, 1, 2))
    await schema.waits_for_a_lock("INSERT INTO {schema}.checkpoint")
    bob.go_on()

    assert [one.partition for one in await holding] == [0, 1]
    assert [one.partition for one in await hers] == [2]


async def test_of_two_who_take_what_a_third_left_one_gets_it(
    store: PostgresStore, clock: ManualClock, alice: Stalled, bob: Stalled
):
    third = Reader(store, clock, (await Holder.joined(store, clock, "carol")).owner)
    await third.hold(0, 1)
    await store.retire(third.owner, now=clock.now())
    holding = await bob.holding(0, 1)

    assert await alice.reader.hold(0, 1) == []
    bob.go_on()

    assert [(one.partition, one.epoch) for one in await holding] == [(0, 2), (1, 2)]
    assert await alice.reader.hold(0, 1) == []


async def test_whoever_comes_first_no_event_is_processed_by_two_and_none_is_lost(
    opened: OpenStore, clock: ManualClock
):
    """Two readers that displace each other again and again, each going on where the other was."""
    chance = Random(7)
    outcomes: Counter[str] = Counter()
    readers = []
    for name in ("alice", "bob"):
        store = await opened()
        readers.append(Reader(store, clock, (await Holder.joined(store, clock, name)).owner))

    async def read(reader: Reader) -> int:
        """Take the partition, and start a task for each of the next events; how many were new."""
        started = 0
        for _ in range(30):
            await asyncio.sleep(chance.random() * 0.004)
            clock.pass_time(LEASE + SECOND)
            for held in await reader.hold(0):
                first = held.checkpoint or 0
                for offset in range(first, first + 3):
                    answer = await reader.advance(
                        held, to=offset + 1, starts=[a_start(f"event-{offset}", offset)]
                    )
                    outcomes[type(answer).__name__] += 1
                    if isinstance(answer, LeaseLost):
                        break
                    assert answer == Advanced(started=1)
                    started += 1
        return started

    started = sum(await asyncio.gather(*map(read, readers)))

    assert await readers[0].checkpoint() == started
    print(dict(outcomes))


async def test_a_group_is_not_forgotten_under_the_hands_of_who_is_just_taking_it(
    store: PostgresStore, clock: ManualClock, alice: Stalled, bob: Stalled, schema: Schema
):
    held = await alice.reader.held()
    await alice.reader.advance(held, to=7)
    await alice.reader.release(held)
    holding = await bob.holding(0)

    forgetting = asyncio.create_task(store.groups.forget(ARCHIVE, act=ANN, now=clock.now()))
    await schema.waits_for_a_lock("FROM {schema}.checkpoint")
    bob.go_on()

    assert [one.checkpoint for one in await holding] == [7]
    with pytest.raises(Conflict, match="bob"):
        await forgetting
    assert await bob.reader.checkpoint() == 7


# The quarantine


async def test_two_who_set_events_aside_at_once_do_not_exceed_the_limit_and_call_once(
    store: PostgresStore, alice: Stalled, bob: Stalled, schema: Schema
):
    hers, his = await alice.reader.held(0), await bob.reader.held(1)
    aside = {"starts": [], "quarantined": [set_aside(0)], "quarantine_max": 1}
    advancing = await alice.advancing(hers, **aside)

    refused = asyncio.create_task(
        bob.reader.advance(his, to=1, quarantined=[set_aside(0, partition=1)], quarantine_max=1)
    )
    await schema.waits_for_a_lock("pg_advisory_xact_lock")
    alice.go_on()

    assert await advancing == Advanced()
    assert isinstance(await refused, QuarantineFull)
    assert await bob.reader.checkpoint(1) is None
    assert len(await store.records.alerts(AlertFilter())) == 1


# In the way


async def test_an_id_that_somebody_holds_on_to_holds_up_its_own_advance_only(alice: Stalled, schema: Schema):
    first, second = await alice.reader.hold(0, 1)
    async with schema.connection.transaction():
        await schema.execute(
            "INSERT INTO {schema}.task"
            " (id, workflow, version, state, input, attributes, created_at, updated_at)"
            " VALUES ('t0', 'ship', 1, 'pending', '{}', '{}', now(), now())"
        )
        advances = [
            Advance(holding=first, to=5, starts=STARTS),
            Advance(holding=second, to=1, starts=[a_start("other")]),
        ]
        refused, passed = await alice.reader.advance_all(advances)

    assert isinstance(refused, StoreUnavailable)
    assert passed == Advanced(started=1)
    assert await alice.reader.advance_all(advances) == [Advanced(started=4), Advanced()]
