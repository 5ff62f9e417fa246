"""What an answer does to its step: done, tried again, refused for good, or larger than is read."""

from __future__ import annotations

import gzip
import tracemalloc

import pytest
from aiohttp import web

from backstay import App, HttpFailed, HttpUnavailable
from tests.support.drones import QUICK, Delivery, error_of
from tests.support.running import FAST, SOON
from tests.support.service import HttpService, fine, http_service, says

# Its status


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
async def test_a_status_that_may_pass_is_tried_again(app: App, url: str, service: HttpService, status: int):
    service.answers = [says(status), fine]
    delivery = Delivery(app, app.http_agent("drone", service.url, retry=QUICK))

    async with app.run(url, **FAST):
        handle = await app.submit(delivery.deliver, "d")
        assert await handle.result(SOON) == "drone-7"

    assert len(service.asked) == 2


@pytest.mark.parametrize("status", [301, 303, 400, 401, 403, 404, 409, 410, 422])
async def test_any_other_status_is_final(app: App, url: str, service: HttpService, status: int):
    service.answers = [says(status, "because")]
    delivery = Delivery(app, app.http_agent("drone", service.url, retry=QUICK), then="error")

    error = await error_of(app, url, delivery.deliver, "d")

    assert len(service.asked) == 1
    assert (error["type"], error["permanent"]) == ("HttpFailed", True)
    assert error["message"].startswith(f"PUT {service.url}/api/drones/d answered {status} ")
    assert error["message"].endswith(": because")


async def test_a_redirect_is_not_followed(app: App, url: str, service: HttpService):
    async with http_service() as elsewhere:
        service.answers = [says(307, "go there", Location=f"{elsewhere.url}/x?token=s3cr3t"), says(404)]
        delivery = Delivery(app, app.http_agent("drone", service.url, retry=QUICK))

        error = await error_of(app, url, delivery.deliver, "d")

        assert elsewhere.asked == []
    assert f"which points to {elsewhere.url}/x; redirects are not followed: go there" in error["message"]
    assert "s3cr3t" not in error["message"]
    assert delivery.undone == ["unknown"]  # It may have done its work before it pointed elsewhere.


async def test_a_refusal_after_a_silence_leaves_the_outcome_unknown(app: App, url: str, service: HttpService):
    """The first try may have taken effect although the second was refused."""
    service.answers = [says(502), says(409), says(404)]
    delivery = Delivery(app, app.http_agent("drone", service.url, retry=QUICK))

    await error_of(app, url, delivery.deliver, "d")

    assert delivery.undone == ["unknown"]


async def test_a_refusal_at_the_first_try_has_no_effect_to_undo(app: App, url: str, service: HttpService):
    service.answers = [says(409)]
    delivery = Delivery(app, app.http_agent("drone", service.url, retry=QUICK))

    await error_of(app, url, delivery.deliver, "d")

    assert delivery.undone == []


# Its size


async def test_an_answer_that_is_just_not_too_large_is_read(app: App, service: HttpService):
    service.answers = [says(200, "x" * 1_000)]
    drone = app.http_agent("drone", service.url, response_bytes_max=1_000)

    assert len((await drone.get("/x")).body) == 1_000


async def test_an_answer_that_is_too_large_fails_for_good_and_the_work_is_undone(
    app: App, url: str, service: HttpService
):
    service.answers = [says(200, "x" * 1_001), says(404)]
    delivery = Delivery(app, app.http_agent("drone", service.url, response_bytes_max=1_000, retry=QUICK))

    error = await error_of(app, url, delivery.deliver, "d")

    assert error["message"] == (
        f"PUT {service.url}/api/drones/d answered 200 OK with more than 1,000 bytes"
        " (response_bytes_max of the agent)"
    )
    assert error["permanent"] is True
    assert [asked.method for asked in service.asked] == ["PUT", "DELETE"]
    assert delivery.undone == ["unknown"]


@pytest.mark.parametrize("status", [200, 500])
async def test_a_small_answer_that_unfolds_into_a_large_one_is_not_unfolded(
    app: App, service: HttpService, status: int
):
    bomb = gzip.compress(b"x" * 100_000_000)
    assert len(bomb) < 200_000

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(status=status, body=bomb, headers={"Content-Encoding": "gzip"})

    service.answers = [answer]
    drone = app.http_agent("drone", service.url, response_bytes_max=200_000)

    tracemalloc.start()
    try:
        with pytest.raises((HttpFailed, HttpUnavailable), match=str(status)):
            await drone.get("/x")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 10_000_000
