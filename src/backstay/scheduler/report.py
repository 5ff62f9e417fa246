"""Tells a queue of a failure for good, with the commit that records it."""

from __future__ import annotations

import logging
from typing import Final

from backstay.definitions.codec import check_size
from backstay.definitions.failures import FailureReport, TaskFailure
from backstay.definitions.workflows import Workflow
from backstay.domain.recovery import GiveUp, Undo
from backstay.domain.status import failure_message
from backstay.domain.step import Failure
from backstay.observe import STATUS_LOST, emit, log
from backstay.scheduler.ending import Ending
from backstay.scheduler.ledger import Ledger

_UNKNOWN: Final = Failure("Unknown", "no error was recorded")


def report_failure(
    ledger: Ledger, workflow: Workflow[..., object], ending: Ending, *, bytes_max: int
) -> None:
    """Put what is to be told into the ledger, if this is a failure and somebody wants to hear of it.

    What an operator asked for is none. Whatever is wrong with the report must not hold up the undo.
    """
    report = workflow.report
    if report is None or ending.request is not None or not isinstance(ending.verdict, (Undo, GiveUp)):
        return
    task = ledger.task
    try:
        arguments = workflow.signature.decode(task.input)
        body = report.body(arguments, _told(ledger, ending.error or _UNKNOWN))
        check_size(body, f"what workflow {workflow.name} reports", bytes_max)
    except Exception as error:  # noqa: BLE001  An application's function may raise anything at all.
        log.exception("the failure of task %s was not reported", task.id)
        _not_told(report, task.id, error)
        return
    ledger.tell(failure_message(task, queue=report.queue, body=body))


def _told(ledger: Ledger, error: Failure) -> TaskFailure:
    step = None if error.step is None else ledger.steps.get(error.step)
    return TaskFailure(
        task_id=ledger.task.id,
        type=error.type,
        message=error.message,
        step=error.step,
        agent=None if step is None else step.agent,
        permanent=error.permanent,
    )


def _not_told(report: FailureReport, task_id: str, error: Exception) -> None:
    emit(STATUS_LOST, level=logging.WARNING, id=task_id, to=report.queue, error=error)
