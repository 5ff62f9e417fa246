"""How one task is entered through a connection that is not ours, without any I/O.

What is to be done is a generator: it yields statements and is sent their rows. It is therefore
written once, and runs on synchronous and asynchronous connections alike.

There is no savepoint: where a statement fails, PostgreSQL lets the transaction end only by being
rolled back, so that nobody can commit half a task.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Generator, Iterable
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec

from backstay.domain.task import NewTask, first_record
from backstay.errors import BackstayError, InvalidRequest
from backstay.store.base import Changes, Submitted
from backstay.store.callers import no_transaction
from backstay.store.decisions import known_task
from backstay.store.postgres.news import notices
from backstay.store.postgres.statuses import Statuses
from backstay.store.postgres.tables import SHAPE, Queries
from backstay.store.postgres.url import Address
from backstay.store.rows import TASK_VALUES, Outgoing, Row, claimed_values

# By nobody's session: our own process, too, hears of the commit in no other way.
_BY: Final = "caller"


class Statement(NamedTuple):
    """A query by its name, and the values of its parameters by theirs."""

    query: str
    values: dict[str, Any]


Entering = Generator[Statement, list[Row], Submitted]
Asking = Generator[Statement, list[Row], None]


class _Asked:
    """Where coroutines may put their queries: each goes to whoever runs the statements of the generator."""

    async def run(self, query: str, **values: Any) -> list[Row]:
        # Some drivers take a tuple for a row, and only a list for an array.
        listed = {name: [*value] if isinstance(value, tuple) else value for name, value in values.items()}
        return await _yielded(Statement(query, listed))


@types.coroutine
def _yielded(statement: Statement) -> Generator[Statement, list[Row], list[Row]]:
    return (yield statement)


_ASKED: Final = _Asked()


class Entrance:
    """Enters tasks into one store."""

    def __init__(
        self,
        address: Address,
        queries: Queries,
        *,
        channel: str,
        inline_bytes_max: int,
        statuses: Statuses,
    ) -> None:
        self._statuses = statuses
        self._address = address
        self._queries = queries
        self._channel = channel
        self._inline_bytes_max = inline_bytes_max

    def enter(self, new: NewTask, now: datetime, *, is_in_transaction: Callable[[], bool]) -> Entering:
        """Enter ``new``; an id that is known gives the existing task, or raises IdConflict.

        ``is_in_transaction`` is asked once a first statement has run: with it most drivers begin.
        """
        yield from self._check_store()
        if not is_in_transaction():
            raise no_transaction()
        missing = yield from self._statuses.missing(_ASKED, [new]).__await__()
        for error in missing.values():
            raise error
        outgoing = Outgoing(self._inline_bytes_max)
        inserted = yield self._over_rows("insert_task", [SHAPE.new_task_row(new, now, outgoing)])
        if not inserted:
            known = yield from self._known(new)
            if known is not None:
                return known
            # Pruned between the two: its id is free.
            return (yield from self.enter(new, now, is_in_transaction=is_in_transaction))
        key: int = inserted[0][1]
        yield from self._put_what_belongs_to_it(key, new, outgoing)
        changes = Changes(claimable=True)
        yield from self._statuses.tell_of_entry(_ASKED, changes, [(key, new, now)]).__await__()
        yield Statement("notify", {"channel": self._channel, "notices": notices(changes, by=_BY)})
        return Submitted(first_record(key, new, now), created=True)

    def _check_store(self) -> Asking:
        """Asked before anything is written: a table that is not there would fail the caller's transaction."""
        schema = self._address.schema
        [[found]] = yield Statement("has_store", {"name": f"{schema}.task"})
        if not found:
            raise InvalidRequest(
                f"this connection leads to a database without the schema {schema} of this store:"
                f" connect to {self._address.label}"
            )

    def _put_what_belongs_to_it(self, key: int, new: NewTask, outgoing: Outgoing) -> Asking:
        outgoing.entered(key, new)
        planned = [msgspec.structs.replace(step, task_key=key) for step in new.plan]
        steps = [SHAPE.step_row(step, outgoing) for step in planned]
        if steps:
            yield self._over_rows("put_step", steps)
        if outgoing.payloads:
            yield self._over_rows("put_payload", outgoing.payloads)

    def _known(self, new: NewTask) -> Generator[Statement, list[Row], Submitted | None]:
        rows = yield Statement("tasks_by_id", {"ids": [new.id]})
        if not rows:
            return None
        wanted = claimed_values(rows, TASK_VALUES)
        found = (yield self._over_rows("payloads_of", wanted)) if wanted else []
        payloads = {(task_key, digest): body for task_key, digest, body in found}
        answer = known_task(new, SHAPE.task_record(rows[0], payloads))
        if isinstance(answer, BackstayError):
            raise answer
        return answer

    def _over_rows(self, query: str, rows: Iterable[Row]) -> Statement:
        """A query that takes whole columns."""
        columns = map(list, zip(*rows, strict=True))
        return Statement(query, dict(zip(self._queries[query].parameters, columns, strict=True)))
