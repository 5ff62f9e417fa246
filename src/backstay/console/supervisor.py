"""The supervisor: who leads, what the last rounds did, and the alerts that wait for somebody."""

from __future__ import annotations

from datetime import timedelta
from typing import Final
from urllib.parse import urlencode

from starlette.responses import Response

from backstay.console.questions import asked
from backstay.console.visits import Visit, moved, number_in, reason_in
from backstay.errors import InvalidInput
from backstay.store.records import AlertFilter

LOOKED_AT_EVERY: Final = timedelta(seconds=2)
ROUNDS_MAX: Final = 20
ALERTS_MAX: Final = 50


async def show(visit: Visit) -> Response:
    if visit.wants_events:
        return visit.live(lambda: _part(visit), about="supervisor", every=LOOKED_AT_EVERY)
    part = await _part(visit)
    everything = "all" in visit.query
    cursor = number_in(visit.query, "cursor")
    alerts = await visit.client.alerts(AlertFilter(open_only=not everything, before=cursor, limit=ALERTS_MAX))
    kept = {"all": "1"} if everything else {}
    return visit.page(
        "supervisor.html",
        part=part,
        seen=visit.mark(part),
        alerts=alerts.items,
        everything=everything,
        next=None if alerts.next is None else "/supervisor?" + urlencode({**kept, "cursor": alerts.next}),
    )


async def _part(visit: Visit) -> str:
    return visit.part(
        "parts/supervisor.html",
        view=await visit.client.supervisor(),
        rounds=await visit.client.rounds(limit=ROUNDS_MAX),
    )


async def ask_to_run(visit: Visit) -> Response:
    return await asked(
        visit,
        "Run a round now?",
        says="One round of the supervisor: what nobody moves is freed to be taken up again."
        " If another process leads, nothing happens here.",
        button="Run a round",
        back="/supervisor",
    )


async def run(visit: Visit) -> Response:
    await visit.house.common.ports.supervise()
    return moved("/supervisor")


async def ask_to_acknowledge(visit: Visit) -> Response:
    number = _alert_id(visit)
    page = await visit.client.alerts(AlertFilter(before=number + 1, limit=1))
    alert = next((one for one in page.items if one.id == number), None)
    return await asked(
        visit,
        f"Take up alert {number}?",
        says=alert.message if alert is not None else "It is not there any more.",
        button="Acknowledge",
        back="/supervisor",
    )


async def acknowledge(visit: Visit) -> Response:
    await visit.client.acknowledge(_alert_id(visit), reason=reason_in(visit.form))
    return moved("/supervisor")


def _alert_id(visit: Visit) -> int:
    number = number_in(visit.names, "id")
    if number is None:
        raise InvalidInput("an alert has a number")
    return number
