"""The fault dial of a service, as an operator turns it on the console."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import aiohttp
import msgspec

from backstay import InvalidRequest, Knob, Unavailable
from drone_delivery.services.faults import FOR_SECONDS_MAX, LATENCY_MS_MAX, MEDIAN_MS_MIN, Dial

#: Who looks has other dials to see: a service that is dead, or stopped, does not keep them waiting.
REQUEST_SECONDS: Final = 1.0

OUTAGE: Final = "outage"
HANG: Final = "hang"
FOR: Final = "for"
ERROR_RATE: Final = "error rate"
MEDIAN: Final = "median"
P99: Final = "p99"


class FaultDial:
    """Asks the service itself each time: the weather and other operators turn its dial as well."""

    def __init__(self, service_url: str) -> None:
        self._url = f"{service_url}/faults"

    async def read(self) -> list[Knob]:
        """Raises Unavailable."""
        return knobs_of(await self._ask("GET"))

    async def turn(self, values: Mapping[str, bool | float | None]) -> None:
        """Raises InvalidRequest, Unavailable."""
        await self._ask("PUT", data=msgspec.json.encode(dial_of(values)))

    async def _ask(self, method: str, **options: Any) -> Dial:
        timeout = aiohttp.ClientTimeout(total=REQUEST_SECONDS)
        headers = {"Content-Type": "application/json"}
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout, headers=headers) as session,
                session.request(method, self._url, **options) as answer,
            ):
                body = await answer.read()
                if answer.status == HTTPStatus.BAD_REQUEST:
                    raise InvalidRequest(body.decode(errors="replace")[:500])
                if not answer.ok:
                    raise Unavailable(f"{self._url} answered {answer.status}")
                return msgspec.json.decode(body, type=Dial)
        except (aiohttp.ClientError, TimeoutError, msgspec.MsgspecError) as error:
            raise Unavailable(f"{self._url} does not answer; it may be down: {error!r}") from error


def knobs_of(dial: Dial) -> list[Knob]:
    latency = dial.latency_ms
    return [
        Knob(name=OUTAGE, value=dial.outage),
        Knob(name=HANG, value=dial.hang),
        Knob(
            name=FOR,
            # What is left of it: nobody reads the milliseconds.
            value=None if dial.for_seconds is None else round(dial.for_seconds, 1),
            unit="s",
            most=FOR_SECONDS_MAX,
        ),
        Knob(name=ERROR_RATE, value=dial.error_rate),
        _latency(MEDIAN, None if latency is None else latency.median),
        _latency(P99, None if latency is None else latency.p99),
    ]


def _latency(name: str, value: float | None) -> Knob:
    return Knob(name=name, value=value, unit="ms", least=MEDIAN_MS_MIN, most=LATENCY_MS_MAX)


def dial_of(values: Mapping[str, bool | float | None]) -> Dial:
    """Raises InvalidRequest when they make no dial."""
    given = {
        "outage": values[OUTAGE],
        "hang": values[HANG],
        "forSeconds": values[FOR],
        "errorRate": values[ERROR_RATE] or 0,
        "latencyMs": _latency_of(values[MEDIAN], values[P99]),
    }
    try:
        return msgspec.convert(given, Dial)
    except msgspec.ValidationError as error:
        raise InvalidRequest(str(error)) from error


def _latency_of(median: float | None, p99: float | None) -> Mapping[str, float] | None:
    if median is None and p99 is None:
        return None
    if median is None or p99 is None:
        raise InvalidRequest(f"give both {MEDIAN} and {P99}, or none of them")
    return {"median": median, "p99": p99}
