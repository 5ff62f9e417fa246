"""What is no delivery request is refused with a problem that names the field, and no event is appended."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from tests.support.drone_platform import API, DronePlatform, distinct_request, drone_platform
from tests.support.serving import Answer

pytestmark = pytest.mark.asyncio(loop_scope="module")

GOOD = distinct_request(1)
PACKAGE = GOOD["packageInfo"]
TOO_LARGE = 2_000_000
CHUNK = 50_000


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def front(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[DronePlatform]:
    """Only the interface: whatever it let in would stay there to be seen."""
    async with drone_platform(tmp_path_factory.mktemp("front"), names=()) as running:
        await running.serve(API)
        yield running


def without(fields: dict[str, Any], name: str) -> dict[str, Any]:
    assert name in fields
    return {key: value for key, value in fields.items() if key != name}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"deliver it",
        b"\xff",
        b'{"ownerId": "\xff"}',
        b'{"ownerId": "\\ud800"}',
        b"NaN",
        b"{}{}",
        b"[" * 5_000,
        b'{"ownerId":' * 2_000,
    ],
    ids=lambda body: repr(body[:30]),
)
async def test_what_is_not_json_is_refused(front: DronePlatform, body: bytes):
    refused = await posted(front, data=body)

    assert (refused.status, refused.problem) == (400, "about:blank")


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ([], "object"),
        ("text", "object"),
        (None, "object"),
        ({}, "ownerId"),
        *((without(GOOD, name), name) for name in GOOD),
        *(
            ({**GOOD, "packageInfo": without(PACKAGE, name)}, name)
            for name in ("packageId", "size", "weight", "tag")
        ),
        ({**GOOD, "droneId": "drone-1"}, "droneId"),
        ({**GOOD, "packageInfo": {**PACKAGE, "colour": "red"}}, "colour"),
        ({**GOOD, "ownerId": 1}, "ownerId"),
        ({**GOOD, "ownerId": ""}, "ownerId"),
        ({**GOOD, "ownerId": "a/b"}, "ownerId"),
        ({**GOOD, "ownerId": "a" * 101}, "ownerId"),
        ({**GOOD, "ownerId": "."}, "ownerId"),
        ({**GOOD, "deadline": None}, "deadline"),
        ({**GOOD, "pickupTime": "t" * 201}, "pickupTime"),
        ({**GOOD, "expedited": "yes"}, "expedited"),
        ({**GOOD, "expedited": 1}, "expedited"),
        ({**GOOD, "confirmationRequired": "Handshake"}, "confirmationRequired"),
        ({**GOOD, "confirmationRequired": None}, "confirmationRequired"),
        ({**GOOD, "packageInfo": "small"}, "packageInfo"),
        ({**GOOD, "packageInfo": {**PACKAGE, "size": "huge"}}, "packageInfo.size"),
        ({**GOOD, "packageInfo": {**PACKAGE, "weight": 0}}, "packageInfo.weight"),
        ({**GOOD, "packageInfo": {**PACKAGE, "weight": -1}}, "packageInfo.weight"),
        ({**GOOD, "packageInfo": {**PACKAGE, "weight": 1_000.1}}, "packageInfo.weight"),
        ({**GOOD, "packageInfo": {**PACKAGE, "weight": "1"}}, "packageInfo.weight"),
        ({**GOOD, "packageInfo": {**PACKAGE, "packageId": "../x"}}, "packageInfo.packageId"),
        ({**GOOD, "packageInfo": {**PACKAGE, "packageId": ".."}}, "packageInfo.packageId"),
    ],
)
async def test_what_does_not_fit_is_refused_by_name(front: DronePlatform, body: Any, named: str):
    refused = await posted(front, body)

    assert (refused.status, refused.problem) == (400, "about:blank")
    assert named in refused.detail


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        ("", "no location"),
        ("here", "no location"),
        ("1,2", "no location"),
        ("1,2,3,4", "no location"),
        ("1,two,3", "no location"),
        ("1,,3", "no location"),
        ("nan,2,3", "no location"),
        ("1,inf,3", "no location"),
        ("1,90.5,3", "nowhere on earth"),
        ("1,-91,3", "nowhere on earth"),
        ("1,2,180.01", "nowhere on earth"),
        ("1,2,-181", "nowhere on earth"),
    ],
)
@pytest.mark.parametrize("field", ["pickupLocation", "dropOffLocation"])
async def test_a_location_that_is_none_is_refused_by_name(
    front: DronePlatform, field: str, written: str, complaint: str
):
    refused = await posted(front, {**GOOD, field: written})

    assert (refused.status, refused.problem) == (400, "about:blank")
    assert refused.detail.startswith(f"{field}: ")
    assert complaint in refused.detail


@pytest.mark.parametrize("key", ["", "two words", "k" * 201, "schlüssel"])
async def test_a_key_that_is_none_is_refused_by_name(front: DronePlatform, key: str):
    refused = await posted(front, GOOD, Idempotency_Key=key)

    assert (refused.status, refused.problem) == (422, "about:blank")
    assert "Idempotency-Key" in refused.detail


async def in_chunks() -> AsyncIterator[bytes]:
    for _ in range(TOO_LARGE // CHUNK):
        yield b" " * CHUNK


@pytest.mark.parametrize("announced", [True, False], ids=["announced", "in chunks"])
async def test_a_body_that_is_too_large_is_refused(front: DronePlatform, announced: bool):
    data = io.BytesIO(b" " * TOO_LARGE) if announced else in_chunks()

    refused = await posted(front, data=data)

    assert refused.status == 413
    assert refused.problem
    assert " bytes" in refused.detail


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/deliveryrequests", 405),
        ("POST", "/api/deliveryrequests/one", 405),
        ("DELETE", "/api/deliveries/one", 405),
        ("GET", "/api/nowhere", 404),
        ("GET", "/api", 404),
    ],
)
async def test_a_path_or_method_that_is_not_there_is_a_problem_as_well(
    front: DronePlatform, method: str, path: str, status: int
):
    refused = await front.ask(method, front.url + path)

    assert refused.status == status
    assert refused.problem


async def posted(front: DronePlatform, body: Any = msgspec.UNSET, **options: Any) -> Answer:
    """The answer to a request that must not leave an event behind."""
    known = await front.stream.events()
    answer = await front.ask("POST", f"{front.url}/api/deliveryrequests", body, **options)
    assert await front.stream.events() == known, answer
    return answer
