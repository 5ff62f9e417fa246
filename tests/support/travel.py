"""Travels whose bookings can be undone, and what became of them."""

from __future__ import annotations

from typing import Any

from backstay import App, Recovery, StepFailed, current_step
from tests.support.running import ONCE, Down


class Undone:
    """Steps with an undo, and what the undos were told."""

    def __init__(self, app: App, **agent: Any) -> None:
        self.agent = app.agent("travel", **{"retry": ONCE, **agent})
        self.order: list[str] = []
        self.told: dict[str, Any] = {}

    def step(self, name: str, *, undo: dict[str, Any] | None = None, **options: Any) -> Any:
        """A step that returns ``<name> <argument>``; its undo notes that it ran, and what it was told."""

        async def book(what: str) -> str:
            return f"{name} {what}"

        declared: Any = self.agent.step(name=name, **options)(book)

        async def release(what: str, *, result: str | None) -> None:
            step = current_step()
            self.order.append(name)
            self.told[name] = (what, result, step.outcome, step.idempotency_key)

        declared.undo(**(undo or {}))(release)
        return declared


def stuck(app: App, travel: Undone, service: dict[str, bool], *, car: Any = None, **recovery: Any) -> Any:
    """Three bookings, of which the middle one cannot be undone while ``service["up"]`` is false."""
    flight, car = travel.step("flight"), car or travel.step("car")

    @travel.agent.step
    async def hotel() -> None: ...

    @hotel.undo
    async def leave() -> None:
        if not service["up"]:
            raise Down("nobody at the desk")
        travel.order.append("hotel")

    @app.workflow(recovery=Recovery(undo_attempts=2, **recovery))
    async def holiday() -> None:
        await flight("LH1")
        await hotel()
        await car("Mini")
        raise StepFailed("pay:1", {"type": "Permanent", "message": "no funds", "permanent": True})

    return holiday


async def states(app: App, task_id: str) -> dict[str, str]:
    return {step.key: step.state for step in await app.steps(task_id)}
