"""What an operator may do to a task, how it is asked for, and what it says before it is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec
from starlette.responses import Response

from backstay.console.visits import Visit, moved, reason_in
from backstay.domain import jsontext
from backstay.domain.legal import Legal, Move
from backstay.errors import Conflict, InvalidInput, InvalidRequest
from backstay.views import Insight, PlannedUndo, UndoPlan
from backstay.web.problems import UNKNOWN_PATH, Refused


class Wording(msgspec.Struct, frozen=True):
    """What a move is called, on its button and as a question; and what it does."""

    name: str
    question: str
    says: str


WORDINGS: Final[Mapping[Move, Wording]] = {
    Move.RESUBMIT: Wording(
        "Resubmit",
        "Resubmit {id}?",
        "The task goes on where it stopped: what is completed stays, what failed is attempted again.",
    ),
    Move.RESTART: Wording(
        "Restart",
        "Restart {id} from the start?",
        "The task forgets all of its steps and runs from the beginning. What they did is not undone:"
        " each of them happens once more.",
    ),
    Move.UNDO: Wording("Undo", "Undo {id}?", "What the task did is undone, in this order:"),
    Move.CANCEL: Wording(
        "Cancel",
        "Cancel {id}?",
        "The task stops for good. What it did so far stays as it is; to take that back, undo it instead.",
    ),
    Move.COMPLETE_STEP: Wording(
        "Complete {about}",
        "Complete step {about} by hand?",
        "The step counts as done, with the output that you give; its agent is not called."
        " The task then goes on.",
    ),
    Move.SIGNAL: Wording(
        "Signal",
        "Signal {id}?",
        "The task is told this. A signal that it does not wait for yet is kept until it does.",
    ),
}

#: Of a step whose undo is a person's work, or fails: the same move, and another meaning.
_UNDO_BY_HAND: Final = Wording(
    "Confirm undo of {about}",
    "Is the undo of {about} done?",
    "The step counts as undone; its agent is not called for it. The undo of the task then goes on.",
)


class Offer(msgspec.Struct, frozen=True):
    """A button: what it says, and where it leads."""

    move: Move
    name: str
    path: str


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A move as it is about to be made."""

    id: str
    legal: Legal
    name: str
    question: str
    says: str


def offers(insight: Insight) -> list[Offer]:
    """A button for each legal move."""
    return [_offer(insight, legal) for legal in insight.moves]


def _offer(insight: Insight, legal: Legal) -> Offer:
    wording = _wording(insight, legal)
    path = f"/tasks/{quote(insight.task.id)}/do/{legal.move}"
    about = "" if legal.about is None else "?" + urlencode({"about": legal.about})
    name = wording.name.format(about=legal.about)
    if legal.move is Move.SIGNAL and legal.about is not None:
        name = f"Signal {legal.about}"
    return Offer(legal.move, name, path + about)


def _wording(insight: Insight, legal: Legal) -> Wording:
    is_undo = any(step.key == legal.about and step.state.startswith("undo") for step in insight.steps)
    if legal.move is Move.COMPLETE_STEP and is_undo:
        return _UNDO_BY_HAND
    return WORDINGS[legal.move]


# Asked, and done


async def ask(visit: Visit) -> Response:
    """What would happen, and a form to have it happen."""
    return await _asked(visit, about=visit.query.get("about"))


async def do(visit: Visit) -> Response:
    about = visit.form.get("about") or None
    try:
        await _make(visit, _move(visit), about)
    except InvalidRequest as error:
        return await _asked(visit, about=about, wrong=str(error))
    return moved(f"/tasks/{quote(visit.names['id'])}")


async def _asked(visit: Visit, *, about: str | None, wrong: str | None = None) -> Response:
    insight = await visit.client.insight(visit.names["id"])
    legal = Legal(_move(visit), about)
    if legal not in insight.moves and not (legal.move is Move.SIGNAL and Legal(Move.SIGNAL) in insight.moves):
        raise Conflict(
            f"task {insight.task.id} is {insight.task.state} by now, which forbids this; look again"
        )
    wording = _wording(insight, legal)
    return visit.page(
        "parts/move.html" if visit.wants_part else "move.html",
        status=HTTPStatus.OK if wrong is None else HTTPStatus.UNPROCESSABLE_ENTITY,
        asked=Asked(
            id=insight.task.id,
            legal=legal,
            name=wording.name.format(about=about),
            question=wording.question.format(id=insight.task.id, about=about),
            says=wording.says,
        ),
        plan=await _plan(visit, legal, insight),
        form=visit.form,
        wrong=wrong,
        takes_output=legal.move is Move.COMPLETE_STEP and wording is not _UNDO_BY_HAND,
    )


async def _plan(visit: Visit, legal: Legal, insight: Insight) -> Sequence[PlannedUndo] | None:
    """What would be undone, of a move that undoes."""
    is_undo = legal.move is Move.UNDO or (legal.move is Move.RESUBMIT and insight.task.state == "undo_failed")
    if not is_undo:
        return None
    plan: UndoPlan = await visit.client.undo_plan(insight.task.id)
    return plan.steps


async def _make(visit: Visit, move: Move, about: str | None) -> None:
    client, task_id, form = visit.client, visit.names["id"], visit.form
    reason = reason_in(form)
    match move:
        case Move.RESUBMIT:
            await client.resubmit(task_id, reason=reason)
        case Move.RESTART:
            await client.resubmit(task_id, "start", reason=reason)
        case Move.UNDO:
            await client.undo(task_id, reason=reason)
        case Move.CANCEL:
            await client.cancel(task_id, undo=False, reason=reason)
        case Move.COMPLETE_STEP:
            await client.complete_step(task_id, about or "", _json(form, "output"), reason=reason)
        case Move.SIGNAL:
            name = about or form.get("name", "").strip()
            await client.signal(task_id, name, _json(form, "payload"), reason=reason)


def _move(visit: Visit) -> Move:
    try:
        return Move(visit.names["move"])
    except ValueError as error:
        raise Refused(UNKNOWN_PATH, "there is no such move") from error


def _json(form: Mapping[str, str], name: str) -> Any:
    """A value as it was written; nothing written is null. Raises InvalidInput."""
    written = form.get(name, "").strip()
    try:
        return jsontext.value_of(written.encode(), f"the {name}") if written else None
    except UnicodeEncodeError as error:
        raise InvalidInput(f"the {name} is no text") from error
