"""A group that is forgotten begins anew, as it must when the log that it read is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from backstay import App, Event
from backstay.errors import OffsetAhead
from tests.support.databases import Database
from tests.support.ingesting import STREAM, checkpoints, process


async def test_a_group_whose_log_was_lost_reads_the_new_one_once_it_is_forgotten(
    database: Database, tmp_path: Path
):
    app = App("shop")
    seen: list[int] = []

    async def note(event: Event) -> None:
        seen.append(event.body)

    app.stream(STREAM, partitions=1).source(group="g").via(note)
    async with process(app, database.store(), tmp_path) as reader:
        await reader.append([1, 2, 3])
        await reader.run_dry()
        await reader.store.retire(reader.owner, now=reader.client._clock.now())
    (tmp_path / "other").mkdir()

    async with process(app, database.store(), tmp_path / "other") as anew:
        assert await checkpoints(anew.store) == {0: 3}
        with pytest.raises(OffsetAhead, match=f"`backstay streams forget {STREAM} GROUP`"):
            await anew.client.streams.read(STREAM, 0, start=3, limit=1)
        await anew.client.streamroom.forget(STREAM, "g")
        await anew.append([4])
        await anew.run_dry()

        assert seen == [1, 2, 3, 4]
        assert await checkpoints(anew.store) == {0: 1}
