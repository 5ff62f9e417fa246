"""Whatever the timing, the outages, the catch-up and the overlap: each instant starts once or is in one gap.

A ticker looks at random moments; occurrences end at random ones. What ticks say is compared with the list of
all instants, which the recurrence gives.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice, pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from backstay.domain.jobs.records import CatchUp, HistoryEntry, JobRecord, Occurrence, Overlap
from backstay.domain.jobs.ticking import Rules, tick
from backstay.domain.recurrence import Timetable, read_timing
from tests.support.job_records import NOON, job

MANY = settings(max_examples=400, deadline=None)
RULES = Rules(grace=timedelta(seconds=30), catch_up_max=4, immediately=timedelta(seconds=20))
INSTANTS_MAX = 400

recurrences: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.fixed_dictionaries({"frequency": st.just("minute"), "interval": st.integers(1, 90)}),
    st.fixed_dictionaries(
        {
            "frequency": st.just("day"),
            "schedule": st.fixed_dictionaries(
                {"minutes": st.lists(st.integers(0, 59), min_size=1, max_size=3, unique=True)}
            ),
        }
    ),
)
limits = st.fixed_dictionaries(
    {},
    optional={
        "count": st.integers(1, 12),
        "endTime": st.integers(0, 40).map(lambda hours: (NOON + timedelta(hours=hours)).isoformat()),
    },
)
BRIEF, LONG = timedelta(minutes=3), timedelta(hours=9)
waits = st.timedeltas(timedelta(0), BRIEF) | st.timedeltas(timedelta(0), LONG)


@dataclass
class World:
    """A job, what became of it, and what is at work."""

    job: JobRecord
    now: datetime = NOON
    at_work: int = 0
    started: list[Occurrence] = field(default_factory=list)
    gaps: list[HistoryEntry] = field(default_factory=list)

    def look(self) -> None:
        found = tick(self.job, at_work=self.at_work, now=self.now, rules=RULES)
        if found is None:
            return
        self.job = found.job
        self.started.extend(found.starts)
        self.gaps.extend(found.gaps)
        self.at_work += len(found.starts)

    def end_one(self) -> None:
        self.at_work = max(0, self.at_work - 1)


def instants_of(one: JobRecord, until: datetime) -> list[datetime]:
    """All instants of the job up to then, however many of them may start."""
    table = Timetable(read_timing(one.definition), created=one.created_at, delay=RULES.immediately)
    found: list[datetime] = []
    due = table.first
    while due is not None and due <= until and len(found) < INSTANTS_MAX:
        found.append(due)
        due = table.next_after(due)
    return found


@MANY
@given(
    recurrence=recurrences,
    limit=limits,
    catch_up=st.sampled_from(CatchUp),
    overlap=st.sampled_from(Overlap),
    moves=st.lists(st.tuples(waits, st.booleans()), min_size=1, max_size=25),
)
def test_every_instant_starts_once_or_is_in_one_gap_in_their_order(
    recurrence: dict[str, Any],
    limit: dict[str, Any],
    catch_up: CatchUp,
    overlap: Overlap,
    moves: list[tuple[timedelta, bool]],
):
    timing = {"startTime": NOON.isoformat(), "recurrence": {**recurrence, **limit}}
    world = World(job(timing, catch_up=catch_up, overlap=overlap))
    for wait, one_ends in moves:
        world.now += wait
        if one_ends:
            world.end_one()
        world.look()

    begun = [one.at for one in world.started]
    assert all(one < other for one, other in pairwise(begun))
    assert [one.number for one in world.started] == list(range(1, len(begun) + 1))
    assert len(begun) == world.job.occurrences <= limit.get("count", INSTANTS_MAX)

    # Up to the next one that is due, or to now, or to the last that count allowed.
    over_by_count = len(begun) == limit.get("count")
    until = world.job.next_at - timedelta(microseconds=1) if world.job.next_at else world.now
    instants = instants_of(world.job, begun[-1] if over_by_count else until)
    if len(instants) < INSTANTS_MAX:
        skipped = sum(gap.instants for gap in world.gaps)
        assert set(begun) <= set(instants)
        assert len(begun) + skipped == len(instants)
        assert covered(world, instants) == instants


def covered(world: World, instants: list[datetime]) -> list[datetime]:
    """What started and what the gaps are about: each gap is of instants in a row, from the one it names."""
    places = {at: place for place, at in enumerate(instants)}
    found = [one.at for one in world.started]
    for gap in world.gaps:
        first = places[gap.expected_at]
        found.extend(islice(instants, first, first + gap.instants))
    return sorted(found)


@MANY
@given(
    catch_up=st.sampled_from(CatchUp),
    overlap=st.sampled_from(Overlap),
    looks=st.lists(st.timedeltas(timedelta(hours=-5), timedelta(hours=5)), min_size=1, max_size=25),
)
def test_a_clock_that_jumps_starts_nothing_twice_and_passes_nothing_over(
    catch_up: CatchUp, overlap: Overlap, looks: list[timedelta]
):
    timing = {"startTime": NOON.isoformat(), "recurrence": {"frequency": "minute", "interval": 7}}
    world = World(job(timing, catch_up=catch_up, overlap=overlap))
    for jump in looks:
        world.now += jump
        world.end_one()
        world.look()

    begun = [one.at for one in world.started]
    assert len(set(begun)) == len(begun)
    assert world.job.next_at is not None
    instants = instants_of(world.job, world.job.next_at - timedelta(microseconds=1))
    if len(instants) < INSTANTS_MAX:
        assert covered(world, instants) == instants
