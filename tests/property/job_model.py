"""Jobs as simple as they can be: a few dictionaries, and times in whole seconds."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

#: (generation, instant, by hand, action, retry)
Said = tuple[int, int, bool, str, int]
#: (collection, name), in lower case.
Place = tuple[str, str]


@dataclass(frozen=True)
class Seen:
    """A job as somebody saw it who is about to fire it."""

    place: Place
    uid: str
    generation: int
    next_at: int | None
    updated_at: int
    fired_at: int | None
    occurrences: int


@dataclass
class Entry:
    """``said`` is None for a gap."""

    said: Said | None
    started_at: int
    number: int


@dataclass
class Job:
    """``put_off``: until when its next instant is left alone."""

    name: str
    uid: str
    generation: int
    state: str
    next_at: int | None
    updated_at: int
    put_off: int | None = None
    fired_at: int | None = None
    occurrences: int = 0
    executions: int = 0
    failures: int = 0
    faults: int = 0
    outcome: tuple[int, bool] | None = None
    ended_at: int | None = None
    history: list[Entry] = field(default_factory=list)
    tasks: set[str] = field(default_factory=set)

    @property
    def newest_first(self) -> list[Entry]:
        return sorted(self.history, key=lambda one: (one.started_at, one.number), reverse=True)


@dataclass
class JobModel:
    """What a store keeps of jobs, said in the plainest way."""

    history_max: int
    collections: dict[str, str] = field(default_factory=dict)
    jobs: dict[Place, Job] = field(default_factory=dict)
    #: Of every task whether it is open.
    tasks: dict[str, bool] = field(default_factory=dict)
    numbers: int = 0

    def delete_collection(self, name: str) -> None:
        del self.collections[name]
        for place in [place for place in self.jobs if place[0] == name]:
            del self.jobs[place]

    def put(self, place: Place, name: str, uid: str, *, state: str, next_at: int | None, now: int) -> None:
        """A new job, or the next generation of one."""
        old = self.jobs.get(place)
        new = Job(name, uid, 1, state, next_at, now)
        if old is not None:
            new = replace(new, name=old.name, uid=old.uid, generation=old.generation + 1)
            new.history, new.tasks, new.ended_at = old.history, old.tasks, old.ended_at
        self.jobs[place] = new
        self._settle(new, now)

    def patch(self, place: Place, *, state: str, next_at: int | None, now: int) -> None:
        job = self.jobs[place]
        job.state, job.next_at, job.updated_at, job.put_off = state, next_at, now, None
        self._settle(job, now)

    def set_state(self, name: str, state: str) -> None:
        if self.collections[name] != state:
            for place, job in self.jobs.items():
                if place[0] == name:
                    job.put_off = None
        self.collections[name] = state

    # Instants

    def due_at(self, place: Place) -> int | None:
        job = self.jobs[place]
        if job.state != "enabled" or self.collections[place[0]] != "Enabled" or job.next_at is None:
            return None
        return job.next_at if job.put_off is None else job.put_off

    def due(self, now: int) -> set[Place]:
        found = {place: self.due_at(place) for place in self.jobs}
        return {place for place, at in found.items() if at is not None and at <= now}

    @property
    def next_due(self) -> int | None:
        return min((at for at in map(self.due_at, self.jobs) if at is not None), default=None)

    def seen(self, place: Place) -> Seen:
        job = self.jobs[place]
        return Seen(
            place, job.uid, job.generation, job.next_at, job.updated_at, job.fired_at, job.occurrences
        )

    def fire(
        self, seen: Seen, *, task: str | None, next_at: int | None, put_off: int | None, gap: bool, now: int
    ) -> bool:
        job = self.jobs.get(seen.place)
        if job is None or self.due_at(seen.place) is None:
            return False
        if replace(self.seen(seen.place), fired_at=seen.fired_at) != seen:
            return False
        if put_off is None:
            job.fired_at = seen.next_at if task else seen.fired_at
            job.occurrences = seen.occurrences + (task is not None)
            job.next_at = next_at
        job.put_off = put_off
        if task is not None:
            self.tasks.setdefault(task, True)
            job.tasks.add(task)
        if gap:
            self._enter(job, None, now)
        self._settle(job, now)
        return True

    def at_work(self, place: Place) -> int:
        return sum(self.tasks[task] for task in self.jobs[place].tasks)

    # What became of them

    def record(self, place: Place, uid: str, said: Said, *, failed: bool, final: bool, now: int) -> bool:
        job = self.jobs.get(place)
        if job is None or job.uid != uid or any(one.said == said for one in job.history):
            return False
        generation, at, by_hand, action, retry = said
        self._enter(job, said, now)
        if generation == job.generation and action == "MainAction":
            job.executions += retry == 0
            job.failures += failed
            job.faults += failed and final
            if final and not by_hand and (job.outcome is None or job.outcome[0] <= at):
                job.outcome = at, failed
        self._settle(job, now)
        return True

    def prune(self, *, finished_before: int, entries_before: int) -> None:
        for place, job in [*self.jobs.items()]:
            if job.ended_at is not None and job.ended_at < finished_before:
                del self.jobs[place]
            job.history = [one for one in job.history if one.started_at >= entries_before]

    def _enter(self, job: Job, said: Said | None, now: int) -> None:
        self.numbers += 1
        job.history.append(Entry(said, now, self.numbers))
        job.history = job.newest_first[: self.history_max]

    def _settle(self, job: Job, now: int) -> None:
        """Whether it is over."""
        is_last = job.outcome is not None and job.outcome[0] == job.fired_at
        if job.state == "enabled" and job.next_at is None and is_last and job.outcome is not None:
            job.state = "faulted" if job.outcome[1] else "completed"
        over = job.state in ("completed", "faulted")
        job.ended_at = (job.ended_at if job.ended_at is not None else now) if over else None
