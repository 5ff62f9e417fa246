"""What operators and signals say of a task is checked like what a submission says."""

from __future__ import annotations

import math
from typing import Any

import pytest

from backstay import Client, InvalidRequest
from backstay.errors import InvalidId, InvalidInput, PayloadTooLarge, UnknownStep
from tests.integration.bad_input.conftest import LIMIT, Opaque


@pytest.mark.parametrize("name", ["", "a b", "a:b", "x" * 101, 5], ids=repr)
async def test_a_signals_name_is_checked(client: Client, refused: Any, name: Any):
    await client.submit("idle", id="t")

    await refused(InvalidRequest, "signal name", client.signal("t", name))


@pytest.mark.parametrize("payload", [Opaque(), math.nan, "x" * LIMIT], ids=["object", "nan", "large"])
async def test_a_signals_payload_is_checked(client: Client, refused: Any, payload: Any):
    await client.submit("idle", id="t")

    await refused(InvalidRequest, "payload of signal go", client.signal("t", "go", payload))


async def test_a_signals_key_is_checked(client: Client, refused: Any):
    await client.submit("idle", id="t")

    await refused(InvalidId, "signal key is 'a b'", client.signal("t", "go", key="a b"))


@pytest.mark.parametrize(
    ("output", "kind", "match"),
    [
        ("five", InvalidInput, "result of step echo does not fit its type: Expected `int`, got `str`"),
        (Opaque(), InvalidInput, "output of step echo:1 cannot be written as JSON"),
        ("x" * LIMIT, PayloadTooLarge, "output of step echo:1 is 2,050 bytes"),
    ],
)
async def test_what_a_step_is_completed_with_by_hand_must_fit(
    client: Client, refused: Any, output: Any, kind: type[Exception], match: str
):
    await client.submit("planned", id="t")

    await refused(kind, match, client.complete_step("t", "echo:1", output))


@pytest.mark.parametrize("key", ["echo:2", "", None])
async def test_a_step_that_is_completed_by_hand_must_exist(client: Client, refused: Any, key: Any):
    await client.submit("planned", id="t")

    await refused(UnknownStep, f"task 't' has no step {key!r}", client.complete_step("t", key, 5))


async def test_a_resubmission_begins_at_one_of_two_places(client: Client, refused: Any):
    await client.submit("idle", id="t")

    from_: Any = "middle"
    await refused(
        InvalidRequest, 'from is \'middle\'; it must be "failed" or "start"', client.resubmit("t", from_)
    )
