"""Tells submitters what became of their tasks, in the transaction of what it tells of.

Only tasks with a ``reply_to`` come here, and those that failed and have somebody to tell; all others go
their way without a look at it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from backstay.domain.status import (
    Correspondent,
    Notice,
    changed_by_operator,
    destination,
    first_notice,
    nowhere,
    written_by_run,
)
from backstay.domain.task import NewTask, TaskRecord
from backstay.errors import BackstayError, InvalidInput
from backstay.sql.sqlite.connection import REFUSALS
from backstay.store.base import Changes, Submitted
from backstay.store.commit import Rows
from backstay.store.posting import Dated
from backstay.store.rows import as_json
from backstay.store.sqlite.messages import is_there, send_messages
from backstay.store.sqlite.tables import Tables
from backstay.store.telling import as_correspondents, in_session, not_told, told_of

_NOBODY: Final[dict[int, Correspondent]] = {}


def enter(tables: Tables, changes: Changes, new: NewTask, now: datetime) -> Submitted | BackstayError:
    """Enter a new task, or answer for the one that has its id; its submitter is told that it was received."""
    if new.reply_to is None:
        return tables.enter(new, now)
    if not is_there(tables, destination(new.reply_to)):
        return nowhere(new.reply_to)
    answer = tables.enter(new, now)
    if isinstance(answer, Submitted) and answer.created:
        tell_of_entry(tables, changes, [(answer.task.key, new, now)])
    return answer


def missing(tables: Tables, tasks: Iterable[NewTask]) -> dict[str | None, BackstayError]:
    """Where submitters want to be told that is not there, and what there is to say of it."""
    wanted = {new.reply_to for new in tasks if new.reply_to is not None}
    return {one: nowhere(one) for one in sorted(wanted) if not is_there(tables, destination(one))}


def tell_of_entry(tables: Tables, changes: Changes, entered: Iterable[tuple[int, NewTask, datetime]]) -> None:
    """Tell that tasks were received; theirs are keys, and instants, of what was just entered."""
    news = [first_notice(key, new, at) for key, new, at in entered if new.reply_to is not None]
    if news:
        _put(tables, changes, news, [])


def correspondents(tables: Tables, keys: Sequence[int]) -> dict[int, Correspondent]:
    """How those of these tasks stand whose submitters want to be told, before anything is written."""
    if not keys:
        return _NOBODY
    return as_correspondents(tables.run("correspondents", keys=as_json(keys)).fetchall())


def tell_of_rows(tables: Tables, changes: Changes, known: dict[int, Correspondent], rows: Rows) -> None:
    """Tell what runs wrote, given how their tasks stood before, and send what goes with it."""
    news = [
        notice
        for key, one in known.items()
        for notice in written_by_run(one, rows.tasks.get(key), at=rows.replying[key])
    ]
    _tell(tables, changes, news, rows.messages)


def tell_of_amendment(
    tables: Tables, changes: Changes, known: dict[int, Correspondent], after: TaskRecord
) -> None:
    """Tell what somebody changed from outside."""
    news = [one for before in known.values() for one in changed_by_operator(before, after)]
    _tell(tables, changes, news, [])


def _tell(tables: Tables, changes: Changes, news: Sequence[Notice], messages: Sequence[Dated]) -> None:
    """Whatever is wrong with a message must not hold up the task that it tells of."""
    if not (news or messages):
        return
    tables.connection.execute("SAVEPOINT status")
    try:
        _put(tables, changes, news, messages)
    except REFUSALS as error:
        tables.connection.execute("ROLLBACK TO status")
        for dated in told_of(news, messages):
            not_told(dated, error)
    tables.connection.execute("RELEASE status")


def _put(tables: Tables, changes: Changes, news: Sequence[Notice], messages: Sequence[Dated]) -> None:
    tables.run_many("put_told", [(one.key, one.status.value, one.sequence) for one in news])
    sending = told_of(news, messages)
    answers = send_messages(tables, changes, sending)
    again = [one for one, answer in zip(sending, answers, strict=True) if isinstance(answer, InvalidInput)]
    if again:
        answers = send_messages(tables, changes, [in_session(one) for one in again])
    for one, answer in zip(again or sending, answers, strict=True):
        if isinstance(answer, BackstayError):
            not_told(one, answer)
