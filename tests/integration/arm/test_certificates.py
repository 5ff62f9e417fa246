"""A certificate file that would take for ever to open is refused, and nobody waits for it meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.arm import Arm, error
from tests.support.databases import SqliteDatabase
from tests.support.job_documents import body, http, laborious_pfx, pfx

JOB = "/jc1/jobs/j1"
PLACE = "properties.action.request.authentication"
# Half a minute of computing, of which two seconds are allowed.
LABOUR_ROUNDS = 400_000_000


@pytest.fixture
def database(sqlite_database: SqliteDatabase) -> SqliteDatabase:
    return sqlite_database


def showing(file: str, **more: str) -> dict[str, Any]:
    return http(authentication={"type": "ClientCertificate", "pfx": file, **more})


async def test_a_file_that_is_laborious_to_open_is_refused_while_the_server_goes_on(jc1: Arm):
    laborious = asyncio.create_task(jc1.put(JOB, showing(laborious_pfx(LABOUR_ROUNDS), password="hunter2")))
    meanwhile = await jc1.get("/jc1")
    assert (meanwhile.status, laborious.done()) == (200, False)

    status, code, message = error(await laborious)

    assert (status, code) == (400, "BadRequest")
    assert message.startswith(f"{PLACE}.pfx takes too long to open; export it with the usual number")
    assert (await jc1.get(JOB)).status == 404


async def test_nor_does_it_come_in_by_a_change(jc1: Arm):
    made = (await jc1.put(JOB, showing(pfx(), password="hunter2"))).json
    action = showing(laborious_pfx(LABOUR_ROUNDS), password="p")["properties"]["action"]

    refused = await jc1.patch(JOB, body(action={"errorAction": action}))

    assert "errorAction.request.authentication.pfx takes too long" in error(refused)[2]
    assert (await jc1.get(JOB)).json == made


async def test_a_file_comes_with_its_password(jc1: Arm):
    await jc1.put(JOB, showing(pfx(), password="hunter2"))

    alone = await jc1.patch(JOB, showing(pfx("other")))
    together = await jc1.patch(JOB, showing(pfx("other"), password="other"))

    assert error(alone)[2] == f"{PLACE}.password is missing; write it beside the pfx that it opens"
    assert together.status == 200


@pytest.mark.parametrize("file", ["", "hunter2!", 7, None])
async def test_what_is_no_file_is_refused_with_everything_else(jc1: Arm, file: Any):
    status, _, message = error(await jc1.put(JOB, showing(file, password="hunter2")))

    assert status == 400
    assert message.startswith(f"{PLACE}.pfx ")
    assert "hunter2" not in message
