"""Requests that nobody would think of, made from the server's own description of itself."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode
from schemathesis.checks import CheckFunction, not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from backstay.domain.access import Role
from backstay.domain.alert import AlertKind, of_task
from backstay.domain.states import StepState, TaskState
from backstay.testing.promises.holder import Holder
from backstay.testing.records import BROKEN, a_step
from tests.integration.http.conftest import held
from tests.support.databases import SqliteDatabase
from tests.support.job_documents import body
from tests.support.serving import Served

EXAMPLES = 12
CHECKS: list[CheckFunction] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]

#: What is there to be found: chance alone would only ever meet a 404.
KNOWN = {
    "id": ["held", "stopped", "1"],
    "name": ["stock", "order", "word", "victim"],
    "key": ["charge:1"],
    "workflow": ["anything", "order"],
    "stream": ["orders"],
    "subscription": ["s"],
    "group": ["g"],
    "collection": ["jc"],
    "job": ["j"],
}
COLLECTION = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Scheduler/jobCollections/jc"


@schemathesis.serializer("application/x-ndjson")
def as_lines(_context: object, value: object) -> bytes:
    """Lines as they were drawn, or one that is an event whatever was drawn."""
    text = value if isinstance(value, str) else ""
    return text.encode(errors="surrogatepass") + b"\n" + msgspec.json.encode({"body": text.isascii()})


@pytest.fixture
async def furnished(served: Served, alice: Holder) -> str:
    """A store with something of everything in it; the secret of an administrator."""
    stopped = await held(served, alice, "stopped")
    alert = of_task(AlertKind.TASK_ERROR, "stopped", message="sold out")
    await alice.write(stopped, alerts=[alert])
    await alice.leave(stopped, TaskState.ERROR, steps=[a_step(StepState.FAILED, position=1, error=BROKEN)])
    await held(served, alice, "held")
    await served.put("/v1/streams/orders", {"partitions": 1})
    await served.post("/v1/streams/orders/events", {"order": 7})
    await served.put(f"{COLLECTION}?api-version=2016-03-01", {"location": "here"})
    await served.put(f"{COLLECTION}/jobs/j?api-version=2016-03-01", body())
    await served.token("victim", Role.READ)
    return await served.token("me", Role.ADMIN)


def content(path: Path) -> dict[str, list[Any]]:
    """Every row of every table."""
    with closing(sqlite3.connect(path)) as connection:
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return {name: connection.execute(f'SELECT * FROM "{name}"').fetchall() for (name,) in names}


class Fuzzer:
    """Asks in a thread of its own: the server runs on the event loop of the test."""

    def __init__(self, url: str, secret: str, *files: Path) -> None:
        self._url = url
        self._headers = {"Authorization": f"Bearer {secret}"}
        self._files = files
        self._session = requests.Session()
        self.statuses: set[int] = set()

    def run(self) -> None:
        with self._session:
            document = self._session.get(f"{self._url}/openapi.json", headers=self._headers).json()
            for found in schemathesis.openapi.from_dict(document).get_all_operations():
                assert isinstance(found, Ok), found
                operation = found.ok()
                if operation.path != "/v1/tasks/{id}/events":  # An answer that stays open.
                    self._try(operation.as_strategy(generation_mode=GenerationMode.POSITIVE), hit=True)
                    # Where nothing is asked for, nothing can be given wrongly.
                    with contextlib.suppress(Unsatisfiable):
                        self._try(operation.as_strategy(generation_mode=GenerationMode.NEGATIVE), hit=False)

    def _try(self, cases: st.SearchStrategy[Case[Any]], *, hit: bool) -> None:
        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=cases, data=st.data())
        def ask(case: Case[Any], data: st.DataObject) -> None:
            if hit:
                aim(case, data)
            self._ask(case, checks=CHECKS if hit else [*CHECKS, negative_data_rejection])

        ask()

    def _ask(self, case: Case[Any], *, checks: list[CheckFunction]) -> None:
        before = [content(file) for file in self._files]
        response = case.call(base_url=self._url, session=self._session, headers=self._headers)
        self.statuses.add(response.status_code)
        case.validate_response(response, checks=checks)
        if 400 <= response.status_code < 500:
            assert [content(file) for file in self._files] == before, "a refusal changed something"


def aim(case: Case[Any], data: st.DataObject) -> None:
    """Now and then put the name of something that exists where one is asked for."""
    places = [case.path_parameters or {}, case.body if isinstance(case.body, dict) else {}]
    for place in places:
        for name in place.keys() & KNOWN.keys():
            place[name] = data.draw(st.sampled_from([place[name], *KNOWN[name]]))


async def test_no_request_brings_the_server_down_or_changes_anything_when_it_is_refused(
    served: Served, furnished: str, sqlite_database: SqliteDatabase
):
    streams = sqlite_database.path.with_name("streams.db")
    fuzzer = Fuzzer(served.url, furnished, sqlite_database.path, streams)

    await asyncio.to_thread(fuzzer.run)

    # It would prove little if chance had only ever met one sort of answer.
    assert fuzzer.statuses >= {200, 201, 202, 204, 404, 409, 422}
