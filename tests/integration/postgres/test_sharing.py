"""Those who share a group, at the same time: who takes a unit from whom, who joins with what."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random

import pytest

from backstay.domain.ownership import moves
from backstay.domain.stream import Holding, Unit
from backstay.errors import LeaseLost, ReadersDiffer
from backstay.store.groups import Advanced
from backstay.store.postgres import PostgresStore
from backstay.testing import ManualClock
from backstay.testing.promises.holder import Holder
from backstay.testing.promises.readers import Reader, a_start
from tests.integration.postgres.schema import OpenStore, Schema
from tests.integration.postgres.stalled import Stalled


@pytest.fixture
async def alice(opened: OpenStore, clock: ManualClock) -> Stalled:
    return await Stalled.joined(opened, clock, "alice")


@pytest.fixture
async def bob(opened: OpenStore, clock: ManualClock) -> Stalled:
    return await Stalled.joined(opened, clock, "bob")


# A unit that is taken from a holder that lives


async def test_who_is_just_writing_is_not_displaced_in_the_middle_of_it(alice: Stalled, bob: Stalled):
    held = await alice.reader.held()
    await bob.reader.join(1)
    seen = (await bob.reader.look()).units
    advancing = await alice.advancing(held)

    assert await bob.reader.take(*seen) == []
    alice.go_on()

    assert await advancing == Advanced(started=5)
    [taken] = await bob.reader.take(*seen)
    assert (taken.epoch, taken.checkpoint) == (2, 5)


async def test_who_writes_while_its_unit_is_taken_waits_for_that_and_is_refused_whole(
    alice: Stalled, bob: Stalled, schema: Schema
):
    held = await alice.reader.held()
    await bob.reader.join(1)
    taking = await bob.taking((await bob.reader.look()).units)

    advancing = asyncio.create_task(alice.reader.advance(held, to=5, starts=[a_start("t")]))
    await schema.waits_for_a_lock("UPDATE {schema}.checkpoint")
    bob.go_on()

    assert [one.unit for one in await taking] == [Unit(0)]
    assert isinstance(await advancing, LeaseLost)
    assert await schema.states() == {}


async def test_who_lets_go_while_its_unit_is_taken_takes_nothing_back(
    alice: Stalled, bob: Stalled, schema: Schema
):
    held = await alice.reader.held()
    await bob.reader.join(1)
    taking = await bob.taking((await bob.reader.look()).units)

    releasing = asyncio.create_task(alice.reader.release(held))
    await schema.waits_for_a_lock("UPDATE {schema}.checkpoint")
    bob.go_on()

    [taken] = await taking
    await releasing
    assert await bob.reader.hold() == [taken]


async def test_of_two_who_take_the_same_unit_from_a_third_one_gets_it(
    store: PostgresStore, clock: ManualClock, alice: Stalled, bob: Stalled
):
    third = Reader(store, clock, (await Holder.joined(store, clock, "carol")).owner)
    await third.hold(0)
    for one in (alice, bob):
        await one.reader.join(1)
    seen = (await bob.reader.look()).units
    taking = await bob.taking(seen)

    assert await alice.reader.take(*seen) == []
    bob.go_on()

    [taken] = await taking
    assert await alice.reader.take(*seen) == []
    assert await bob.reader.hold() == [taken]


# Joining


async def test_of_two_who_join_with_different_numbers_of_readers_the_second_waits_and_is_told(
    alice: Stalled, bob: Stalled, schema: Schema
):
    alice.threshold.close()
    joining = asyncio.create_task(alice.reader.join(2, readers=2))
    await alice.threshold.reached()

    other = asyncio.create_task(bob.reader.join(2, readers=3))
    await schema.waits_for_a_lock("pg_advisory_xact_lock")
    alice.go_on()

    await joining
    with pytest.raises(ReadersDiffer, match="readers=2 by alice"):
        await other
    assert len((await alice.reader.look()).units) == 4


async def test_of_two_who_change_the_number_of_readers_one_does(
    store: PostgresStore, clock: ManualClock, alice: Stalled, bob: Stalled, schema: Schema
):
    before = Reader(store, clock, (await Holder.joined(store, clock, "carol")).owner)
    [held] = await before.hold(0)
    await before.advance(held, to=7)
    await store.retire(before.owner, now=clock.now())
    alice.threshold.close()
    joining = asyncio.create_task(alice.reader.join(1, readers=2))
    await alice.threshold.reached()

    same = asyncio.create_task(bob.reader.join(1, readers=2))
    await schema.waits_for_a_lock("pg_advisory_xact_lock")
    alice.go_on()

    await asyncio.gather(joining, same)
    seen = await bob.reader.look()
    assert [one.id for one in seen.members] == ["alice", "bob"]
    assert [(one.unit, one.checkpoint, one.epoch) for one in seen.units] == [
        (Unit(0, 0), 7, 2),
        (Unit(0, 1), 7, 2),
    ]


# All at once


async def test_members_that_come_go_and_displace_each_other_start_each_task_once(
    opened: OpenStore, clock: ManualClock
):
    """Four that go by the rule, and now and then take what is another's; all of it at the same time."""
    chance = Random(7)
    outcomes: Counter[str] = Counter()
    readers = []
    for name in ("alice", "bob", "carol", "dave"):
        store = await opened()
        readers.append(Reader(store, clock, (await Holder.joined(store, clock, name)).owner))

    async def advance(reader: Reader, held: Holding) -> int:
        first = held.checkpoint or 0
        starts = [a_start(f"{held.partition}-{first}", first, partition=held.partition)]
        answer = await reader.advance(held, to=first + 1, starts=starts)
        outcomes[type(answer).__name__] += 1
        assert isinstance(answer, LeaseLost) or answer == Advanced(started=1)
        return isinstance(answer, Advanced)

    async def round_of(reader: Reader) -> int:
        seen = await reader.look()
        wanted = moves(seen, reader.owner.id)
        rudely = wanted.awaited[:1] if chance.random() < 0.3 else []
        await reader.take(*wanted.take, *rudely)
        mine = await reader.hold()
        started = sum([await advance(reader, one) for one in mine])
        mine = [one for one in await reader.hold() if one.unit in wanted.give_up]
        await reader.release(*mine)
        return started

    async def read(reader: Reader) -> int:
        started = 0
        for _ in range(25):
            if chance.random() < 0.15:
                await reader.leave()
                await reader.release(*await reader.hold())
                await asyncio.sleep(chance.random() * 0.02)
            await reader.join(6)
            started += await round_of(reader)
        return started

    started = sum(await asyncio.gather(*map(read, readers)))

    for _ in range(2):
        for reader in readers:
            started += await round_of(reader)
    standings = await readers[0].standings()
    assert sum(one.checkpoint or 0 for one in standings.values()) == started
    assert sorted(Counter(one.holder for one in standings.values()).values()) == [1, 1, 2, 2]
    assert outcomes["Advanced"] == started
