"""The last hour, as a process samples it for the charts of the console."""

from __future__ import annotations

from datetime import timedelta

import pytest

from backstay.console.samples import EVERY_SECONDS, SAMPLES_MAX, Samples
from backstay.domain.states import TaskState
from backstay.domain.step import Failure
from backstay.testing.promises.holder import Holder, submitted
from backstay.web.common import Common
from backstay.web.ports import Ports
from tests.integration.http.conftest import RUNS
from tests.support.serving import Served

EVERY = timedelta(seconds=EVERY_SECONDS)


@pytest.fixture
def samples(served: Served) -> Samples:
    ports = Ports(
        client=served.client,
        settings=served.client.settings,
        clock=served.clock,
        health=served.health,
        supervise=served.supervise,
    )
    return Samples(Common.of(ports))


async def test_rates_are_a_seconds_since_the_sample_before(served: Served, alice: Holder, samples: Samples):
    samples.listen()
    await samples.sample()
    await submitted(served.store, served.clock, *"abcde", workflow="order")
    first, second, *_ = await alice.claim(runs=RUNS)
    await alice.leave(first.task, TaskState.PROCESSED)
    await alice.leave(second.task, TaskState.ERROR, error=Failure("Permanent", "no"))
    served.clock.pass_time(EVERY)

    await samples.sample()

    [sample] = samples.all()
    assert (sample.entered, sample.ended, sample.failed) == (0.5, 0.2, 0.1)
    assert sample.pending + sample.processing == 3
    assert samples.newest == sample


async def test_the_oldest_samples_make_room(served: Served, samples: Samples):
    for _ in range(SAMPLES_MAX + 10):
        served.clock.pass_time(EVERY)
        await samples.sample()

    assert len(samples.all()) == SAMPLES_MAX
    span = samples.all()[-1].at - samples.all()[0].at
    assert span == (SAMPLES_MAX - 1) * EVERY_SECONDS, "an hour, but for one"
