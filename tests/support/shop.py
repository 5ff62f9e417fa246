"""A shop: steps that can be undone, and workflows that are made of them."""

from __future__ import annotations

from typing import Any

from backstay import App, Permanent, Recovery, current_step, sleep, start, wait_for
from backstay.client import Client
from backstay.views import Task
from tests.support.gate import Gate

ENDED = ("processed", "error", "undone", "undo_failed", "cancelled")


class Shop:
    """Steps that can be undone; ``done`` and ``undone`` say what they did, in order."""

    def __init__(self, app: App, gate: Gate, *, complete_by: str = "30s") -> None:
        self.done: list[str] = []
        self.undone: list[tuple[str, str]] = []
        agent = app.agent("shop", complete_by=complete_by)

        @agent.step
        async def reserve(what: str) -> str:
            await gate.enter(what)
            self.done.append(what)
            return f"{what} reserved"

        @reserve.undo
        async def release(what: str, *, result: str | None) -> None:
            outcome = current_step().outcome
            assert outcome is not None
            self.undone.append((what, outcome.value))

        @agent.step
        async def refuse() -> None:
            raise Permanent("sold out")

        self.reserve, self.refuse = reserve, refuse


class Order:
    """Reserves two things, and then waits for a word."""

    def __init__(self, gate: Gate, *, complete_by: str = "30s", **recovery: Any) -> None:
        self.app = App("orders")
        self.shop = shop = Shop(self.app, gate, complete_by=complete_by)

        @self.app.workflow(recovery=Recovery(**recovery))
        async def order() -> Any:
            await shop.reserve("a")
            await shop.reserve("b")
            return await wait_for("word")

        self.order = order


class Failing:
    """Reserves, and then does something that fails until ``repaired``."""

    def __init__(self) -> None:
        self.app = App("failing")
        self.repaired = False
        self.shop = shop = Shop(self.app, Gate())
        agent = self.app.agent("weak")

        @agent.step
        async def pack() -> str:
            if not self.repaired:
                raise Permanent("no box fits")
            return "packed"

        @self.app.workflow(recovery=Recovery(then="error"))
        async def order() -> list[str]:
            return [await shop.reserve("a"), await pack(), await shop.reserve("b")]

        self.order = order


class Family:
    """A parent that reserves, starts a child, and may fail after it.

    The child reserves what it is told to. Told ``"nothing"`` it fails; after ``"a nap"`` it sleeps.
    """

    def __init__(self, gate: Gate, *, parent_fails: bool = False) -> None:
        self.app = app = App("family")
        self.shop = shop = Shop(app, gate)

        @app.workflow
        async def child(what: str) -> str:
            if what == "nothing":
                await shop.refuse()
            got: str = await shop.reserve(what)
            if what == "a nap":
                await sleep("1h")
            return got

        @app.workflow
        async def parent(what: str) -> list[str]:
            got = [await shop.reserve("parent's"), await start(child, what)]
            if parent_fails:
                await shop.refuse()
            return got

        self.child, self.parent = child, parent


async def states(client: Client, task_id: str) -> dict[str, str]:
    return {step.key: step.state for step in await client.steps(task_id)}


def is_parked(task: Task) -> bool:
    return (task.state, task.locked_by, task.complete_by) == ("waiting", None, None)
