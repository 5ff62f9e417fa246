"""The open-loop generator against servers that misbehave: what they do wrong shows; nothing is made up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from bench.openloop.outcome import Fate, Outcome
from bench.openloop.plan import MARK, Load, Phase, request_text
from bench.openloop.process import generate_apart

HOST = "127.0.0.1"
ANSWER = b"HTTP/1.1 202 Accepted\r\ncontent-length: 2\r\n\r\n{}"

#: What to do with a request, of which this is the number: its answer, or None to close the connection.
Behave = Callable[[int], Awaitable[bytes | None]]


@asynccontextmanager
async def server(behave: Behave, *, hangs_up: bool = False, slowly: bool = False) -> AsyncIterator[int]:
    """Reads one request at a time, and behaves, if it must slowly, byte by byte; its port comes out."""
    talks: set[asyncio.Task[None]] = set()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                answer = await behave(int((await reader.readexactly(length)).strip(b'"')))
                if answer is None:
                    return
                size = 1 if slowly else len(answer)
                for begin in range(0, len(answer), size):
                    writer.write(answer[begin : begin + size])
                    await asyncio.sleep(0)
                if hangs_up:
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(talk(reader, writer))
        talks.add(task)
        task.add_done_callback(talks.discard)

    listening = await asyncio.start_server(connected, HOST, 0)
    async with listening:
        yield listening.sockets[0].getsockname()[1]
        for task in talks:
            task.cancel()


async def outcome_of(
    behave: Behave, *phases: Phase, hangs_up: bool = False, slowly: bool = False, **terms: Any
) -> Outcome:
    async with server(behave, hangs_up=hangs_up, slowly=slowly) as port:
        load = Load(
            host=HOST,
            port=port,
            request=request_text("/", f'"{MARK}"', host=HOST),
            phases=phases,
            connections=8,
        )
        return await asyncio.to_thread(generate_apart, replace(load, **terms))


def stalling_at(first: int) -> Behave:
    """Takes a few milliseconds for a request; the one of this number, and all after it, wait for a second."""
    over = asyncio.Event()

    async def behave(number: int) -> bytes:
        if number == first:
            asyncio.get_running_loop().call_later(1.0, over.set)
        if number >= first:
            await over.wait()
        await asyncio.sleep(0.005)
        return ANSWER

    return behave


async def test_every_request_is_sent_once_and_its_answer_counted():
    numbers = []

    async def behave(number: int) -> bytes:
        numbers.append(number)
        return ANSWER

    outcome = await outcome_of(behave, Phase("slow", 0.5, rate=100), Phase("fast", 0.5, rate=400))

    assert sorted(numbers) == list(range(250))
    assert [(phase.due, phase.accepted) for phase in outcome.phases] == [(50, 50), (200, 200)]
    assert outcome.fates == bytes([Fate.ACCEPTED]) * 250
    assert outcome.connections_lost == 0
    assert all(phase.latencies.count == phase.due for phase in outcome.phases)


async def test_a_server_that_stalls_for_a_second_makes_all_late_that_was_due_meanwhile():
    """Of 400 requests in two seconds half are due during the stall, whether or not they can be sent."""
    outcome = await outcome_of(stalling_at(100), Phase("all", 2.0, rate=200))

    [phase] = outcome.phases
    assert phase.accepted == 400
    assert phase.latencies.percentile_ms(99) > 900, (
        "one of eight connections would have seen one such request"
    )
    assert phase.latencies.percentile_ms(75) > 300, "half of the requests waited half a second on average"
    assert phase.latencies.percentile_ms(10) < 300
    assert phase.lateness.percentile_ms(99) > 800, "most of them waited for a connection that was free"


async def test_a_client_that_waits_for_answers_does_not_see_the_same_stall():
    """What the test above guards against: without a rate, eight requests are late and nothing else is."""
    outcome = await outcome_of(stalling_at(100), Phase("all", 3.0))

    [phase] = outcome.phases
    assert phase.due > 800
    assert phase.latencies.percentile_ms(98) < 900 < phase.latencies.max_ms


async def test_a_connection_that_is_dropped_costs_the_request_on_it_and_is_never_a_success():
    answered = []

    async def behave(number: int) -> bytes | None:
        if number % 10 == 3:
            return None
        answered.append(number)
        return ANSWER

    outcome = await outcome_of(behave, Phase("all", 1.0, rate=200))

    [phase] = outcome.phases
    assert (phase.due, phase.accepted, phase.failed) == (200, 180, {"closed without an answer": 20})
    assert [number for number, fate in enumerate(outcome.fates) if fate == Fate.ACCEPTED] == sorted(answered)
    assert outcome.connections_lost == 20


@pytest.mark.parametrize("answer", [ANSWER[:-1], ANSWER[:10], ANSWER[:-2]])
async def test_half_an_answer_before_the_connection_closes_is_none(answer):
    async def behave(number: int) -> bytes:
        return answer

    outcome = await outcome_of(behave, Phase("all", 0.2, rate=50), hangs_up=True)

    [phase] = outcome.phases
    assert (phase.due, phase.accepted, phase.failed) == (10, 0, {"closed within an answer": 10})


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 202 Accepted\r\n\r\n",
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 202 Accepted\r\nx: " + b"y" * 70_000,
    ],
)
async def test_what_does_not_say_how_long_it_is_or_never_ends_is_no_answer(answer):
    async def behave(number: int) -> bytes:
        return answer

    outcome = await outcome_of(behave, Phase("all", 0.2, rate=50))

    [phase] = outcome.phases
    assert (phase.due, phase.accepted, phase.failed) == (10, 0, {"not an answer": 10})


async def test_more_answers_than_requests_are_no_success_either():
    async def behave(number: int) -> bytes:
        return ANSWER * 2

    outcome = await outcome_of(behave, Phase("all", 0.2, rate=50))

    assert outcome.accepted == 10
    assert outcome.connections_lost == 10


async def test_an_answer_that_comes_byte_by_byte_is_one():
    async def behave(number: int) -> bytes:
        return ANSWER

    outcome = await outcome_of(behave, Phase("all", 0.5, rate=40), slowly=True)

    assert (outcome.accepted, outcome.not_accepted) == (20, 0)


async def test_other_statuses_are_refusals():
    async def behave(number: int) -> bytes:
        return ANSWER if number % 2 else b"HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"

    outcome = await outcome_of(behave, Phase("all", 0.5, rate=40))

    [phase] = outcome.phases
    assert (phase.accepted, phase.refused) == (10, {"503": 10})
    assert set(outcome.fates[::2]) == {Fate.REFUSED}


async def test_what_has_no_answer_in_time_has_timed_out_whether_or_not_it_could_be_sent():
    async def behave(number: int) -> bytes:
        await asyncio.Event().wait()
        raise AssertionError

    outcome = await outcome_of(behave, Phase("all", 0.5, rate=100), timeout=1.0)

    [phase] = outcome.phases
    assert (phase.due, phase.accepted, phase.timed_out) == (50, 0, 50)
    assert set(outcome.fates) == {Fate.TIMED_OUT}
    assert phase.latencies.percentile_ms(50) == 1_000


async def test_requests_may_follow_one_another_without_waiting_where_that_is_asked_for():
    under_way, most = 0, 0

    async def behave(number: int) -> bytes:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.01)
        under_way -= 1
        return ANSWER

    outcome = await outcome_of(behave, Phase("all", 0.5), connections=1, depth=4)

    [phase] = outcome.phases
    assert phase.due == phase.accepted > 4
    assert most == 1, "the server takes them one by one"
    assert phase.latencies.percentile_ms(50) > 30, "each waits for the three before it"


async def test_where_nobody_listens_everything_times_out():
    async with server(None) as port:  # type: ignore[arg-type]
        pass
    load = Load(
        host=HOST,
        port=port,
        request=request_text("/", f'"{MARK}"', host=HOST),
        phases=[Phase("first", 0.1), Phase("then", 0.1, rate=100)],
        connections=2,
        timeout=0.5,
    )

    outcome = await asyncio.to_thread(generate_apart, load)

    assert [(phase.due, phase.timed_out) for phase in outcome.phases] == [(0, 0), (10, 10)]
    assert outcome.connections_refused > 0
