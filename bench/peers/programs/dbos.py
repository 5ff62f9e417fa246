"""Five steps on DBOS, in one process, on PostgreSQL or on its default, a SQLite file.

With synchronous functions, as its documentation begins, and a thread per client.
"""

# mypy: disable-error-code="import-not-found, untyped-decorator"
# DBOS is not installed where the types are checked.

from __future__ import annotations

import asyncio

from dbos import DBOS, DBOSConfig

from bench.peers.programs.measuring import STEPS, Point, given, print_points, with_threads


@DBOS.step()
def work(number: int) -> int:
    return number + 1


@DBOS.workflow()
def five(number: int) -> int:
    for _ in range(STEPS):
        number = work(number)
    return number


def one() -> None:
    assert DBOS.start_workflow(five, 0).get_result() == STEPS


async def measure(in_flight: int, seconds: float) -> Point:
    # Blocks the loop: nothing else runs on it.
    return with_threads(one, in_flight, seconds=seconds)


def main() -> None:
    options = given()
    DBOS(config=DBOSConfig(name="bench", system_database_url=options.postgres))
    DBOS.launch()
    asyncio.run(print_points(measure, options))
    DBOS.destroy()


if __name__ == "__main__":
    main()
