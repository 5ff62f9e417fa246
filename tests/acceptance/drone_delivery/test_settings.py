"""What is set is what happens, and what nobody knows is no setting."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.drone_platform import APPLICATION, DronePlatform, drone_platform, eventually, new_request
from tests.support.drone_services import child_environment

pytestmark = pytest.mark.asyncio(loop_scope="module")

DELIVERIES = 12


async def test_so_many_deliveries_are_under_way_as_the_settings_say(tmp_path: Path):
    """DX-11: measured at the service, which is called for so many and no more."""
    async with drone_platform(tmp_path) as platform:
        await platform.serve(in_flight="3")
        async with platform.disturbed("package", hang=True):
            await platform.place_all([new_request() for _ in range(DELIVERIES)])
            await until_under_way(platform, 3)

            await platform.serve(in_flight="5")
            await until_under_way(platform, 8)

        states = await platform.until_all_have_ended()
        assert [*states.values()] == ["processed"] * DELIVERIES


async def until_under_way(platform: DronePlatform, number: int) -> None:
    async def look() -> tuple[int, int, int]:
        called = len(platform.calls("package"))
        processing, pending = [len(await platform.tasks(state)) for state in ("processing", "pending")]
        return processing, pending, called

    wanted = (number, DELIVERIES - number, number)
    await eventually(look, lambda seen: seen == wanted, what=f"{number} under way, the others waiting")


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("BACKSTAY_BREAKDURATION", "30", "there is no setting 'breakduration'"),
        ("BACKSTAY_IN_FLIGHT", "many", "in_flight"),
        ("DRONE_URL", "", "DRONE_URL"),
    ],
    ids=["unknown", "no number", "missing"],
)
async def test_a_setting_that_is_none_ends_the_start(tmp_path: Path, setting: str, value: str, said: str):
    """DX-12."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "backstay",
            "serve",
            APPLICATION,
            "--store",
            "sqlite:///store.db",
            "--port",
            "0",
        ],
        cwd=tmp_path,
        env={**child_environment(), setting: value},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert done.returncode != 0
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "store.db").exists()
