"""One task: how it stands and why, its steps on a line of time, and what may be done to it."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from starlette.responses import Response

from backstay.console.moves import offers
from backstay.console.timeline import timeline
from backstay.console.visits import Visit
from backstay.domain.states import SETTLED
from backstay.domain.target import task_target
from backstay.errors import UnknownStep
from backstay.store.records import AuditFilter
from backstay.views import Insight

LOOKED_AT_EVERY: Final = timedelta(seconds=1)
TRAIL_MAX: Final = 50


async def show(visit: Visit) -> Response:
    task_id = visit.names["id"]
    if visit.wants_events:
        await visit.client.task(task_id)  # Who does not exist has nothing to be watched.
        return visit.live(Watched(visit, task_id).look, about=f"task {task_id}", every=LOOKED_AT_EVERY)
    part = await _part(visit, await visit.client.insight(task_id))
    return visit.page("task.html", id=task_id, part=part, seen=visit.mark(part))


async def show_step(visit: Visit) -> Response:
    """One step with what went in and what came out."""
    task_id, key = visit.names["id"], visit.names["key"]
    step = next((step for step in await visit.client.steps(task_id) if step.key == key), None)
    if step is None:
        raise UnknownStep(task_id, key)
    template = "parts/step.html" if visit.wants_part else "step.html"
    return visit.page(template, id=task_id, step=step)


class Watched:
    """A task as it is looked at again and again: one that has settled is left alone until it is touched."""

    def __init__(self, visit: Visit, task_id: str) -> None:
        self._visit = visit
        self._task_id = task_id
        self._last: tuple[Insight, str] | None = None

    async def look(self) -> str:
        client = self._visit.client
        if self._last is not None:
            seen, text = self._last
            if seen.record.state in SETTLED and seen.task == await client.task(self._task_id):
                return text
        insight = await client.insight(self._task_id)
        text = await _part(self._visit, insight)
        self._last = insight, text
        return text


async def _part(visit: Visit, insight: Insight) -> str:
    clock = visit.house.common.ports.clock
    trail = await visit.client.audit(AuditFilter(target=task_target(insight.task.id), limit=TRAIL_MAX))
    return visit.part(
        "parts/task.html",
        task=insight.task,
        reason=insight.reason,
        offers=offers(insight) if visit.may_operate else [],
        line=timeline(insight.record, insight.steps, now=clock.now()),
        trail=trail,
        steps={step.key for step in insight.steps if step.kind == "step"},
    )
