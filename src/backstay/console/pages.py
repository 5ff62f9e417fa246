"""The table of pages: what is at which path, and who may. Whoever adds a page adds its lines here."""

from __future__ import annotations

from functools import partial
from typing import Final

import msgspec

from backstay.console import (
    agent,
    agents,
    audit,
    dials,
    moves,
    overview,
    queue,
    queues,
    sign_in,
    stream,
    streams,
    supervisor,
    task,
    tasks,
)
from backstay.console.jobs import acts as job_acts
from backstay.console.jobs import collections, job
from backstay.console.jobs import edit as job_edit
from backstay.console.jobs import history as job_history
from backstay.console.visits import Handler
from backstay.domain.access import Role


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table."""

    path: str
    handler: Handler
    method: str = "GET"
    # What a visitor must be allowed; ``None``: nothing at all.
    role: Role | None = Role.READ


class Door(msgspec.Struct, frozen=True):
    """A page that is in the navigation."""

    path: str
    name: str


NAVIGATION: Final = (
    Door("/", "Overview"),
    Door("/tasks", "Tasks"),
    Door("/agents", "Agents"),
    Door("/supervisor", "Supervisor"),
    Door("/streams", "Streams"),
    Door("/queues", "Queues"),
    Door("/jobs", "Jobs"),
    Door("/audit", "Audit"),
)

#: Beside these, where the application has dials.
DIALS: Final = Door(dials.PATH, "Dials")

_ask = partial(Page, role=Role.OPERATE)
_do = partial(Page, method="POST", role=Role.OPERATE)

_MOVE: Final = "/tasks/{id}/do/{move}"
_AGENT: Final = "/agents/{name}/do/{act}"
_WORKFLOW: Final = "/agents/workflows/{workflow}/do/{act}"
_ALERT: Final = "/supervisor/alerts/{id}/acknowledge"
_ROUND: Final = "/supervisor/run"
_EVENT: Final = "/streams/{name}/quarantine/{id}"
_EVENTS: Final = "/streams/{name}/do/resubmit"
_LETTER: Final = "/queues/{name}/dead/{id}"
_LETTERS: Final = "/queues/{name}/do/{act}"
_DIAL: Final = f"{dials.PATH}/{{name}}/turn"
_NEW_JOB: Final = "/jobs/{collection}/-/new"
_COLLECTION_ACT: Final = "/jobs/{collection}/-/do/{act}"
_JOB: Final = "/jobs/{collection}/{job}"

PAGES: Final = (
    Page(path="/", handler=overview.show),
    Page(path="/tasks", handler=tasks.show),
    Page(path="/tasks/{id}", handler=task.show),
    Page(path="/tasks/{id}/steps/{key}", handler=task.show_step),
    _ask(path=_MOVE, handler=moves.ask),
    _do(path=_MOVE, handler=moves.do),
    Page(path="/agents", handler=agents.show),
    Page(path="/agents/{name}", handler=agent.show),
    _ask(path=_AGENT, handler=agents.ask),
    _do(path=_AGENT, handler=agents.do),
    _ask(path=_WORKFLOW, handler=agents.ask_of_workflow),
    _do(path=_WORKFLOW, handler=agents.do_to_workflow),
    Page(path="/supervisor", handler=supervisor.show),
    _ask(path=_ALERT, handler=supervisor.ask_to_acknowledge),
    _do(path=_ALERT, handler=supervisor.acknowledge),
    _ask(path=_ROUND, handler=supervisor.ask_to_run),
    _do(path=_ROUND, handler=supervisor.run),
    Page(path="/streams", handler=streams.show),
    Page(path="/streams/{name}", handler=stream.show),
    Page(path=_EVENT, handler=stream.show_event),
    _ask(path=f"{_EVENT}/resubmit", handler=stream.ask_to_resubmit),
    _do(path=f"{_EVENT}/resubmit", handler=stream.resubmit),
    _ask(path=_EVENTS, handler=stream.ask_to_resubmit_all),
    _do(path=_EVENTS, handler=stream.resubmit_all),
    Page(path="/queues", handler=queues.show),
    Page(path="/queues/{name}", handler=queue.show),
    Page(path="/queues/{name}/messages/{id}", handler=queue.show_message),
    Page(path=_LETTER, handler=queue.show_letter),
    _ask(path=f"{_LETTER}/do/{{act}}", handler=queue.ask),
    _do(path=f"{_LETTER}/do/{{act}}", handler=queue.do),
    _ask(path=_LETTERS, handler=queue.ask_of_all),
    _do(path=_LETTERS, handler=queue.do_to_all),
    Page(path="/jobs", handler=collections.show),
    Page(path="/jobs/{collection}", handler=collections.show_collection),
    _ask(path=_NEW_JOB, handler=job_edit.new),
    _do(path=_NEW_JOB, handler=job_edit.create),
    _ask(path=_COLLECTION_ACT, handler=job_acts.ask_of_collection),
    _do(path=_COLLECTION_ACT, handler=job_acts.do_to_collection),
    Page(path=_JOB, handler=job.show),
    Page(path=f"{_JOB}/history", handler=job_history.show),
    _ask(path=f"{_JOB}/edit", handler=job_edit.edit),
    _do(path=f"{_JOB}/edit", handler=job_edit.change),
    _ask(path=f"{_JOB}/do/{{act}}", handler=job_acts.ask),
    _do(path=f"{_JOB}/do/{{act}}", handler=job_acts.do),
    Page(path="/audit", handler=audit.show),
    Page(path=dials.PATH, handler=dials.show),
    _ask(path=_DIAL, handler=dials.ask),
    _do(path=_DIAL, handler=dials.turn),
    Page(path=sign_in.SIGN_IN, handler=sign_in.show, role=None),
    Page(path=sign_in.SIGN_IN, handler=sign_in.sign_in, method="POST", role=None),
    Page(path=sign_in.SIGN_OUT, handler=sign_in.sign_out, method="POST", role=None),
)
