"""One queue: what is in it, what was set aside, and putting that back or dropping it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

from starlette.responses import Response

from backstay.console.questions import Act, act_in, asked
from backstay.console.queues import LOOKED_AT_EVERY, oldest_of, row_of
from backstay.console.visits import Visit, moved, number_in, reason_in
from backstay.domain.target import queue_target
from backstay.errors import InvalidInput, UnknownMessage, UnknownQueue
from backstay.mailroom import COUNTED_MAX, DROPPED_MAX, RESUBMITTED_MAX, DeadLetter, Mailroom, QueueView
from backstay.web.problems import UNKNOWN_PATH, Refused

DEAD_SHOWN: Final = 25
#: Nobody pages through a queue: it moves meanwhile. So far one may look.
PEEKED_SHOWN: Final = 25
PEEKED_MAX: Final = 100


async def show(visit: Visit) -> Response:
    name = visit.names["name"]
    view = await visit.client.mailroom.queue(name)  # One that is not there has nothing to be watched.
    if visit.wants_events:
        return visit.live(lambda: _while_there(visit, name), about=f"queue {name}", every=LOOKED_AT_EVERY)
    part = await _part(visit, view)
    return visit.page(
        "queue.html",
        view=view,
        part=part,
        seen=visit.mark(part),
        **await _dead_letters(visit, name),
        **await _peeked(visit, name),
    )


async def _while_there(visit: Visit, name: str) -> str | None:
    try:
        return await _part(visit, await visit.client.mailroom.queue(name))
    except UnknownQueue:
        return None  # Somebody deleted it.


async def _part(visit: Visit, view: QueueView) -> str:
    oldest = oldest_of(await visit.house.common.queue_gauges.get()).get(view.name)
    return visit.part("parts/queue.html", view=view, row=row_of(view, oldest, counted=COUNTED_MAX))


async def _dead_letters(visit: Visit, name: str) -> dict[str, Any]:
    cursor = number_in(visit.query, "cursor")
    page = await visit.client.mailroom.dead_letters(name, after=cursor, limit=DEAD_SHOWN)
    here = f"/queues/{quote(name)}"
    return {
        "letters": page.items,
        "first_path": None if cursor is None else f"{here}#dead",
        "next_path": None if page.next is None else f"{here}?{urlencode({'cursor': page.next})}#dead",
    }


async def _peeked(visit: Visit, name: str) -> dict[str, Any]:
    """One page of what would be received next, and whether there is another."""
    number = number_in(visit.query, "peek") or 1
    begin, end = PEEKED_SHOWN * (number - 1), min(PEEKED_SHOWN * number, PEEKED_MAX)
    if begin >= PEEKED_MAX:
        raise InvalidInput(f"peek is {number}; at most {PEEKED_MAX // PEEKED_SHOWN} pages are shown")
    found = (await visit.client.mailroom.peek(name, limit=end + 1)).items
    more = len(found) > end
    return {
        "messages": found[begin:end],
        "peek": number,
        "more": more and end < PEEKED_MAX,
        "beyond": PEEKED_MAX if more and end >= PEEKED_MAX else None,
    }


async def show_message(visit: Visit) -> Response:
    """A message that is in its queue, as far as one may look."""
    name, number = visit.names["name"], _number(visit)
    found = (await visit.client.mailroom.peek(name, limit=PEEKED_MAX)).items
    message = next((one for one in found if one.sequence == number), None)
    if message is None:
        raise Refused(
            UNKNOWN_PATH,
            f"message {number} is not among the first {PEEKED_MAX} of {name}: it may have been received;"
            " load the page again",
        )
    return visit.page(
        "parts/message.html" if visit.wants_part else "message.html", queue=name, message=message, letter=None
    )


# What was set aside


#: Done to the dead letters of that queue, or to one of them, for a reason.
Done = Callable[[Mailroom, str, str | None, str | None], Awaitable[object]]


class LetterAct(Act[Done], frozen=True, kw_only=True):
    """What can be done to a dead letter, and to as many as go at once."""

    question_of_all: str
    says_of_all: str


ACTS: Final[Mapping[str, LetterAct]] = {
    "resubmit": LetterAct(
        name="Resubmit",
        question="Put {id} back into {queue}?",
        says="It is new again, at the end of its queue, as if it had never been received."
        " Dead letters of the same id go with it.",
        question_of_all="Put the dead letters of {queue} back?",
        says_of_all=f"The oldest {RESUBMITTED_MAX:,} at most are new again, at the end of their queue, as if"
        " they had never been received.",
        done=lambda room, queue, letter, reason: room.resubmit(queue, letter, reason=reason),
    ),
    "discard": LetterAct(
        name="Discard",
        question="Drop {id} from {queue}?",
        says="It is gone for good, with other dead letters of the same id. Nobody will receive it.",
        question_of_all="Drop the dead letters of {queue}?",
        says_of_all=f"The oldest {DROPPED_MAX:,} at most are gone for good. Nobody will receive them.",
        done=lambda room, queue, letter, reason: room.discard(queue, letter, reason=reason),
    ),
}


async def show_letter(visit: Visit) -> Response:
    """One dead letter with all that is known of it."""
    letter = await _letter(visit)
    template = "parts/message.html" if visit.wants_part else "message.html"
    return visit.page(template, queue=visit.names["name"], message=letter, letter=letter)


async def ask(visit: Visit) -> Response:
    act, letter = act_in(visit, ACTS), await _letter(visit)
    title = act.question.format(id=letter.id, queue=visit.names["name"])
    return await _asked(visit, title, act.says, act.name)


async def do(visit: Visit) -> Response:
    act, letter = act_in(visit, ACTS), await _letter(visit)
    return await _done(visit, act, letter.id)


async def ask_of_all(visit: Visit) -> Response:
    act, name = act_in(visit, ACTS), visit.names["name"]
    await visit.client.mailroom.dead_letters(name, limit=1)  # Raises for a queue that is not there.
    return await _asked(visit, act.question_of_all.format(queue=name), act.says_of_all, f"{act.name} all")


async def do_to_all(visit: Visit) -> Response:
    return await _done(visit, act_in(visit, ACTS), None)


async def _asked(visit: Visit, title: str, says: str, button: str) -> Response:
    name = visit.names["name"]
    return await asked(
        visit, title, says=says, button=button, target=queue_target(name), back=_dead_path(name)
    )


async def _done(visit: Visit, act: LetterAct, id: str | None) -> Response:
    name = visit.names["name"]
    await act.done(visit.client.mailroom, name, id, reason_in(visit.form))
    return moved(_dead_path(name))


async def _letter(visit: Visit) -> DeadLetter:
    """The dead letter whose number the path says. Raises UnknownMessage."""
    name, number = visit.names["name"], _number(visit)
    page = await visit.client.mailroom.dead_letters(name, after=number - 1, limit=1)
    letter = next((one for one in page.items if one.sequence == number), None)
    if letter is None:
        raise UnknownMessage(name, str(number))
    return letter


def _number(visit: Visit) -> int:
    number = number_in(visit.names, "id")
    if number is None:
        raise InvalidInput("a message has a number")
    return number


def _dead_path(name: str) -> str:
    return f"/queues/{quote(name)}#dead"
