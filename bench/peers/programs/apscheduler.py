"""Jobs of APScheduler 3: written, idle, and due at one instant, when each asks a local server."""

# mypy: disable-error-code="import-not-found, import-untyped"
# APScheduler is not installed where the types are checked.

from __future__ import annotations

import http.client
import json
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler

from bench.peers.programs.measuring import Given, given
from bench.sink import arrivals, sinking

#: As in ``bench.jobs``.
DUE_PER_SECOND = 1_000
IDLE_PER_SECOND = 10_000

THREADS = 100
_LEAD_SECONDS = 5.0
_DONE_SECONDS_MAX = 200.0
_FILL = 10_000

_own = threading.local()


def ask(address: str) -> None:
    """One request, on a connection that its thread keeps."""
    if not hasattr(_own, "connection"):
        url = urlsplit(address)
        _own.connection = http.client.HTTPConnection(str(url.hostname), url.port)
    _own.connection.request("GET", "/")
    _own.connection.getresponse().read()


def scheduler(name: str) -> tuple[BackgroundScheduler, SQLAlchemyJobStore]:
    store = SQLAlchemyJobStore(url=f"sqlite:///{name}.db")
    made = BackgroundScheduler(
        jobstores={"default": store},
        executors={"default": ThreadPoolExecutor(THREADS)},
        job_defaults={"misfire_grace_time": None},
        timezone=UTC,
    )
    made.start(paused=True)
    return made, store


def main() -> None:
    options = given()
    idle(options)
    due(options)


def idle(options: Given) -> None:
    """As many as it is meant to hold, by bulk SQL; it watches them as it watches any."""
    number, seconds = round(options.seconds * IDLE_PER_SECOND), max(2 * options.seconds, 1.0)
    running, store = scheduler("idle")
    job = running.add_job(ask, "interval", days=30, args=["http://127.0.0.1:9"], id="first")
    row = {"next_run_time": job.next_run_time.timestamp(), "job_state": _state(store)}
    with store.engine.begin() as connection:
        for begin in range(1, number, _FILL):
            rows = [{"id": f"j{n}", **row} for n in range(begin, min(begin + _FILL, number))]
            connection.execute(store.jobs_t.insert(), rows)
    running.resume()
    time.sleep(1)
    begun, cpu = time.monotonic(), time.process_time()
    time.sleep(seconds)
    share = (time.process_time() - cpu) / (time.monotonic() - begun)
    show(options, work="idle", jobs=number, seconds=seconds, percent_of_a_core=round(share * 100, 2))
    running.shutdown(wait=False)


def _state(store: SQLAlchemyJobStore) -> Any:
    with store.engine.begin() as connection:
        return connection.execute(store.jobs_t.select()).one().job_state


def due(options: Given) -> None:
    number = round(options.seconds * DUE_PER_SECOND)
    running, _ = scheduler("due")
    with sinking(options.ports[0]) as sink:
        far = datetime.now(UTC) + timedelta(days=1)
        begun = time.perf_counter()
        for n in range(number // 10):
            running.add_job(ask, "date", run_date=far, args=[sink], id=f"w{n}")
        spent = time.perf_counter() - begun
        rate = (number // 10) / spent
        show(options, work="put", jobs=number // 10, seconds=round(spent, 2), jobs_per_second=round(rate, 1))
        instant = datetime.now(UTC) + timedelta(seconds=_LEAD_SECONDS + 1.5 * number / rate)
        for n in range(number):
            running.add_job(ask, "date", run_date=instant, args=[sink], id=f"j{n}")
        if datetime.now(UTC) > instant:
            raise RuntimeError("the jobs were not written in time")
        running.resume()
        deadline = time.monotonic() + _DONE_SECONDS_MAX
        while len(arrivals(sink)) < number:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(arrivals(sink)):,} of {number:,} jobs were started")
            time.sleep(0.5)
        late = sorted(at - instant.timestamp() for at in arrivals(sink))
    show(
        options,
        work="due at once",
        jobs=number,
        seconds=round(late[-1], 2),
        jobs_per_second=round(number / late[-1], 1),
        lateness_p50_ms=round(late[len(late) // 2] * 1000, 1),
        lateness_p99_ms=round(late[len(late) * 99 // 100] * 1000, 1),
    )
    running.shutdown(wait=False)


def show(options: Given, **row: object) -> None:
    print(json.dumps(row), file=options.output, flush=True)


if __name__ == "__main__":
    main()
