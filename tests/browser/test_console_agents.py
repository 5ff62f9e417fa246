"""Agents in the console: how long calls take and what breakers did; and the dials of an application."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from itertools import count
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import Browser, Locator, expect

from drone_delivery.addresses import DEFAULT_PORTS, url_variable
from tests.support import moody_app
from tests.support.chromium import Sight, until
from tests.support.drone_services import child_environment, command
from tests.support.ports import HOST, free_ports
from tests.support.serve_command import serving

See = Callable[[str], Sight]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that tells often how its agents fare."""
    folder = tmp_path_factory.mktemp("moody")
    shutil.copy(moody_app.__file__, folder / "moody_app.py")
    often = {"BACKSTAY_HEARTBEAT": "200ms"}
    with serving(folder, "moody_app:app", "--store", "sqlite:///moody.db", **often) as served:
        yield served.url


@pytest.fixture
def see(browser: Browser) -> Iterator[See]:
    """Opens a page of a server that is checked for complaints and strangers when the test is over."""
    context = browser.new_context()
    opened: list[Sight] = []

    def see(url: str) -> Sight:
        opened.append(Sight(context.new_page(), url))
        return opened[-1]

    yield see
    for sight in opened:
        sight.check()
    context.close()


def ask(method: str, url: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(url, data, {"Content-Type": "application/json"}, method=method)) as answer:
        return json.loads(answer.read() or b"null")


_numbers = count()


def order(shop: str, *, seconds: float = 0.0, refused: int = 0) -> str:
    """A new task; its address."""
    task = f"{shop}/v1/tasks/order-{next(_numbers)}"
    ask("PUT", task, {"workflow": "order", "input": {"seconds": seconds, "refused": refused}})
    return task


def tile(sight: Sight, name: str) -> Locator:
    named = sight.page.get_by_text(name, exact=True)
    return sight.page.locator(".tile", has=named).locator(".big")


def test_the_overview_speaks_of_one_agent_as_of_one(see: See, shop: str):
    sight = see(shop)
    sight.go("/")

    breakers = sight.page.locator(".tile", has=sight.page.get_by_text("breakers", exact=True))
    expect(breakers.locator(".quiet")).to_have_text("open, of 1 agent")


def test_how_long_calls_take_is_seen_on_both_pages_and_goes_on_being_seen(see: See, shop: str):
    for _ in range(20):
        order(shop)
    sight = see(shop)
    sight.go("/agents")
    row = sight.page.locator("tr", has=sight.page.get_by_role("rowheader", name="bank"))
    expect(row).to_contain_text("ms")
    row.get_by_role("link", name="bank").click()
    sight.page.wait_for_url("**/agents/bank")
    expect(tile(sight, "p50")).to_contain_text("ms")
    expect(tile(sight, "failing")).to_have_text("0.0 %")
    sight.page.evaluate("window.loaded = 'once'")

    for _ in range(10):
        order(shop, seconds=1.2)

    expect(tile(sight, "p99")).to_have_text(re.compile(r"^[0-9.]+s$"))
    expect(sight.page.locator("circle.bar")).to_have_count(1)
    assert sight.page.evaluate("window.loaded") == "once"


def test_a_breaker_that_opened_tells_when_and_why_and_an_operator_holds_it(see: See, shop: str):
    sight = see(shop)
    sight.go("/agents/bank")

    task = order(shop, refused=3)

    turns = sight.page.locator(".turns tbody tr")
    expect(turns.last).to_contain_text("3 failures, the last: Transient: <b>the bank</b> is away")
    expect(turns.first).to_contain_text("the probe succeeded")
    assert turns.locator(".state").all_inner_texts() == ["closed", "half_open", "open"]
    expect(sight.page.locator(".strips .bar.breaker-open")).to_have_count(1)
    until(lambda: ask("GET", task)["state"] == "processed")
    sight.page.get_by_role("button", name="Hold open").click()
    sight.page.get_by_label("Why?").fill("the bank called")
    with sight.page.expect_navigation(url="**/agents/bank"):
        sight.page.locator("dialog[open] button.strong").click()
    expect(sight.page.locator(".trail")).to_contain_text("the bank called")
    expect(sight.page.locator(".title")).to_contain_text("held open")


# Dials


@contextmanager
def service(folder: Path, name: str, port: int) -> Iterator[str]:
    """A service of the drone delivery, as a process of its own."""
    with subprocess.Popen(
        command(name, port=port, database=folder / f"{name}.db"),
        env=child_environment(),
        stdout=subprocess.DEVNULL,
    ) as process:
        try:
            url = f"http://{HOST}:{port}"
            until(lambda: status(f"{url}/healthz") == HTTPStatus.OK)
            yield url
        finally:
            process.kill()


def status(url: str) -> int | None:
    try:
        with urlopen(url) as answer:
            return int(answer.status)
    except HTTPError as refused:
        return refused.code
    except URLError:
        return None


def test_the_dials_of_the_demo_are_turned_and_the_services_feel_it(see: See, tmp_path: Path):
    ports = dict(zip(DEFAULT_PORTS, free_ports(len(DEFAULT_PORTS)), strict=True))
    urls = {url_variable(name): f"http://{HOST}:{port}" for name, port in ports.items()}
    options = ("drone_delivery.demo.server:app", "--roles", "api", "--store", "sqlite:///demo.db")
    with service(tmp_path, "drone", ports["drone"]) as url, serving(tmp_path, *options, **urls) as served:
        sight = see(served.url)
        sight.go("/")
        sight.page.get_by_role("link", name="Dials").click()
        rows = sight.page.locator("tbody tr")
        drone = sight.page.locator("tr", has=sight.page.get_by_role("rowheader", name="drone"))
        expect(rows).to_have_count(6)
        expect(rows.filter(has_text="does not answer")).to_have_count(5)
        expect(drone.locator(".state.on")).to_have_count(0)
        assert status(f"{url}/api/dronedeliveries/none") == HTTPStatus.NOT_FOUND

        drone.get_by_role("button", name="Turn").click()
        sight.page.get_by_label("outage").check()
        sight.page.get_by_label("p99").fill("200")
        with sight.page.expect_navigation():
            sight.page.locator("dialog[open] button.strong").click()
        expect(sight.page.get_by_role("alert")).to_contain_text("give both median and p99, or none of them")
        expect(sight.page.get_by_label("outage")).to_be_checked()
        sight.page.get_by_label("median").fill("20")
        with sight.page.expect_navigation(url="**/dials"):
            sight.page.get_by_role("button", name="Turn").click()

        expect(drone.locator(".state.on")).to_have_count(1)
        expect(drone).to_contain_text("200 ms")
        assert status(f"{url}/api/dronedeliveries/none") == HTTPStatus.SERVICE_UNAVAILABLE
        assert ask("GET", f"{url}/faults")["latencyMs"] == {"median": 20, "p99": 200}
        ask("PUT", f"{url}/faults", {})
        expect(drone.locator(".state.on")).to_have_count(0)
        # A refusal is a page, which a browser complains about.
        sight.complaints = [one for one in sight.complaints if "422" not in one]
