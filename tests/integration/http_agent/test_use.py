"""How an agent is declared, and where it may be called: in a step, outside a task, in no workflow."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from backstay import App, HttpFailed, HttpUnavailable, InvalidRequest, Recovery
from backstay.errors import InvalidDefinition, NotInWorkflow
from tests.support.drones import Delivery, error_of
from tests.support.running import comes_true
from tests.support.service import HOST, HttpService, dead_port, says

# Declaring one


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"connections": 0}, "connections is 0; it must lie between 1 and 10,000"),
        ({"connections": 10_001}, "connections is 10001"),
        ({"response_bytes_max": 0}, "response_bytes_max is 0; it must be at least 1"),
        ({"concurrency": 0}, "concurrency is 0"),
        ({"complete_by": "soon"}, "complete_by is 'soon'"),
        ({"headers": {"X": "a\nb"}}, "header X has a value that is not one line"),
        ({"url": "drone:8080"}, "url of the service must be http://host"),
    ],
)
def test_an_agent_that_makes_no_sense_is_refused_by_name(app: App, options: dict[str, Any], complaint: str):
    with pytest.raises(InvalidRequest, match=complaint):
        app.http_agent("drone", **{"url": "http://drone", **options})


def test_two_agents_of_one_name_are_refused(app: App):
    app.agent("drone")

    with pytest.raises(InvalidDefinition, match="declared twice"):
        app.http_agent("drone", "http://drone")


# Outside a task


async def test_outside_a_task_a_step_is_the_plain_function_and_leaves_no_connection(
    app: App, service: HttpService
):
    delivery = Delivery(app, app.http_agent("drone", service.url, complete_by="7s"))

    assert await delivery.schedule("d") == "drone-7"

    assert service.headers("Idempotency-Key") == [None]
    assert service.headers("Backstay-Remaining") == ["7.000"]
    await comes_true(lambda: service.open_connections == 0)


async def test_outside_a_task_errors_are_raised_as_they_are(app: App, service: HttpService):
    delivery = Delivery(app, app.http_agent("drone", service.url, complete_by="7s"))

    service.answers = [says(409, "taken")]
    with pytest.raises(HttpFailed, match="409 Conflict: taken") as failed:
        await delivery.schedule("d")
    assert failed.value.status == 409

    service.answers = [says(429, Retry_After="9")]
    with pytest.raises(HttpUnavailable) as unavailable:
        await delivery.schedule("d")
    assert (unavailable.value.status, unavailable.value.retry_after) == (429, timedelta(seconds=9))


async def test_a_proxy_that_the_environment_names_is_not_asked(
    app: App, service: HttpService, monkeypatch: pytest.MonkeyPatch
):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, service.url)
    drone = app.http_agent("drone", f"http://{HOST}:{dead_port()}")

    with pytest.raises(HttpUnavailable, match="no connection to"):
        await drone.get("/")

    assert service.asked == []


async def test_a_request_in_a_workflow_is_refused(app: App, url: str, service: HttpService):
    drone = app.http_agent("drone", service.url)

    @app.workflow(recovery=Recovery(then="error"))
    async def deliver() -> None:
        await drone.put("/drones")

    error = await error_of(app, url, deliver)

    assert error["type"] == NotInWorkflow.__name__
    assert "belongs into a step" in error["message"]
    assert service.asked == []
