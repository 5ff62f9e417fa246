"""The answer to a COMMIT is lost with the connection: whether it happened, only the server can tell."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from backstay.domain.states import TaskState
from backstay.errors import BackstayError, StoreUnavailable
from backstay.store.base import Changes, Submitted
from backstay.store.groups import Advanced
from backstay.store.postgres import PostgresStore, lane
from backstay.store.supervision import Freed
from backstay.testing import ManualClock
from backstay.testing.promises.holder import CANCEL, LEASE, SECOND, Holder, submitted
from backstay.testing.promises.readers import Reader, a_start, set_aside
from backstay.testing.records import a_step, let_go, new_task
from tests.integration.postgres.schema import OpenStore, Schema
from tests.support.leading import seize_lead
from tests.support.pgproxy import Moment, PgProxy, mentions

MANY = [f"t{number:03}" for number in range(200)]


@pytest.fixture
async def far(opened: OpenStore, proxy_url: str) -> PostgresStore:
    """A store behind a network that loses what it is told to lose."""
    return await opened(proxy_url)


class Network:
    """Loses the COMMIT of the next transaction with a certain statement."""

    def __init__(self, proxy: PgProxy, schema: Schema, moment: Moment) -> None:
        self._proxy = proxy
        self._schema = schema.name
        self.moments: list[Moment] = [moment, "after" if moment == "before" else "before"]

    def lose(self, statement: str, moment: Moment | None = None) -> asyncio.Event:
        """The event tells that it is lost."""
        chosen = mentions(statement.replace("{schema}", self._schema))
        return self._proxy.lose_commit(moment or self.moments[0], when=chosen)


@pytest.fixture(params=["before", "after"])
def network(proxy: PgProxy, schema: Schema, request: pytest.FixtureRequest) -> Network:
    return Network(proxy, schema, request.param)


@pytest.fixture
async def alice(far: PostgresStore, clock: ManualClock) -> Holder:
    return await Holder.joined(far, clock, "alice")


# Lost before the server had it, or after


async def test_a_batch_is_written_once_and_every_writer_is_answered_once(
    far: PostgresStore, clock: ManualClock, alice: Holder, schema: Schema, network: Network
):
    await submitted(far, clock, *MANY)
    claimed = [one.task for one in await alice.claim()]
    lost = network.lose("INSERT INTO {schema}.step")
    answers: list[tuple[int, BackstayError | None]] = []

    for task in claimed:
        turn = alice.turn(
            task,
            steps=[a_step()],
            task=let_go(task, TaskState.PROCESSED),
            children=[new_task(f"{task.id}-child", parent_key=task.key, parent_step="child:1")],
        )
        far.apply(turn, partial(lambda key, refusal: answers.append((key, refusal)), task.key))
    await lost.wait()
    await alice.write(claimed[0], steps=[])  # it comes after all of them

    assert answers == [(task.key, None) for task in claimed]
    assert await schema.states() == {"processed": len(MANY), "pending": len(MANY)}
    assert await schema.value("SELECT count(*) FROM {schema}.step") == len(MANY)


async def test_those_who_listen_hear_once_of_what_a_batch_settled(
    far: PostgresStore, alice: Holder, schema: Schema, network: Network
):
    task = await alice.hold("t")
    heard: list[Changes] = []
    far.listen(heard.append)
    network.lose("INSERT INTO {schema}.step")

    await alice.leave(task, TaskState.PROCESSED, steps=[a_step()])

    assert [[one.id for one in changes.settled] for changes in heard if changes.settled] == [["t"]]


async def test_submissions_are_recorded_once_and_known_as_new(
    far: PostgresStore, clock: ManualClock, schema: Schema, network: Network
):
    lost = network.lose("INSERT INTO {schema}.task")

    answers = await asyncio.gather(*(far.submit([new_task(name)], now=clock.now()) for name in MANY))

    await lost.wait()
    assert [(one.task.id, one.created) for [one] in answers if isinstance(one, Submitted)] == [
        (name, True) for name in MANY
    ]
    assert await schema.value("SELECT count(*) FROM {schema}.task") == len(MANY)


async def test_what_was_claimed_is_delivered_to_its_claimant_and_nothing_is_claimed_twice(
    clock: ManualClock, alice: Holder, store: PostgresStore, schema: Schema, network: Network
):
    bob = await Holder.joined(store, clock, "bob")
    await submitted(store, clock, *MANY)
    lost = network.lose("SKIP LOCKED) AS found")

    hers = [one.task for one in await alice.claim(limit=150)]
    his = [one.task for one in await bob.claim()]

    await lost.wait()
    assert sorted(task.id for task in hers + his) == MANY
    recorded = await schema.rows("SELECT id, locked_by, lock_number FROM {schema}.task ORDER BY id")
    assert recorded == sorted((task.id, task.locked_by, 1) for task in hers + his)
    await asyncio.gather(*(alice.leave(task, TaskState.PROCESSED) for task in hers))


async def test_a_reader_advances_once_and_what_it_started_is_known_as_new(
    far: PostgresStore, clock: ManualClock, alice: Holder, schema: Schema, network: Network
):
    reader = Reader(far, clock, alice.owner)
    held = await reader.held()
    lost = network.lose("INSERT INTO {schema}.task")
    starts = [a_start(name, number) for number, name in enumerate(MANY)]

    answer = await reader.advance(held, to=len(MANY) + 1, starts=starts, quarantined=[set_aside(len(MANY))])

    await lost.wait()
    assert answer == Advanced(started=len(MANY))
    assert await schema.value("SELECT count(*) FROM {schema}.task") == len(MANY)
    assert await reader.checkpoint() == len(MANY) + 1
    assert len(await reader.quarantine()) == 1


async def test_a_partition_is_taken_once_and_its_holder_knows(
    far: PostgresStore, clock: ManualClock, alice: Holder, schema: Schema, network: Network
):
    reader = Reader(far, clock, alice.owner)
    lost = network.lose("WITH wanted AS MATERIALIZED")

    [held] = await reader.hold(0)

    await lost.wait()
    assert held.epoch == 1
    assert await reader.advance(held, to=1) == Advanced()


async def test_what_an_operator_changes_is_changed_once(
    far: PostgresStore, clock: ManualClock, schema: Schema, network: Network
):
    await submitted(far, clock, "t")
    heard: list[Changes] = []
    far.listen(heard.append)
    lost = network.lose("UPDATE {schema}.task SET request")

    # A second cancellation of the same task would be refused.
    after = await far.amend("t", CANCEL, now=clock.now())

    await lost.wait()
    assert after.state is TaskState.CANCELLED
    assert await schema.states() == {"cancelled": 1}
    assert [[one.id for one in changes.settled] for changes in heard] == [["t"]]


async def test_a_signal_without_a_key_is_not_doubled(
    far: PostgresStore, clock: ManualClock, schema: Schema, network: Network
):
    await submitted(far, clock, "t")
    lost = network.lose("INSERT INTO {schema}.signal")

    await far.signal("t", "go", b"1", dedup=None, now=clock.now())
    await far.signal("t", "go", b"2", dedup=None, now=clock.now())

    await lost.wait()
    told = await schema.rows("SELECT number, payload FROM {schema}.signal ORDER BY number")
    assert told == [(1, b"1"), (2, b"2")]


async def test_the_dead_are_buried_once(
    far: PostgresStore,
    clock: ManualClock,
    alice: Holder,
    schema: Schema,
    network: Network,
):
    await alice.hold("t")
    leader = await seize_lead(far, now=clock.now())
    clock.pass_time(LEASE + SECOND)
    lost = network.lose("live = false")

    assert await far.supervision.bury(leader, lease=LEASE, now=clock.now()) == Freed(runs=1)

    await lost.wait()
    assert await schema.rows("SELECT epoch, live FROM {schema}.instance") == [(2, False)]
    assert await schema.rows("SELECT state, crash_count FROM {schema}.task") == [("pending", 1)]


async def test_an_instance_registers_once(
    far: PostgresStore, clock: ManualClock, schema: Schema, network: Network
):
    lost = network.lose("INSERT INTO {schema}.instance")

    alice = await Holder.joined(far, clock, "alice")

    await lost.wait()
    await far.beat(alice.owner, now=clock.now())
    assert await schema.rows("SELECT id, epoch, live FROM {schema}.instance") == [("alice", 1, True)]


async def test_one_lost_commit_after_the_other_costs_nothing(alice: Holder, schema: Schema, network: Network):
    task = await alice.hold("t")
    one, other = network.moments
    for lost in (one, one, other, one, other, other):
        network.lose("INSERT INTO {schema}.step", lost)

    for number in range(6):
        assert await alice.write(task, steps=[a_step(key=f"charge:{number}")]) is None

    assert await schema.value("SELECT count(*) FROM {schema}.step") == 6


# While the lost transaction is still under way on the server


async def test_a_writer_whose_commit_is_still_under_way_is_answered_once_it_has_ended(
    alice: Holder, proxy: PgProxy, schema: Schema
):
    task = await alice.hold("t")
    async with schema.slow_commits("step"):
        answer = alice.post(task, steps=[a_step()])
        await schema.one_inside_commit()
        proxy.drop_all()

        await schema.waits_for_a_lock("INSERT INTO {schema}.writer")
        assert not answer.done()
        assert await schema.value("SELECT count(*) FROM {schema}.step") == 0

    assert await answer is None
    assert await schema.value("SELECT count(*) FROM {schema}.step") == 1


async def test_a_writer_whose_commit_was_cut_off_while_under_way_writes_again(
    alice: Holder, proxy: PgProxy, schema: Schema
):
    task = await alice.hold("t")
    async with schema.slow_commits("step"):
        answer = alice.post(task, steps=[a_step()])
        backend = await schema.one_inside_commit()
        proxy.drop_all()
        await schema.waits_for_a_lock("INSERT INTO {schema}.writer")

        await schema.rows("SELECT pg_terminate_backend($1)", backend)
        await schema.one_inside_commit(after=backend)  # it does it all again
        assert not answer.done()

    assert await answer is None
    assert await schema.value("SELECT count(*) FROM {schema}.step") == 1


async def test_a_claim_whose_commit_is_still_under_way_is_answered_with_what_it_claimed(
    alice: Holder, clock: ManualClock, store: PostgresStore, proxy: PgProxy, schema: Schema
):
    await submitted(store, clock, *MANY)
    async with schema.slow_commits("task"):
        claiming = asyncio.create_task(alice.claim())
        await schema.one_inside_commit()
        proxy.drop_all()
        await schema.waits_for_a_lock("INSERT INTO {schema}.writer")

    assert [one.task.id for one in await claiming] == MANY
    assert await schema.value("SELECT max(lock_number) FROM {schema}.task") == 1


# When the server stays away


async def test_a_submission_that_stays_in_doubt_says_so_and_may_be_made_again(
    far: PostgresStore,
    clock: ManualClock,
    proxy: PgProxy,
    schema: Schema,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(lane.Lane.transact, "__kwdefaults__", {"patience": 0.3})
    await submitted(far, clock, "before")
    lost = proxy.lose_commit("after")

    submitting = asyncio.create_task(far.submit([new_task("t")], now=clock.now()))
    await lost.wait()
    proxy.refuse = True
    with pytest.raises(StoreUnavailable, match="whether the last write happened is not known"):
        await submitting
    proxy.refuse = False

    [again] = await far.submit([new_task("t")], now=clock.now())
    assert isinstance(again, Submitted)
    assert not again.created
    assert await schema.value("SELECT count(*) FROM {schema}.task") == 2


async def test_a_batch_in_doubt_waits_for_the_server_however_long_it_is_away(
    far: PostgresStore, alice: Holder, proxy: PgProxy, schema: Schema, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(lane, "_LONGEST_PAUSE_SECONDS", 0.05)
    task = await alice.hold("t")
    lost = proxy.lose_commit("after", when=mentions(f"INSERT INTO {schema.name}.step"))

    answer = alice.post(task, steps=[a_step()], task=let_go(task, TaskState.PROCESSED))
    await lost.wait()
    proxy.refuse = True
    done, _ = await asyncio.wait([answer], timeout=1)
    assert not done
    proxy.refuse = False

    assert await answer is None
    assert await schema.states() == {"processed": 1}


async def test_a_caller_that_is_cancelled_inside_its_commit_leaves_nothing_in_the_way_of_the_next(
    far: PostgresStore, clock: ManualClock, schema: Schema
):
    await submitted(far, clock, "t", "u")
    async with schema.slow_commits("task"):
        amending = asyncio.create_task(far.amend("t", CANCEL, now=clock.now()))
        await schema.one_inside_commit()
        amending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await amending

    await asyncio.gather(*(far.signal("u", "go", b"1", dedup=None, now=clock.now()) for _ in range(8)))

    assert await schema.value("SELECT count(*) FROM {schema}.signal") == 8
    # Whether what was cancelled has happened, nobody was left to ask.
    assert (await far.task("t")).state in (TaskState.PENDING, TaskState.CANCELLED)
