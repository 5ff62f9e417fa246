"""Tasks: found by what is known of them, newest first."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import urlencode

from starlette.responses import Response

from backstay.console.visits import Visit, moved, number_in
from backstay.domain.durations import duration
from backstay.domain.states import TaskState
from backstay.domain.task import is_id
from backstay.errors import InvalidInput, InvalidRequest, UnknownTask
from backstay.store.base import TaskFilter
from backstay.views import Search

PAGE_SIZE: Final = 100

#: What can be filtered by, in the order of the fields.
_FIELDS: Final = ("state", "workflow", "after", "before", "attribute", "error")


async def show(visit: Visit) -> Response:
    asked = visit.query
    if "id" in asked and await _is_there(visit, asked["id"]):
        return moved(f"/tasks/{asked['id']}")
    wrong, found = None, Search([])
    try:
        if "id" in asked:
            raise InvalidInput(f"there is no task with the id {asked['id'][:200]}")
        wanted = _wanted(visit)
        found = await visit.client.search(wanted, error_text=asked.get("error"))
    except InvalidRequest as error:
        wrong = str(error)
    filters = {name: asked[name] for name in _FIELDS if name in asked}
    return visit.page(
        "tasks.html",
        asked=asked,
        filters=filters,
        found=found,
        wrong=wrong,
        states=list(TaskState),
        next=None
        if found.next is None
        else f"/tasks?{urlencode([*filters.items(), ('cursor', found.next)])}",
        is_first="cursor" not in asked,
    )


async def _is_there(visit: Visit, id: str) -> bool:
    try:
        return is_id(id) and bool(await visit.client.task(id))
    except UnknownTask:
        return False


def _wanted(visit: Visit) -> TaskFilter:
    asked = visit.query
    now = visit.house.common.ports.clock.now()
    return TaskFilter(
        # Errors are looked for where there are some.
        states=(TaskState.ERROR,) if "error" in asked else _states(asked.get("state")),
        workflow=asked.get("workflow"),
        created_after=instant_in("after", asked.get("after"), now=now),
        created_before=instant_in("before", asked.get("before"), now=now),
        attribute=_attribute(asked.get("attribute")),
        before=number_in(asked, "cursor"),
        limit=PAGE_SIZE,
    )


def _states(written: str | None) -> tuple[TaskState, ...]:
    if written is None:
        return ()
    if written not in set(TaskState):
        raise InvalidInput(f"state is {written[:40]!r}; it must be one of {', '.join(TaskState)}")
    return (TaskState(written),)


def _attribute(written: str | None) -> tuple[str, str] | None:
    if written is None:
        return None
    name, found, value = written.partition(":")
    if not name or not found:
        raise InvalidInput(f"attribute is {written[:80]!r}; write its name and value, as in customer:c9")
    return name, value


def instant_in(name: str, written: str | None, *, now: datetime) -> datetime | None:
    """An instant, in UTC unless it says otherwise, or a duration that counts back from now."""
    if written is None:
        return None
    try:
        at = datetime.fromisoformat(written)
    except ValueError:
        return now - _length(name, written)
    try:
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except OverflowError as error:
        raise InvalidInput(f"{name} lies outside the calendar in UTC") from error


def _length(name: str, written: str) -> timedelta:
    try:
        return duration(written, name=name)
    except InvalidRequest as error:
        raise InvalidInput(f'{error}; an instant is written "2030-01-31 12:00"') from error
