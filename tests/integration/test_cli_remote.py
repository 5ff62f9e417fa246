"""What a command says of a server that is away, is none of ours, or means harm."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from backstay.cli import exit_code
from backstay.cli import remote as module
from backstay.cli.access import server_at
from backstay.cli.remote import Remote
from backstay.domain.jobs.records import CollectionId
from backstay.errors import (
    BackstayError,
    Conflict,
    InvalidDefinition,
    InvalidJob,
    InvalidRequest,
    InvalidSetting,
    Unavailable,
    UnknownCollection,
    UnknownJob,
)
from backstay.store.base import TaskFilter
from backstay.store.records import AlertFilter, AuditFilter
from tests.support.service import HttpService, dead_port, fine, http_service, never, says

TOKEN = "bst_0123456789-do-not-show"
TASK = {
    "id": "o1", "workflow": "pay", "version": 1, "state": "processed", "input": None, "output": 7,
    "error": None, "complete_by": None, "hard_end": None, "locked_by": None, "failure_count": 0,
    "attributes": {}, "created_at": "2030-01-31T12:00:00Z", "updated_at": "2030-01-31T12:00:00Z",
}  # fmt: skip
PAGE: dict[str, Any] = {"items": [], "next": None}


@pytest.fixture
async def service() -> AsyncIterator[HttpService]:
    async with http_service() as service:
        yield service


@pytest.fixture
async def server(service: HttpService) -> AsyncIterator[Remote]:
    async with Remote(f"{service.url}/behind/a-proxy", token=TOKEN) as server:
        yield server


def answer(service: HttpService, value: Any, status: int = 200) -> None:
    service.answers = [says(status, json.dumps(value), Content_Type="application/json")]


def refuse(service: HttpService, status: int, detail: str) -> None:
    problem = {"type": "urn:x", "title": "No", "status": status, "detail": detail}
    service.answers = [says(status, json.dumps(problem), Content_Type="application/problem+json")]


async def refusal(server: Remote) -> BackstayError:
    with pytest.raises(BackstayError) as raised:
        await server.task("o1")
    assert TOKEN not in str(raised.value)
    assert TOKEN not in repr(raised.value.__cause__)
    assert raised.value.__suppress_context__ or raised.value.__context__ is None
    return raised.value


# What is asked


async def test_the_token_is_in_one_header_and_the_path_below_the_url(service: HttpService, server: Remote):
    answer(service, TASK)

    task = await server.task("o1")

    assert task.output == 7
    [asked] = service.asked
    assert asked.raw_path == "/behind/a-proxy/v1/tasks/o1"
    assert asked.headers["Authorization"] == f"Bearer {TOKEN}"
    assert asked.headers["Accept"] == "application/json"


async def test_every_part_of_a_path_is_quoted(service: HttpService, server: Remote):
    answer(service, TASK)

    await server.complete_step("a:b@c~1", "branch/0.charge:1?x=%2F", {"ok": True}, reason="ünicode\n")

    [asked] = service.asked
    assert asked.raw_path == (
        "/behind/a-proxy/v1/tasks/a%3Ab%40c~1/steps/branch%2F0.charge%3A1%3Fx%3D%252F/complete"
    )
    assert await asked.json() == {"output": {"ok": True}, "reason": "ünicode\n"}


async def test_filters_are_parameters_and_what_is_not_asked_for_is_left_out(
    service: HttpService, server: Remote
):
    answer(service, PAGE)

    await server.tasks(TaskFilter(attribute=("for", "a&b:c"), before=17, limit=5))
    await server.alerts(AlertFilter(limit=5))
    await server.alerts(AlertFilter(open_only=True))
    await server.audit(AuditFilter(target="task:o 1"))

    assert [asked.query_string for asked in service.asked] == [
        "attribute=for:a%26b:c&limit=5&cursor=17",
        "limit=5",
        "open=true&limit=100",
        "target=task:o 1&limit=100",
    ]


async def test_a_signal_without_a_payload_has_no_body_and_its_key_is_a_header(
    service: HttpService, server: Remote
):
    answer(service, TASK)

    await server.signal("o1", "approval", key="k1")
    await server.signal("o1", "approval", {"yes": 1})

    assert service.headers("Backstay-Signal-Key") == ["k1", None]
    assert [await asked.text() for asked in service.asked] == ["", '{"yes":1}']


async def test_a_task_under_an_id_tells_whether_it_was_there(service: HttpService, server: Remote):
    answer(service, TASK, 201)
    assert (await server.submit("pay", None, id="o1"))[1] is True
    answer(service, TASK)
    assert (await server.submit("pay", None, id="o1"))[1] is False
    answer(service, TASK, 201)
    assert (await server.submit("pay", [1], attributes={"a": "b"}))[1] is True

    assert [asked.method for asked in service.asked] == ["PUT", "PUT", "PUT"]
    assert await service.asked[2].json() == {"workflow": "pay", "input": [1], "attributes": {"a": "b"}}


async def test_a_reason_that_cannot_be_kept_is_refused_and_not_dropped(service: HttpService, server: Remote):
    with pytest.raises(InvalidRequest, match="reason: a server takes none for a signal"):
        await server.signal("o1", "approval", reason="because")
    with pytest.raises(InvalidRequest, match="reason: a server takes none for the end of a token"):
        await server.revoke_token("ci", reason="because")

    assert service.asked == []


async def test_what_no_id_can_be_is_not_even_sent(service: HttpService, server: Remote):
    with pytest.raises(InvalidRequest, match=r"id is '\.\./tokens'"):
        await server.task("../tokens")
    with pytest.raises(InvalidRequest, match=r"path has a part '\.\.'"):
        await server.task("..")
    with pytest.raises(InvalidRequest, match="name of the agent is ''"):
        await server.pause_agent("")

    assert service.asked == []


async def test_a_task_that_ends_is_waited_for_while_the_server_is_away(
    service: HttpService, server: Remote, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.001)
    busy = says(200, json.dumps({**TASK, "state": "processing"}), Content_Type="application/json")
    away = says(503, '{"detail": "not now"}', Content_Type="application/problem+json")
    done = says(200, json.dumps(TASK), Content_Type="application/json")
    service.answers = [busy, away, busy, done]

    assert (await server.settled("o1")).state == "processed"
    assert len(service.asked) == 4


# What is refused


@pytest.mark.parametrize(
    ("status", "code"),
    [(400, 2), (422, 2), (413, 2), (404, 1), (409, 1), (403, 1), (429, 1), (500, 1), (503, 1)],
)
async def test_a_problem_is_one_line_and_an_exit_code(
    service: HttpService, server: Remote, status: int, code: int
):
    refuse(service, status, "field is 7; it must be 8")

    error = await refusal(server)

    assert str(error) == "field is 7; it must be 8"
    assert exit_code(error) == code


async def test_a_token_that_the_server_repeats_is_hidden(service: HttpService, server: Remote):
    refuse(service, 401, f"the token {TOKEN} opens nothing")

    assert str(await refusal(server)) == (
        "the token [hidden] opens nothing; put another token into BACKSTAY_TOKEN"
    )


async def test_a_problem_without_detail_is_its_title(service: HttpService, server: Remote):
    service.answers = [
        says(409, '{"title": "Taken"}', Content_Type="application/problem+json; charset=utf-8")
    ]

    assert str(await refusal(server)) == "Taken"


# What is no Backstay server


@pytest.mark.parametrize(
    ("status", "body", "content_type"),
    [
        (200, "<h1>It works!</h1>", "text/html"),
        (200, '{"items": 3}', "application/json"),
        (200, "", "application/json"),
        (404, f"<h1>Not found {TOKEN}</h1>", "text/html"),
        (404, '{"detail": "no"}', "application/json"),
        (404, "[]", "application/problem+json"),
        (404, "{}", "application/problem+json"),
        (502, "bad gateway", "text/plain"),
        (302, "", "text/html"),
    ],
)
async def test_another_server_is_asked_whether_it_is_one_of_ours(
    service: HttpService, server: Remote, status: int, body: str, content_type: str
):
    service.answers = [says(status, body, Content_Type=content_type, Location="http://elsewhere/x?secret=1")]

    error = await refusal(server)

    assert str(error).startswith(f"GET {service.url}/behind/a-proxy/v1/tasks/o1 answered {status}")
    assert str(error).endswith("; is that a Backstay server?")
    assert "secret" not in str(error)
    assert "\n" not in str(error)
    assert exit_code(error) == 1
    assert len(service.asked) == 1


async def test_an_answer_without_end_is_not_read_to_its_end(
    service: HttpService, server: Remote, monkeypatch: pytest.MonkeyPatch
):
    answer(service, {**TASK, "output": "x" * 5_000})
    async with Remote(service.url, token=None) as small:
        monkeypatch.setattr(small._http, "_response_bytes_max", 1_000)
        error = await refusal(small)

    assert "answered with more than" in str(error)


async def test_a_server_that_does_not_answer_is_not_waited_for_for_ever(
    service: HttpService, server: Remote, monkeypatch: pytest.MonkeyPatch
):
    service.answers = [never]
    monkeypatch.setattr(module, "ANSWER_TIME", module.ANSWER_TIME / 300)

    error = await refusal(server)

    assert str(error) == f"GET {service.url}/behind/a-proxy/v1/tasks/o1 got no answer within 100ms"
    assert isinstance(error, Unavailable)


async def test_a_server_that_is_not_there_is_one_line():
    port = dead_port()
    async with Remote(f"http://127.0.0.1:{port}", token=TOKEN) as nobody:
        error = await refusal(nobody)

    assert str(error) == (
        f"GET http://127.0.0.1:{port}/v1/tasks/o1 got no answer:"
        f" no connection to 127.0.0.1:{port}: Connection refused;"
        " is a server running there, and is that the right --url?"
    )
    assert exit_code(error) == 1


async def test_a_server_without_tls_is_one_line_to_who_expects_it(service: HttpService):
    async with Remote(service.url.replace("http:", "https:"), token=TOKEN) as server:
        error = await refusal(server)

    assert "TLS failed" in str(error)
    assert service.asked == []


async def test_a_redirect_does_not_carry_the_token_away(service: HttpService, server: Remote):
    async with http_service(fine) as elsewhere:
        service.answers = [says(307, "", Location=f"{elsewhere.url}/v1/tasks/o1")]
        error = await refusal(server)

    assert "redirects are not followed" in str(error)
    assert elsewhere.asked == []


# What names a server


@pytest.mark.parametrize(
    "url", ["ftp://host", "host:8080", "http://", "http://host/?a=1", "http://host:x", "http://ho st"]
)
def test_a_url_that_names_no_server_is_a_mistake(url: str):
    with pytest.raises(InvalidDefinition):
        Remote(url, token=None)


@pytest.mark.parametrize("token", ["two words", "line\nbreak", "bst_ünicode"])
def test_a_token_that_is_no_word_is_refused_without_being_shown(token: str):
    with pytest.raises(InvalidSetting, match="BACKSTAY_TOKEN is not one word") as raised:
        Remote("http://host", token=token)

    assert token not in str(raised.value)


def test_credentials_in_the_url_are_not_shown(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("BACKSTAY_TOKEN", TOKEN)

    with pytest.raises(Exception, match="credentials are given twice") as raised:
        server_at(None, "http://me:hidden@host")

    assert "hidden" not in str(raised.value)


def test_an_empty_variable_names_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("BACKSTAY_URL", "")

    assert server_at(None, None) is None


# Jobs, whose interface refuses in another manner


def refuse_as_arm(service: HttpService, status: int, code: str, message: str) -> None:
    body = json.dumps({"error": {"code": code, "message": message}})
    service.answers = [says(status, body, Content_Type="application/json; charset=utf-8")]


@pytest.mark.parametrize(
    ("answered", "kind", "said"),
    [
        ((400, "BadRequest"), InvalidRequest, "why"),
        ((401, "AuthenticationFailed"), BackstayError, "why; put another token into BACKSTAY_TOKEN"),
        ((404, "NotFound"), UnknownJob, "no job named 'j1' in job collection 'jc1'"),
        ((404, "ResourceNotFound"), UnknownCollection, "no job collection named 'jc1'"),
        ((404, "InvalidRequestUri"), BackstayError, "why"),
        ((409, "Conflict"), Conflict, "why"),
        ((503, "ServerBusy"), Unavailable, "why"),
    ],
)
async def test_what_the_interface_of_jobs_refuses_is_raised_as_the_store_would(
    service: HttpService, server: Remote, answered: tuple[int, str], kind: type[BackstayError], said: str
):
    refuse_as_arm(service, *answered, "why")

    with pytest.raises(kind) as raised:
        await server.jobroom.job(CollectionId("s", "g", "jc1"), "j1")

    assert said in str(raised.value)
    [asked] = service.asked
    assert asked.raw_path == (
        "/behind/a-proxy/subscriptions/s/resourceGroups/g/providers/Microsoft.Scheduler"
        "/jobCollections/jc1/jobs/j1?api-version=2016-03-01"
    )


@pytest.mark.parametrize("body", ["{}", "[]", "<html>", '{"error": "no"}'])
async def test_json_that_is_no_refusal_of_ours_is_not_taken_for_one(
    service: HttpService, server: Remote, body: str
):
    service.answers = [says(404, body, Content_Type="application/json")]

    with pytest.raises(BackstayError, match="is that a Backstay server"):
        await server.jobroom.job(CollectionId("s", "g", "jc1"), "j1")


async def test_what_no_name_can_be_is_not_sent(service: HttpService, server: Remote):
    for place, name in [(CollectionId("s", "g", "1"), "j1"), (CollectionId("s", "g", "jc1"), "../x")]:
        with pytest.raises(InvalidJob):
            await server.jobroom.job(place, name)

    assert service.asked == []
