"""What programs do with a stream, and what bad input gets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from backstay import App, Appended, Event
from backstay.client import Client
from backstay.errors import (
    Closed,
    Conflict,
    EventConflict,
    InvalidId,
    InvalidInput,
    InvalidRequest,
    PayloadTooLarge,
    UnknownStream,
)
from tests.support.ingesting import STREAM


@pytest.fixture
def app() -> App:
    app = App("shop")
    app.stream(STREAM, partitions=2)
    return app


async def everything(client: Client) -> list[Event]:
    found = []
    for partition in range(2):
        found += await client.stream(STREAM).read(partition, limit=1000)
    return found


async def test_an_event_is_read_as_it_was_appended(app: App, tmp_path: Path):
    async with app.client(f"sqlite:///{tmp_path / 'x.db'}") as client:
        stream = client.stream(STREAM)
        place = await stream.append({"a": [1, None]}, key="k", id="e-1", headers={"trace": "t"})
        [event] = await stream.read(place.partition, start=place.offset)

    assert (event.body, event.key, event.id, event.headers) == ({"a": [1, None]}, "k", "e-1", {"trace": "t"})
    assert (event.partition, event.offset, event.enqueued_at is not None) == (
        place.partition,
        place.offset,
        True,
    )


async def test_the_same_id_is_the_same_event_and_with_other_content_it_is_refused(app: App, tmp_path: Path):
    async with app.client(f"sqlite:///{tmp_path / 'x.db'}") as client:
        stream = client.stream(STREAM)
        first = await stream.append(1, key="k", id="e-1")
        again = await stream.append(1, key="k", id="e-1")
        assert again == Appended(first.partition, first.offset, duplicate=True)
        with pytest.raises(EventConflict, match="e-1"):
            await stream.append(2, key="k", id="e-1")

        good, bad, other = await stream.append_all(
            [Event(body=3, key="k"), Event(body=4, key="k", id="e-1"), Event(body=5, key="k")]
        )
        assert isinstance(bad, EventConflict)
        assert [one.body for one in await everything(client)] == [1, 3, 5]
        assert isinstance(good, Appended)
        assert isinstance(other, Appended)


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"key": ""}, InvalidInput, "key is ''; it must be text of 1 to 200 characters"),
        ({"key": "k" * 201}, InvalidInput, "key is"),
        ({"key": 7}, InvalidInput, "key is 7"),
        ({"id": "no id"}, InvalidId, "id is 'no id'"),
        ({"headers": {"a": 1}}, InvalidInput, "headers is"),
        ({"headers": {str(number): "" for number in range(33)}}, InvalidInput, "headers has 33 entries"),
        ({"body": float("nan")}, InvalidInput, "NaN"),
        ({"body": object()}, InvalidInput, "no JSON form"),
        ({"body": "x" * 2000}, PayloadTooLarge, "setting payload_bytes_max"),
    ],
)
async def test_bad_input_is_refused_and_appends_nothing(
    app: App, tmp_path: Path, given: dict[str, Any], error: type[Exception], says: str
):
    async with app.client(
        f"sqlite:///{tmp_path / 'x.db'}", payload_bytes_max=1024, inline_bytes_max=0
    ) as client:
        stream = client.stream(STREAM)
        with pytest.raises(error, match=says):
            await stream.append(**given)
        with pytest.raises(error, match=says):
            await stream.append_all([Event(body=1), Event(**{"body": 2, **given})])
        assert await everything(client) == []


async def test_a_read_has_bounds(app: App, tmp_path: Path):
    async with app.client(f"sqlite:///{tmp_path / 'x.db'}") as client:
        stream = client.stream(STREAM)
        with pytest.raises(InvalidRequest, match="limit is 0; it must be 1 to 10,000"):
            await stream.read(0, limit=0)
        with pytest.raises(InvalidRequest, match="an offset is -1"):
            await stream.read(0, start=-1)
        with pytest.raises(UnknownStream, match="with a partition 2"):
            await stream.read(2)


async def test_a_stream_that_nobody_declared_is_unknown(app: App, tmp_path: Path):
    async with app.client(f"sqlite:///{tmp_path / 'x.db'}") as client:
        with pytest.raises(UnknownStream, match=r"app\.stream\('letters'\)"):
            await client.stream("letters").append(1)


async def test_many_events_of_a_key_keep_their_order(app: App, tmp_path: Path):
    async with app.client(f"sqlite:///{tmp_path / 'x.db'}") as client:
        await client.stream(STREAM).append_all([Event(body=n, key="k") for n in range(12_000)])
        [standing] = await client.streams.standings(names=[STREAM], limit=1)
        [end] = {one.end for one in standing.partitions} - {0}
        assert end == 12_000


async def test_named_without_a_number_a_stream_has_the_partitions_that_it_has(app: App, tmp_path: Path):
    url = f"sqlite:///{tmp_path / 'x.db'}"
    async with app.run(store=url):
        await app.stream(STREAM).append(1)

    naming = App("naming")
    naming.stream(STREAM)
    async with naming.run(store=url):
        found = await naming._running.streams.find(STREAM)
        assert found is not None
        assert found.partitions == 2

    other = App("other")
    other.stream(STREAM, partitions=3)
    with pytest.raises(Conflict):
        async with other.run(store=url):
            pass


async def test_an_application_without_streams_has_no_second_file(tmp_path: Path):
    app = App("plain")
    async with app.run(store=f"sqlite:///{tmp_path / 'x.db'}"):
        pass
    assert not [path.name for path in tmp_path.iterdir() if "streams" in path.name]


async def test_a_stream_can_be_used_while_its_application_runs(app: App):
    with pytest.raises(Closed, match="is not running"):
        await app.stream(STREAM).append(1)
