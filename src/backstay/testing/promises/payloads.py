"""Values too large for a row come back as they were."""

from __future__ import annotations

from typing import Final

from backstay.domain.states import StepState, TaskState
from backstay.store.base import Store, Submitted
from backstay.testing.clock import ManualClock
from backstay.testing.promises.holder import Holder, Promises, submitted
from backstay.testing.records import a_step, new_task, replace


def large(letter: str) -> bytes:
    """JSON well above every inline limit, with letters that take more than one byte."""
    return f'"{letter * 200_000}ß"'.encode()


INPUT: Final = large("i")
OUTPUT: Final = large("o")
OTHER: Final = large("x")


class PayloadPromises(Promises):
    async def test_a_large_input_comes_back_wherever_the_task_is_read(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        [submission] = await submitted(store, clock, "t", input=INPUT)
        [claimed] = await alice.claim()

        assert submission.input == INPUT
        assert claimed.task.input == INPUT
        assert (await store.task("t")).input == INPUT

    async def test_a_large_input_is_compared_like_a_small_one(self, store: Store, clock: ManualClock) -> None:
        await submitted(store, clock, "t", input=INPUT)

        answers = await store.submit(
            [new_task("t", input=INPUT), new_task("t", input=OTHER)], now=clock.now()
        )

        assert [isinstance(answer, Submitted) for answer in answers] == [True, False]

    async def test_a_large_output_of_a_task_comes_back(self, store: Store, alice: Holder) -> None:
        await alice.leave(await alice.hold("t"), TaskState.PROCESSED, output=OUTPUT)

        assert (await store.task("t")).output == OUTPUT

    async def test_large_values_of_a_step_come_back(self, store: Store, alice: Holder) -> None:
        task = await alice.hold("t")
        running = a_step(StepState.RUNNING, task_key=task.key, input=INPUT)
        completed = a_step(task_key=task.key, input=INPUT, output=OUTPUT)

        await alice.write(task, steps=[running])
        assert await store.steps("t") == [running]
        await alice.write(task, steps=[completed])
        assert await store.steps("t") == [completed]

    async def test_a_large_value_gives_way_to_another(self, store: Store, alice: Holder) -> None:
        task = await alice.hold("t")
        step = a_step(task_key=task.key, output=OUTPUT)
        for output in (OUTPUT, OTHER, b"1"):
            await alice.write(task, steps=[replace(step, output=output)])
            assert [one.output for one in await store.steps("t")] == [output]

    async def test_two_tasks_may_hold_the_same_large_value(self, store: Store, clock: ManualClock) -> None:
        await submitted(store, clock, "a", "b", input=INPUT)

        assert (await store.task("a")).input == (await store.task("b")).input == INPUT

    async def test_a_large_signal_comes_back(self, store: Store, clock: ManualClock, alice: Holder) -> None:
        task = await alice.hold("t")

        await store.signal("t", "go", INPUT, dedup=None, now=clock.now())

        [standing] = await store.standing([task.key])
        assert [one.payload for one in standing.signals] == [INPUT]

    async def test_a_refused_turn_leaves_no_large_value_that_the_next_one_trips_over(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        task = await alice.hold("t")
        impossible = a_step(StepState.COMPLETED, output=OUTPUT, position=None)

        assert await alice.write(task, steps=[impossible]) is not None
        assert await alice.write(task, steps=[a_step(output=OUTPUT)]) is None

        assert [step.output for step in await store.steps("t")] == [OUTPUT]
