"""What a reader made of events, and how far it has got: one transaction, for its holder only."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from backstay.domain.lease import Leader
from backstay.domain.message import Queue
from backstay.domain.states import StepState
from backstay.errors import Conflict, LeaseLost
from backstay.store.base import Changes, Store
from backstay.store.groups import Advance, Advanced
from backstay.testing.clock import ManualClock
from backstay.testing.promises.holder import LEASE, MANY, SECOND, Holder, submitted
from backstay.testing.promises.listing import listed
from backstay.testing.promises.readers import Reader, ReadingPromises, a_start, an_event, set_aside
from backstay.testing.records import a_step, replace


class AdvancePromises(ReadingPromises):
    async def test_tasks_and_checkpoint_are_written_together(self, store: Store, reader: Reader) -> None:
        held = await reader.held()

        answer = await reader.advance(held, to=2, starts=[a_start("a", 0), a_start("b", 1, input=b'"x"')])

        assert answer == Advanced(started=2)
        assert await reader.checkpoint() == 2
        assert [(await store.task(one)).input for one in "ab"] == [b"{}", b'"x"']

    async def test_a_checkpoint_never_moves_back(self, reader: Reader) -> None:
        held = await reader.held()
        await reader.advance(held, to=7)

        assert await reader.advance(held, to=3) == Advanced()

        assert await reader.checkpoint() == 7

    async def test_a_checkpoint_may_begin_at_nothing(self, reader: Reader) -> None:
        await reader.advance(await reader.held(), to=0)

        assert await reader.checkpoint() == 0

    async def test_without_an_offset_the_checkpoint_stays(self, store: Store, reader: Reader) -> None:
        held = await reader.held()
        await reader.advance(held, starts=[a_start("a", 5)])
        assert await reader.checkpoint() is None
        await reader.advance(held, to=7)

        await reader.advance(held, starts=[a_start("b", 9)])

        assert await reader.checkpoint() == 7
        assert await listed(store) == ["b", "a"]

    async def test_of_several_that_come_together_the_furthest_counts(self, reader: Reader) -> None:
        held = await reader.held()

        answers = await reader.advance_all([Advance(holding=held, to=to) for to in (3, 9, None, 5)])

        assert answers == [Advanced()] * 4
        assert await reader.checkpoint() == 9

    async def test_nothing_at_all_is_answered_with_nothing(self, reader: Reader) -> None:
        assert await reader.advance_all([]) == []

    # Events that come twice

    async def test_what_is_said_again_starts_nothing_again(self, store: Store, reader: Reader) -> None:
        held = await reader.held()
        starts = [a_start("a", 0), a_start("b", 1)]
        await reader.advance(held, to=2, starts=starts)

        assert await reader.advance(held, to=2, starts=starts) == Advanced()
        assert await reader.advance(held, to=3, starts=[*starts, a_start("c", 2)]) == Advanced(started=1)

        assert await listed(store) == ["c", "b", "a"]
        assert await reader.quarantine() == []

    async def test_an_id_that_comes_twice_at_once_is_one_task(self, store: Store, reader: Reader) -> None:
        starts = [a_start("a", 0), a_start("a", 1), a_start("b", 2)]

        assert await reader.advance(await reader.held(), to=3, starts=starts) == Advanced(started=2)

        assert await listed(store) == ["b", "a"]

    async def test_a_task_that_somebody_else_submitted_is_the_same(
        self, store: Store, clock: ManualClock, reader: Reader
    ) -> None:
        await submitted(store, clock, "a")

        assert await reader.advance(await reader.held(), starts=[a_start("a")]) == Advanced()

    async def test_an_event_whose_task_is_another_is_set_aside(
        self, store: Store, clock: ManualClock, reader: Reader
    ) -> None:
        await submitted(store, clock, "a")
        starts = [a_start("a", 0, input=b'"other"'), a_start("b", 1), a_start("a", 2, workflow="bill")]

        answer = await reader.advance(await reader.held(), to=3, starts=starts)

        assert answer == Advanced(started=1, conflicts=2)
        assert (await store.task("a")).input == b"{}"
        assert await reader.checkpoint() == 3
        quarantined = await reader.quarantine()
        assert [one.event for one in quarantined] == [an_event(0), an_event(2)]
        assert all("exists already" in one.reason for one in quarantined)

    async def test_of_two_at_once_with_one_id_the_second_is_set_aside_if_it_is_another(
        self, store: Store, reader: Reader
    ) -> None:
        starts = [a_start("a", 0), a_start("a", 1, input=b"[1]")]

        answer = await reader.advance(await reader.held(), starts=starts)

        assert answer == Advanced(started=1, conflicts=1)
        assert (await store.task("a")).input == b"{}"
        assert [one.event.offset for one in await reader.quarantine()] == [1]

    # What tasks have beside their rows

    async def test_plans_and_large_inputs_are_entered_with_their_tasks(
        self, store: Store, reader: Reader
    ) -> None:
        plan = (a_step(StepState.PENDING, input=None),)
        large = msgspec.json.encode("x" * 100_000)
        held = await reader.held()
        starts = [a_start("a", 0, plan=plan), a_start("b", 1, input=large), a_start("c", 2)]

        for started in (3, 0):
            assert await reader.advance(held, starts=starts) == Advanced(started=started)

        assert [step.key for step in await store.steps("a")] == ["charge:1"]
        assert (await store.task("b")).input == large
        assert await store.steps("c") == []

    async def test_another_large_input_under_the_same_id_is_another_task(self, reader: Reader) -> None:
        first, second = (msgspec.json.encode(letter * 100_000) for letter in "xy")
        held = await reader.held()
        await reader.advance(held, starts=[a_start("a", 0, input=first)])

        answer = await reader.advance(held, starts=[a_start("a", 1, input=second)])

        assert answer == Advanced(conflicts=1)

    async def test_submitters_are_told_once_that_their_tasks_were_received(
        self, store: Store, clock: ManualClock, reader: Reader
    ) -> None:
        await store.queues.declare(Queue(name="desk"), now=clock.now())
        held = await reader.held()
        starts = [a_start("a", 0, reply_to="queue:desk"), a_start("b", 1)]

        for _ in range(2):
            await reader.advance(held, to=2, starts=starts)

        assert [one.id for one in await store.queues.peek("desk", limit=MANY)] == ["a:received:1"]

    async def test_an_event_whose_submitter_cannot_be_told_is_set_aside(
        self, store: Store, reader: Reader
    ) -> None:
        starts = [a_start("a", 0, reply_to="queue:nowhere"), a_start("b", 1)]

        answer = await reader.advance(await reader.held(), to=2, starts=starts)

        assert answer == Advanced(started=1, conflicts=1)
        assert await listed(store) == ["b"]
        [quarantined] = await reader.quarantine()
        assert "nowhere" in quarantined.reason

    async def test_an_event_whose_task_cannot_be_kept_is_set_aside(
        self, store: Store, reader: Reader
    ) -> None:
        starts = [a_start("a", 0), a_start("b", 1, version=2**70), a_start("a", 2), a_start("c", 3)]

        answer = await reader.advance(await reader.held(), to=4, starts=starts)

        assert answer == Advanced(started=2, conflicts=1)
        assert await listed(store) == ["c", "a"]
        [quarantined] = await reader.quarantine()
        assert quarantined.event.offset == 1
        assert "refused task 'b'" in quarantined.reason
        assert await reader.checkpoint() == 4

    # Who is refused

    async def test_who_was_displaced_writes_nothing(
        self, store: Store, clock: ManualClock, reader: Reader, rival: Reader
    ) -> None:
        held = await reader.held()
        clock.pass_time(LEASE + SECOND)
        await rival.hold(0)

        answer = await reader.advance(held, to=1, starts=[a_start("a")], quarantined=[set_aside(3)])

        assert isinstance(answer, LeaseLost)
        assert "partition 0" in str(answer)
        assert await listed(store) == []
        assert await reader.quarantine() == []
        assert await reader.checkpoint() is None

    async def test_who_was_displaced_and_got_it_back_writes_under_its_new_epoch_only(
        self, store: Store, clock: ManualClock, reader: Reader, rival: Reader
    ) -> None:
        before = await reader.held()
        clock.pass_time(LEASE + SECOND)
        await rival.hold(0)
        await store.retire(rival.owner, now=clock.now())
        [after] = await reader.hold(0)

        assert isinstance(await reader.advance(before, to=9), LeaseLost)
        assert await reader.advance(after, to=2) == Advanced()
        assert await reader.checkpoint() == 2

    async def test_who_was_declared_dead_writes_nothing_even_where_nobody_followed(
        self, store: Store, clock: ManualClock, leader: Leader, reader: Reader
    ) -> None:
        held = await reader.held()
        clock.pass_time(LEASE + SECOND)
        await store.supervision.bury(leader, lease=LEASE, now=clock.now())

        answer = await reader.advance(held, to=1, starts=[a_start("a")])

        assert isinstance(answer, LeaseLost)
        assert await listed(store) == []

    async def test_who_released_a_partition_writes_nothing_in_it(self, reader: Reader) -> None:
        held = await reader.held()
        await reader.release(held)

        assert isinstance(await reader.advance(held, to=1), LeaseLost)

    async def test_a_holding_that_never_was_is_lost(self, reader: Reader, rival: Reader) -> None:
        held = await reader.held()

        assert isinstance(await reader.advance(replace(held, partition=9), to=1), LeaseLost)
        assert isinstance(await rival.advance(held, to=1), LeaseLost)

    async def test_one_that_is_refused_costs_the_others_nothing(
        self, store: Store, reader: Reader, rival: Reader
    ) -> None:
        held = {one.partition: one for one in await reader.hold(0, 1, 2)}
        [his] = await rival.hold(3)
        advances = [
            Advance(holding=held[0], to=1, starts=[a_start("a")]),
            Advance(holding=his, to=1, starts=[a_start("b")]),
            Advance(holding=held[1], to=-1, starts=[a_start("c")]),
            Advance(holding=held[2], to=1, starts=[a_start("d")]),
        ]

        first, second, third, fourth = await reader.advance_all(advances)

        assert first == fourth == Advanced(started=1)
        assert isinstance(second, LeaseLost)
        assert isinstance(third, Conflict)
        assert await listed(store) == ["d", "a"]
        standings = await reader.standings()
        assert [standings[number].checkpoint for number in range(3)] == [1, None, 1]

    async def test_many_who_advance_at_once_are_each_answered_for_their_own(
        self, store: Store, reader: Reader
    ) -> None:
        held = await reader.hold(*range(8))

        answers = await asyncio.gather(
            *(
                reader.advance(
                    one, to=number, starts=[a_start(f"{one.partition}-{count}") for count in range(number)]
                )
                for number, one in enumerate(held)
            )
        )

        assert answers == [Advanced(started=number) for number in range(8)]
        assert await store.backlog(at_most=MANY) == sum(range(8))
        assert [one.checkpoint for one in (await reader.standings()).values()] == [*range(8)]

    # Who hears of it

    async def test_whoever_listens_hears_that_there_is_something_to_claim(
        self, store: Store, reader: Reader, alice: Holder
    ) -> None:
        heard: list[Changes] = []
        held = await reader.held()
        stop = store.listen(heard.append)

        await reader.advance(held, to=1, starts=[a_start("a")])

        stop()
        assert any(one.claimable for one in heard)
        assert [one.task.id for one in await alice.claim()] == ["a"]

    @pytest.mark.parametrize("workflow", [None, "ship", "bill", "none"])
    async def test_what_waits_is_counted_by_workflow_no_further_than_asked(
        self, store: Store, reader: Reader, workflow: str | None
    ) -> None:
        ships = [a_start(f"ship-{number}") for number in range(4)]
        bills = [a_start(f"bill-{number}", workflow="bill", version=number) for number in range(2)]
        await reader.advance(await reader.held(), starts=[*ships, *bills])
        there = {None: 6, "ship": 4, "bill": 2, "none": 0}[workflow]

        found = [await store.backlog(at_most=number, workflow=workflow) for number in (0, 1, 3, 100)]

        assert found == [min(number, there) for number in (0, 1, 3, 100)]
