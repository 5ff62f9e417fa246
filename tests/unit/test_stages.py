"""What stages make of events, and the reasons for which events are set aside."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from backstay import App, Event, Permanent, Retry, Transient
from backstay.definitions.pipelines import PipelineDefinition, ViaSink
from backstay.domain.stream import REASON_LENGTH_MAX, EventRecord
from backstay.ingest.streams.stages import FILTERED, Refused, Stages
from backstay.ingest.streams.via import Via

EPOCH = datetime(2030, 1, 1, tzinfo=UTC)


def record(body: bytes = b"7") -> EventRecord:
    return EventRecord(partition=1, offset=2, body=body, key="k", id=None, headers=None, enqueued_at=EPOCH)


def declared(*stages: tuple[str, Any], via: Any = None, **options: Any) -> PipelineDefinition:
    async def nothing(value: Any) -> None: ...

    app = App("shop")
    chain = app.stream("s").source(group="g")
    for kind, function in stages:
        chain = getattr(chain, kind)(function)
    chain.via(via or nothing, **options)
    [found] = app.registry.pipelines.values()
    return found


def stages(*given: tuple[str, Any]) -> Stages:
    return Stages(declared(*given).stages)


async def both(chain: Stages, event: EventRecord) -> Any:
    """What comes out, in the loop for plain stages and in the other, which must be the same."""
    plain = chain.judge(event)
    assert plain == await chain.judged(event)
    return plain


async def test_the_first_stage_gets_the_event_and_each_other_what_came_before():
    seen: list[Event] = []

    def note(event: Event) -> int:
        seen.append(event)
        return int(event.body)

    chain = stages(("map", note), ("filter", lambda n: n == 7), ("map", str))
    assert await both(chain, record()) == "7"
    assert seen[0] == Event(body=7, key="k", partition=1, offset=2, enqueued_at=EPOCH)


async def test_what_is_filtered_goes_no_further():
    def never(value: Any) -> None:
        raise AssertionError

    assert await both(stages(("filter", lambda _: False), ("map", never)), record()) is FILTERED


async def test_none_is_a_value_like_any_other():
    assert await both(stages(("map", lambda _: None)), record()) is None


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("no good"), "map fail: ValueError: no good"),
        (KeyError("id"), "map fail: KeyError: 'id'"),
        (ValueError(), "map fail: ValueError: no message"),
        (ValueError("nul \0 and half \ud800"), "map fail: ValueError: nul \\0 and half \\ud800"),
        (Unspeakable(), "map fail: Unspeakable: no message"),
        (ValueError("x" * 9_000), ("map fail: ValueError: " + "x" * 9_000)[:REASON_LENGTH_MAX]),
        (asyncio.CancelledError(), "map fail was cancelled, by itself"),
    ],
)
async def test_the_reason_tells_the_stage_and_the_error(error: BaseException, reason: str):
    async def fail(event: Event) -> None:
        raise error

    with pytest.raises(Refused) as refused:
        await stages(("map", fail)).judged(record())
    assert str(refused.value) == reason


async def test_a_body_that_is_not_json_is_refused():
    with pytest.raises(Refused, match="the body is not JSON"):
        stages().judge(record(b"\xff"))
    with pytest.raises(Refused, match="the body is not JSON"):
        await stages().judged(record(b"{"))


def test_a_plain_function_that_gives_a_coroutine_is_told_so():
    async def later(event: Event) -> int:
        return 1

    with pytest.raises(Refused, match="gave a coroutine; declare it as an async def"):
        stages(("map", lambda event: later(event.body))).judge(record())


async def test_among_others_that_are_awaited_it_is_awaited_as_well():
    async def later(event: Event) -> int:
        return 1

    assert await stages(("map", lambda event: later(event.body))).judged(record()) == 1


# The function at the end


def via(function: Any, **options: Any) -> Via:
    sink = declared(via=function, **options).sink
    assert isinstance(sink, ViaSink)
    return Via(sink, complete_by=timedelta(hours=1), chance=lambda: 0.0)


async def test_a_failure_is_tried_again_as_often_as_declared():
    tries: list[int] = []

    async def fail(value: int) -> None:
        tries.append(value)
        if len(tries) < 3:
            raise Transient("not yet")

    await via(fail, retry=Retry(attempts=3, first="0ms")).process(7)
    assert tries == [7, 7, 7]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Permanent("never"), "via fail: Permanent: never"),
        (ValueError("not now"), "via fail, tries: 2: ValueError: not now"),
        (TimeoutError("slow"), "via fail, tries: 2: TimeoutError: slow"),
        (asyncio.CancelledError(), "via fail, tries: 2: RuntimeError: it was cancelled, by itself"),
    ],
)
async def test_why_an_event_is_given_up(error: BaseException, reason: str):
    async def fail(value: Any) -> None:
        raise error

    with pytest.raises(Refused) as refused:
        await via(fail, retry=Retry(attempts=2, first="0ms")).process(None)
    assert str(refused.value) == reason


async def test_past_its_complete_by_nothing_is_tried_again():
    tries: list[int] = []

    async def stubborn(value: Any) -> None:
        tries.append(1)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ValueError("not me") from None

    with pytest.raises(Refused, match="via stubborn: not done within 10ms"):
        await via(stubborn, complete_by="10ms", retry=Retry(attempts=9, first="0ms")).process(None)
    assert tries == [1]


async def test_whoever_cancels_it_is_obeyed():
    begun = asyncio.Event()

    async def hang(value: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    processing = asyncio.create_task(via(hang, complete_by="1h").process(None))
    await begun.wait()
    processing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await processing
