"""Consumers that are killed whenever chance wants it: no message is lost, none comes out of order."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random

import pytest

from backstay import App, Message
from tests.chaos.matrix import FULL, SEED, Healing, Part, Watch, failure
from tests.chaos.workload import Effects, started
from tests.support.databases import Database
from tests.support.lines import whole_lines

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]

ROUNDS = 10 if FULL else 1

MESSAGES = 800
SESSIONS = 10
CONSUMERS = 3
CONCURRENCY = 5
PREFETCH = 5
KILLS = 10
#: Seconds from one kill to the next.
LIFE = (0.1, 0.6)
PATIENCE_SECONDS = 90


def shop(effects: Effects | None = None) -> App:
    """A queue whose messages are held for a second, and a consumer that writes down what it does."""
    app = App("chaos")
    app.queue("orders", lock="1s", max_deliveries=1000)

    @app.consumer("orders", concurrency=CONCURRENCY, prefetch=PREFETCH)
    async def handle(message: Message) -> None:
        assert effects is not None
        effects.add(f"{message.session or '-'} {message.id}")
        await asyncio.sleep(0.05)

    return app


def consume(url: str, path: Path) -> None:
    async def work() -> None:
        async with shop(Effects(path)).run(store=url):
            await asyncio.Event().wait()

    asyncio.run(work())


def named(number: int) -> str:
    return f"m{number:05}"


async def send_all(url: str, chance: Random) -> None:
    """Every other message belongs to a session; those of one session are sent one after the other."""
    lines: dict[str | None, list[int]] = defaultdict(list)
    for number in range(MESSAGES):
        lines[f"s{chance.randrange(SESSIONS)}" if number % 2 else f"-{number}"].append(number)

    async with shop().client(store=url) as client:

        async def send(session: str, numbers: list[int]) -> None:
            for number in numbers:
                given = None if session.startswith("-") else session
                await client.queue("orders").send(number, id=named(number), session=given)

        await asyncio.gather(*(send(str(session), numbers) for session, numbers in lines.items()))


async def emptied(url: str) -> dict[str, int]:
    """What is left in the queue once nothing moves it any more."""
    async with shop().client(store=url) as client:
        give_up_at = time.monotonic() + PATIENCE_SECONDS
        while True:
            view = await client.mailroom.queue("orders")
            left = {name: getattr(view, name) for name in ("ready", "scheduled", "locked", "dead")}
            if not any(left.values()) or time.monotonic() > give_up_at:
                return left
            await asyncio.sleep(0.05)


@failure(
    "a consumer of a queue is killed",
    of=Part.DOORS,
    seen="what it held is delivered again, with a delivery count one higher",
    heals="the locks of its messages run out, and other consumers receive them, those of a session in order",
    takes="the lock of the queue (`message_lock`)",
    within="90s",
    invariants=(2, 13, 14, 15),
)
@pytest.mark.parametrize("number", range(ROUNDS))
def test_when_a_consumer_of_a_queue_is_killed_others_handle_what_it_held_in_order(
    tmp_path: Path, database: Database, number: int, watch: Watch, healing: Healing
):
    """CC-6, IC-1, IC-4: effects are known by the message's id, which is the same at every delivery."""
    seed = SEED + number
    print(f"seed {seed} (again with BACKSTAY_TEST_SEED={seed})")
    turns: list[tuple[float, int]] = watch.facts.planned(plan, seed)
    path = tmp_path / "effects"
    url = database.url
    asyncio.run(send_all(url, Random(seed)))

    children = [started(consume, url, path) for _ in range(CONSUMERS)]
    at_work = 0
    for pause_seconds, victim in turns:
        time.sleep(pause_seconds)
        at_work += len(Effects(path).count()) < MESSAGES
        _kill(children[victim])
        children[victim] = started(consume, url, path)
    with healing():
        left = asyncio.run(emptied(url))
    for child in children:
        _kill(child)

    assert at_work > 1, "nobody was killed while there was something to do"
    assert left == {"ready": 0, "scheduled": 0, "locked": 0, "dead": 0}
    lines = [line.split() for line in whole_lines(path)]
    done = Counter(one for _, one in lines)
    assert set(done) == {named(number) for number in range(MESSAGES)}
    # A kill may leave open what was at work; nothing else is done twice.
    assert done.total() - MESSAGES <= KILLS * CONCURRENCY
    for session in {session for session, _ in lines} - {"-"}:
        order = [one for own, one in lines if own == session]
        assert order == sorted(order), session


def plan(chance: Random) -> list[tuple[float, int]]:
    """After how long each kill comes, and who is killed."""
    return [(chance.uniform(*LIFE), chance.randrange(CONSUMERS)) for _ in range(KILLS)]


def _kill(child: BaseProcess) -> None:
    child.kill()
    child.join()
