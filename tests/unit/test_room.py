"""How much may wait to be written: who comes when there is too much waits in line."""

from __future__ import annotations

import asyncio

from backstay.messaging.embedded.room import Room


async def settle() -> None:
    """Let everything run that can."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_there_is_room_until_one_of_the_limits_is_reached():
    by_events, by_bytes = Room(events_max=2, bytes_max=100), Room(events_max=10, bytes_max=100)

    by_events.take(events=1, size=1)
    by_bytes.take(events=1, size=99)
    assert by_events.is_there()
    assert by_bytes.is_there()
    by_events.take(events=1, size=1)
    by_bytes.take(events=1, size=1)

    assert not by_events.is_there()
    assert not by_bytes.is_there()


async def test_what_is_larger_than_all_the_room_still_comes_in():
    room = Room(events_max=2, bytes_max=100)

    await room.wait()
    room.take(events=50, size=5_000)

    assert not room.is_there()
    room.give_back(events=50, size=5_000)
    assert room.is_there()


async def test_those_who_wait_come_in_one_after_the_other_in_their_order():
    room = Room(events_max=1, bytes_max=100)
    room.take(events=1, size=1)
    came: list[int] = []

    async def come(number: int) -> None:
        await room.wait()
        room.take(events=1, size=1)
        came.append(number)

    waiting = [asyncio.create_task(come(number)) for number in range(3)]
    await settle()
    assert came == []
    for count in range(1, 4):
        room.give_back(events=1, size=1)
        await settle()
        assert came == [*range(count)]
    await asyncio.gather(*waiting)


async def test_one_waits_for_as_long_as_there_are_too_many_bytes():
    room = Room(events_max=10, bytes_max=100)
    room.take(events=2, size=300)
    waiting = asyncio.create_task(room.wait())
    await settle()

    room.give_back(events=1, size=200)
    await settle()
    assert not waiting.done()
    room.give_back(events=1, size=100)

    await asyncio.wait_for(waiting, timeout=10)


async def test_nobody_overtakes_those_who_wait():
    room = Room(events_max=1, bytes_max=100)
    room.take(events=1, size=1)
    waiting = asyncio.create_task(room.wait())
    await settle()

    room.give_back(events=1, size=1)

    assert not room.is_there()  # It is the other's.
    await waiting
    assert room.is_there()


async def test_one_who_gives_up_leaves_the_place_to_the_next():
    room = Room(events_max=1, bytes_max=100)
    room.take(events=1, size=1)
    first, second = asyncio.create_task(room.wait()), asyncio.create_task(room.wait())
    await settle()

    first.cancel()
    await settle()
    room.give_back(events=1, size=1)

    await asyncio.wait_for(second, timeout=10)
