"""What went in and out, as this process counted it."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

from backstay import App, Checkpoint, Event
from backstay.observe import appended, processed
from tests.support.running import comes_true


async def test_events_are_counted_where_they_are_appended_and_where_they_are_finished(tmp_path: Path):
    app = App("counting")
    stream = app.stream(f"counted-{uuid4()}", partitions=2)

    @app.workflow
    async def note(number: int) -> None: ...

    async def call(event: Event) -> None: ...

    stream.source(group="starts").map(lambda event: event.body).start(note)
    stream.source(group="filters").filter(lambda event: event.body > 5).start(note)
    stream.source(group="calls").via(call)

    @app.batch(stream, group="batches", max_events=4, max_wait="50ms")
    async def handle(events: list[Event], checkpoint: Checkpoint) -> None:
        await checkpoint()

    async with app.run(store=f"sqlite:///{tmp_path / 'counting.db'}"):
        await stream.append_all([Event(body=number, id=f"e{number}") for number in range(10)])
        await stream.append(0, id="e0")

        groups = ("starts", "filters", "calls", "batches")
        await comes_true(lambda: [processed[stream.name, group] for group in groups] == [10] * 4)

    assert appended[stream.name] == 10  # What was there before is not counted again.
