"""The command line's view of a server, on a real one."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from backstay.cli.remote import Remote
from backstay.errors import StoreUnavailable, Unavailable
from backstay.store.base import TaskFilter
from backstay.testing.promises.holder import Holder
from backstay.testing.records import a_step
from tests.integration.http.conftest import held
from tests.support.serving import Served


@pytest.fixture
async def remote(served: Served) -> AsyncIterator[Remote]:
    async with Remote(served.url, token=None) as remote:
        yield remote


async def test_a_submission_without_an_id_is_given_one(served: Served, remote: Remote):
    tasks = [await remote.submit("anything", number) for number in (1, 1)]

    assert [created for _, created in tasks] == [True, True]
    assert {task.id for task, _ in tasks} == await entered(served)


async def test_who_got_no_answer_may_submit_again_and_enters_one_task(
    served: Served, remote: Remote, monkeypatch: pytest.MonkeyPatch
):
    submit = served.store.submit

    async def lost(tasks: Any, *, now: Any) -> None:
        await submit(tasks, now=now)
        raise StoreUnavailable("the answer was lost")

    with monkeypatch.context() as broken:
        broken.setattr(served.store, "submit", lost)
        with pytest.raises(Unavailable, match="submit again with --id") as raised:
            await remote.submit("anything", 1)
    [told] = re.findall(r"--id (\S+),", str(raised.value))
    task, created = await remote.submit("anything", 1, id=told)

    assert (task.id, created) == (told, False)
    assert await entered(served) == {told}


async def test_all_steps_are_shown_however_many_pages_they_fill(
    served: Served, alice: Holder, remote: Remote
):
    task = await held(served, alice)
    keys = [f"charge:{number}" for number in range(1, 1_003)]
    steps = [a_step(key=key, position=place) for place, key in enumerate(keys, start=1)]
    assert await alice.write(task, steps=steps) is None

    assert [step.key for step in await remote.steps("t")] == keys


async def entered(served: Served) -> set[str]:
    return {task.id for task in (await served.client.tasks(TaskFilter())).items}
