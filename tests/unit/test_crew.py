"""The asyncio tasks in which steps run: few, reused, and each piece of work alone in its context."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar
from typing import Any

import pytest

from backstay.agents.crew import Crew

color: ContextVar[str] = ContextVar("color", default="none")


class Piece:
    """A piece of work that tells what happened to it."""

    def __init__(self, body: Callable[[], Coroutine[Any, Any, None]], *, wanted: bool = True) -> None:
        self._body = body
        self._wanted = wanted
        self.context = Context()
        self.member: asyncio.Task[None] | None = None
        self.waited = False
        self.was_stopped = False

    def begin(self, member: asyncio.Task[None]) -> Coroutine[Any, Any, None] | None:
        if not self._wanted:
            return None
        self.member = member
        return self._body()

    def waits(self) -> None:
        self.waited = True

    def stopped(self) -> None:
        self.was_stopped = True


@pytest.fixture
async def crew() -> Crew:
    return Crew()


async def turns(number: int = 5) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def test_what_never_waits_is_done_by_one_member_in_the_order_in_which_it_was_put(crew: Crew):
    done: list[int] = []

    async def note(number: int) -> None:
        done.append(number)

    pieces = [Piece(lambda number=number: note(number)) for number in range(5)]  # type: ignore[misc]
    for piece in pieces:
        crew.put(piece)
    await turns()

    assert done == [0, 1, 2, 3, 4]
    assert len({piece.member for piece in pieces}) == 1
    assert not any(piece.waited for piece in pieces)


async def test_who_waits_does_not_hold_up_those_behind(crew: Crew):
    gate = asyncio.Event()
    done: list[str] = []

    async def wait() -> None:
        await gate.wait()
        done.append("waited")

    async def go() -> None:
        done.append("went")

    first, second = Piece(wait), Piece(go)
    crew.put(first)
    crew.put(second)
    await turns()

    assert done == ["went"]
    assert (first.waited, second.waited) == (True, False)

    gate.set()
    await turns()
    assert done == ["went", "waited"]


async def test_many_that_wait_are_begun_in_a_few_turns_of_the_loop_in_the_order_in_which_they_were_put(
    crew: Crew,
):
    gate = asyncio.Event()
    begun: list[int] = []

    async def wait(number: int) -> None:
        begun.append(number)
        await gate.wait()

    for number in range(100):
        crew.put(Piece(lambda number=number: wait(number)))  # type: ignore[misc]
    await turns(10)
    assert begun == list(range(100))

    gate.set()
    await turns()


async def test_whether_the_others_wait_or_not_each_piece_is_begun_once_and_in_its_turn(crew: Crew):
    gate = asyncio.Event()
    begun: list[int] = []
    waited: list[int] = []

    async def work(number: int) -> None:
        begun.append(number)
        if number % 7 == 0:
            await gate.wait()
            waited.append(number)

    for number in range(200):
        crew.put(Piece(lambda number=number: work(number)))  # type: ignore[misc]
    await turns(40)
    assert begun == list(range(200))

    gate.set()
    await turns(10)
    assert waited == list(range(0, 200, 7))


async def test_a_member_is_used_again(crew: Crew):
    async def wait() -> None:
        await asyncio.sleep(0)

    first, second = Piece(wait), Piece(wait)
    crew.put(first)
    await turns()
    crew.put(second)
    await turns()

    assert first.member is second.member


async def test_what_one_piece_sets_in_its_context_no_other_sees(crew: Crew):
    seen: list[str] = []

    async def paint(value: str) -> None:
        seen.append(color.get())
        color.set(value)
        await asyncio.sleep(0)
        seen.append(color.get())

    for value in ("red", "blue"):
        crew.put(Piece(lambda value=value: paint(value)))  # type: ignore[misc]
    await turns(10)

    assert sorted(seen) == ["blue", "none", "none", "red"]


async def test_a_body_is_the_current_task_of_its_member_and_may_set_itself_a_timeout(crew: Crew):
    outcome: list[str] = []

    async def hang() -> None:
        try:
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()
        except TimeoutError:
            outcome.append("timeout")

    piece = Piece(hang)
    crew.put(piece)
    async with asyncio.timeout(5):
        while not outcome:
            await asyncio.sleep(0.01)

    assert outcome == ["timeout"]
    assert not piece.was_stopped


async def test_a_cancelled_piece_unwinds_and_the_line_goes_on_without_its_member(crew: Crew):
    unwound: list[str] = []
    done: list[str] = []

    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            unwound.append("yes")

    async def go() -> None:
        done.append("went")

    piece = Piece(hang)
    crew.put(piece)
    await turns()
    assert piece.member is not None
    piece.member.cancel()
    after = Piece(go)
    crew.put(after)
    await turns()

    assert (unwound, piece.was_stopped, done) == (["yes"], True, ["went"])
    assert after.member is not piece.member


async def test_a_body_that_swallows_its_cancellation_takes_nobody_along(crew: Crew):
    done: list[str] = []

    async def stubborn() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            done.append("stayed")

    async def go() -> None:
        await asyncio.sleep(0)
        done.append("went")

    piece = Piece(stubborn)
    crew.put(piece)
    await turns()
    assert piece.member is not None
    piece.member.cancel()
    crew.put(Piece(go))
    await turns(10)

    assert done == ["stayed", "went"]
    assert not piece.was_stopped


async def test_what_nobody_wants_any_more_is_not_begun(crew: Crew):
    async def never() -> None:
        raise AssertionError("it was begun")

    async def go() -> None:
        done.append("went")

    done: list[str] = []
    crew.put(Piece(never, wanted=False))
    crew.put(Piece(go))
    await turns()

    assert done == ["went"]


async def test_a_dismissed_crew_leaves_no_task_behind():
    before = asyncio.all_tasks()
    crew = Crew()
    gate = asyncio.Event()

    async def wait() -> None:
        await gate.wait()

    async def go() -> None: ...

    crew.put(Piece(wait))
    crew.put(Piece(go))
    await turns()
    crew.dismiss()
    gate.set()
    await turns()

    assert asyncio.all_tasks() == before
