"""What the application lets operators turn while it runs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from datetime import timedelta
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

import msgspec
from starlette.responses import Response

from backstay.console.visits import Visit, moved
from backstay.definitions.dials import Dial, Knob, KnobValue
from backstay.errors import InvalidInput, InvalidRequest, Unavailable
from backstay.web.problems import UNKNOWN_PATH, Refused

PATH: Final = "/dials"
LOOKED_AT_EVERY: Final = timedelta(seconds=2)

#: Where a dial is may be down, or hang.
PATIENCE_SECONDS: Final = 1.5


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """A dial as it stands; ``None`` when it does not answer."""

    name: str
    path: str
    knobs: Mapping[str, Knob] | None


async def show(visit: Visit) -> Response:
    _check_there_are_some(visit)
    if visit.wants_events:
        return visit.live(lambda: _part(visit), about="dials", every=LOOKED_AT_EVERY)
    part = await _part(visit)
    return visit.page("dials.html", part=part, seen=visit.mark(part))


async def _part(visit: Visit) -> str:
    dials = visit.house.common.ports.dials
    readings = await asyncio.gather(*(_reading(name, dial) for name, dial in dials.items()))
    # In the order in which they are met; dials that are alike share their columns.
    columns = dict.fromkeys(name for one in readings for name in one.knobs or ())
    return visit.part("parts/dials.html", readings=readings, columns=[*columns])


async def _reading(name: str, dial: Dial) -> Reading:
    knobs: Mapping[str, Knob] | None = None
    with contextlib.suppress(Unavailable):
        knobs = {knob.name: knob for knob in await _read(dial)}
    return Reading(name=name, path=f"{PATH}/{quote(name)}/turn", knobs=knobs)


async def ask(visit: Visit) -> Response:
    return _asked(visit, await _read(_dial(visit)))


async def turn(visit: Visit) -> Response:
    dial = _dial(visit)
    knobs = await _read(dial)
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await dial.turn(_values(visit.form, knobs))
    except TimeoutError as error:
        raise _silent() from error
    except InvalidRequest as error:
        return _asked(visit, knobs, wrong=str(error))
    return moved(PATH)


def _asked(visit: Visit, knobs: Sequence[Knob], *, wrong: str | None = None) -> Response:
    return visit.page(
        "parts/dial.html" if visit.wants_part else "dial.html",
        status=HTTPStatus.OK if wrong is None else HTTPStatus.UNPROCESSABLE_ENTITY,
        name=visit.names["name"],
        knobs=knobs,
        form=visit.form,
        wrong=wrong,
        back=PATH,
    )


def _values(form: Mapping[str, str], knobs: Sequence[Knob]) -> dict[str, KnobValue]:
    """Raises InvalidInput for what is no number, or not within its bounds."""
    return {
        knob.name: knob.name in form if knob.is_switch else _number(form.get(knob.name, ""), knob)
        for knob in knobs
    }


def _number(written: str, knob: Knob) -> float | None:
    if not written.strip():
        return None
    try:
        number = float(written)
    except ValueError:
        number = float("nan")
    if not knob.least <= number <= knob.most:
        raise InvalidInput(
            f"{knob.name} is {written[:40]!r}; it must be a number from {knob.least:g} to {knob.most:g}"
        )
    return number


async def _read(dial: Dial) -> Sequence[Knob]:
    """Raises Unavailable."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await dial.read()
    except TimeoutError as error:
        raise _silent() from error


def _silent() -> Unavailable:
    return Unavailable(f"no answer within {PATIENCE_SECONDS:g} s; try again")


def _dial(visit: Visit) -> Dial:
    dial = visit.house.common.ports.dials.get(visit.names["name"])
    if dial is None:
        raise Refused(UNKNOWN_PATH, "there is no such dial")
    return dial


def _check_there_are_some(visit: Visit) -> None:
    if not visit.house.common.ports.dials:
        raise Refused(UNKNOWN_PATH, "this application has no dials")
