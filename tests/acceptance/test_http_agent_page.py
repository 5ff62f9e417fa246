"""The program in docs/http-agent.md does what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from backstay import App, TaskFailed
from tests.support.service import HttpService, http_service

PAGE = Path(__file__).resolve().parents[2] / "docs" / "http-agent.md"


def program(service: HttpService) -> dict[str, Any]:
    """The names that the page's program declares, with ``service`` in place of the one it speaks of."""
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    code = "\n".join(blocks)
    assert "http://drone:8080" in code
    names: dict[str, Any] = {"__name__": "page"}
    exec(
        compile(code.replace("http://drone:8080", service.url).replace("…", "abc"), PAGE.name, "exec"), names
    )
    return names


async def drones(request: web.Request) -> web.Response:
    match request.method, request.path:
        case "GET", "/api/depots":
            return (
                web.Response(status=404)
                if request.query["city"] == "Faro"
                else web.json_response({"name": "n"})
            )
        case "PUT", "/api/drones/d-1":
            return web.json_response({"drone_id": "drone-7"}, status=201)
        case "PUT", _:
            return web.json_response({"drone": 7}, status=201)
        case _:
            return web.Response(status=404)


async def test_the_program_delivers(tmp_path: Path):
    async with http_service(drones) as service:
        names = program(service)
        app: App = names["app"]
        async with app.run(f"sqlite:///{tmp_path / 'page.db'}"):
            handle = await app.submit(names["deliver"], "d-1", "Faro", id="order-17")
            assert await handle.result(timeout=30) == "drone-7 from main depot"
            handle = await app.submit(names["deliver"], "d-1", "Lisbon")
            assert await handle.result(timeout=30) == "drone-7 from n"

    assert service.headers("Idempotency-Key")[1] == "order-17/schedule_drone:1"
    assert service.headers("Authorization") == ["Bearer abc"] * 4


async def test_the_program_undoes_what_it_does_not_understand(tmp_path: Path):
    async with http_service(drones) as service:
        names = program(service)
        app: App = names["app"]
        async with app.run(f"sqlite:///{tmp_path / 'page.db'}"):
            handle = await app.submit(names["deliver"], "d/2", "Lisbon", id="order-18")
            with pytest.raises(TaskFailed, match="missing required field `drone_id`"):
                await handle.result(timeout=30)
            assert (await app.task("order-18")).state == "undone"

    undone = service.asked[-1]
    assert (undone.method, undone.raw_path) == ("DELETE", "/api/drones/d%2F2")
    assert undone.headers["Idempotency-Key"] == "order-18/schedule_drone:1/undo"


async def test_a_step_of_the_program_is_a_plain_function_elsewhere():
    async with http_service(drones) as service:
        assert await program(service)["schedule_drone"]("d-1", expedited=False) == "drone-7"
