"""Jobs in a browser: written with a preview, changed, run, held back and deleted; and attacks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.support.arm import VERSION
from tests.support.chromium import Desk, Sight, confirm, desk, until
from tests.support.console_app import HOSTILE

COLLECTIONS = "/subscriptions/default/resourceGroups/default/providers/Microsoft.Scheduler/jobCollections"
DAILY = {"frequency": "day", "schedule": {"hours": [5], "minutes": [0]}}
PREVIEW = "#preview"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A server with a collection, in which a job has run, and one with hostile words waits to."""
    with desk(tmp_path_factory.mktemp("jobs")) as served:
        put(served, "/night", {"location": "West US", "properties": {"sku": {"name": "Standard"}}})
        put_job(served, "told", startTime="2031-01-01", recurrence=DAILY)
        hostile = {"type": "Http", "request": {"uri": "http://a/", "method": "POST", "body": HOSTILE}}
        error_action = {"type": "Workflow", "workflow": {"name": "w", "input": HOSTILE}}
        put_job(served, "hostile", startTime="2031-01-01", action={**hostile, "errorAction": error_action})
        served.ask("POST", "/v1/tasks", {"workflow": "fulfil", "input": {"order": "o", "way": "goes well"}})
        yield served


def put(shop: Desk, path: str, document: dict[str, Any]) -> None:
    shop.ask("PUT", f"{COLLECTIONS}{path}?api-version={VERSION}", document)


def put_job(shop: Desk, name: str, **properties: Any) -> None:
    """A job that submits a task, unless ``properties`` say otherwise."""
    order = {"order": f"of {name}", "way": "goes well"}
    action = {"type": "Workflow", "workflow": {"name": "fulfil", "input": order}}
    put(shop, f"/night/jobs/{name}", {"properties": {"action": action, **properties}})


def properties(shop: Desk, name: str) -> dict[str, Any]:
    path = f"{COLLECTIONS}/night/jobs/{name}?api-version={VERSION}"
    found: dict[str, Any] = shop.ask("GET", path)["properties"]
    return found


def field(page: Page, name: str) -> Locator:
    return page.locator(f"[name='{name}']")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_shows_itself_in_light_and_dark(browser: Browser, shop: Desk, scheme: str):
    context = browser.new_context(color_scheme="dark" if scheme == "dark" else "light")
    sight = Sight(context.new_page(), shop.url)
    job = "/jobs/night/hostile"
    paths = ("/jobs", "/jobs/night", job, f"{job}/history", f"{job}/edit", f"{job}/do/delete")
    for width in (1280, 700):
        sight.page.set_viewport_size({"width": width, "height": 800})
        for path in (*paths, "/jobs/night/-/new", "/jobs/night/-/do/disable"):
            sight.go(path)
            expect(sight.page.locator("main h1, main h2").first).to_be_visible()
            wide = sight.page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0, f"{path} is wider than the window of {width}"
            assert sight.page.evaluate("window.hacked") is None, path
            assert sight.page.locator("main script, main img").count() == 0
    sight.check()
    context.close()


def test_a_job_is_written_while_its_preview_follows_what_is_typed(sight: Sight, page: Page, shop: Desk):
    sight.go("/jobs")
    page.get_by_role("link", name="New job").click()
    preview = page.locator(PREVIEW)
    expect(preview).to_contain_text("Runs immediately, then every day after each start.")

    field(page, "name").fill("orders")
    field(page, "what").select_option("task of a workflow")
    expect(field(page, "url")).to_be_hidden()
    field(page, "workflow").fill("fulfil")
    field(page, "input").fill('{"order": "by a job", "way": "goes well"}')
    field(page, "start").fill("2031-01-01")
    field(page, "frequency").select_option("every week")
    field(page, "day-monday").check()
    field(page, "hours").fill("5, 17")
    field(page, "minutes").fill("30")
    expect(preview).to_contain_text("Runs at 05:30 and 17:30 every Monday, from 2031-01-01 00:00 UTC.")
    expect(preview.locator(".instants li")).to_have_count(20)
    expect(preview.locator(".instants li").first).to_contain_text("Mon 2031-01-06 05:30:00Z")
    field(page, "hours").fill("25")
    expect(preview).to_contain_text("schedule.hours[0] is 25; write a whole number between 0 and 24")
    field(page, "hours").fill("5")
    expect(preview).to_contain_text("Runs at 05:30 every Monday")
    field(page, "reason").fill("a test")
    page.get_by_role("button", name="Create").click()

    page.wait_for_url("**/jobs/night/orders")
    expect(page.locator(".why")).to_have_text("Runs at 05:30 every Monday, from 2031-01-01 00:00 UTC.")
    made = properties(shop, "orders")
    assert made["action"]["workflow"] == {
        "name": "fulfil",
        "input": {"order": "by a job", "way": "goes well"},
    }
    assert made["recurrence"]["schedule"] == {"weekDays": ["monday"], "hours": [5], "minutes": [30]}


def test_a_job_is_changed_run_held_back_let_go_and_deleted(sight: Sight, page: Page, shop: Desk):
    put_job(shop, "worked-on", startTime="2031-01-01", recurrence=DAILY)
    sight.go("/jobs/night")
    page.get_by_role("link", name="worked-on").click()

    page.get_by_role("link", name="Edit").click()
    field(page, "hours").fill("6")
    expect(page.locator(PREVIEW)).to_contain_text("Runs at 06:00 every day")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".why")).to_contain_text("Runs at 06:00 every day")
    assert "done once, now" in confirm(page, "Run now")
    # What became of it comes by itself; and each entry leads to its task, and that to what it started.
    expect(page.locator(".state.completed")).to_be_visible()
    assert "None of its occurrences starts" in confirm(page, "Disable")
    expect(page.locator(".title .state")).to_have_text("disabled")
    assert "It runs next at 2031-01-01T06:00:00Z" in confirm(page, "Enable")
    expect(page.locator(".title .state")).to_have_text("enabled")
    expect(page.locator(".trail")).to_contain_text("a test")
    page.get_by_role("link", name="task", exact=True).click()
    expect(page.locator(".title .state")).to_have_text("processed")
    sight.go("/jobs/night/worked-on")
    assert "its secrets and its history" in confirm(page, "Delete")

    page.wait_for_url("**/jobs/night")
    expect(page.get_by_role("link", name="told")).to_be_visible()
    expect(page.get_by_role("link", name="worked-on")).to_have_count(0)


def test_a_history_is_found_by_what_is_known_of_it(sight: Sight, page: Page, shop: Desk):
    put_job(
        shop,
        "mixed",
        action={"type": "Workflow", "workflow": {"name": "nobody-has-it"}},
        startTime="2031-01-01",
    )
    sight.go("/jobs/night/mixed")
    confirm(page, "Run now")
    expect(page.locator(".state.failed").first).to_be_visible()
    page.get_by_role("link", name="all of it, and filters").click()

    field(page, "status").select_option("completed")
    page.get_by_role("button", name="Show").click()
    expect(page.locator(".empty")).to_have_text("No entry matches.")
    field(page, "status").select_option("failed")
    field(page, "action").select_option("main")
    field(page, "after").fill("1h")
    page.get_by_role("button", name="Show").click()

    expect(page.locator("tbody .state").first).to_have_text("failed")
    assert set(page.locator("tbody .state").all_inner_texts()) == {"failed"}


def test_what_is_typed_stays_when_nobody_can_say_what_would_come_of_it(sight: Sight, page: Page, shop: Desk):
    put_job(shop, "gone", startTime="2031-01-01")
    sight.go("/jobs/night/gone/edit")
    field(page, "workflow").fill("typed")
    expect(page.locator(PREVIEW)).to_contain_text("typed")

    sight.complaints.clear()
    with page.expect_response(lambda answer: answer.status == 403):
        page.evaluate("document.querySelector('input[name=proof]').value = 'not mine'")
        field(page, "workflow").fill("typed more")

    expect(field(page, "workflow")).to_have_value("typed more")
    expect(page.locator(PREVIEW)).to_contain_text("typed")
    # The browser itself complains of the answer, as it should.
    assert all("403" in complaint for complaint in sight.complaints)
    sight.complaints.clear()


def test_without_scripts_a_button_shows_the_preview(browser: Browser, shop: Desk):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{shop.url}/jobs/night/-/new")

    field(page, "name").fill("unscripted")
    field(page, "url").fill("http://example.org/x")
    field(page, "start").fill("2031-01-01")
    field(page, "frequency").select_option("every month")
    field(page, "weekdays-of-month").fill("last friday")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator(PREVIEW)).to_contain_text("on the last Friday of every month")
    page.get_by_role("button", name="Create").click()

    expect(page.locator("h1")).to_have_text("unscripted")
    context.close()


def test_whatever_others_wrote_stays_text_when_it_is_edited(sight: Sight, page: Page, shop: Desk):
    before = properties(shop, "hostile")
    sight.go("/jobs/night/hostile/edit")
    expect(field(page, "body")).to_have_value(HOSTILE)
    document = field(page, "document").input_value()

    field(page, "start").fill("2031-02-01")
    expect(page.locator(PREVIEW)).to_contain_text("2031-02-01")
    page.get_by_role("button", name="Save").click()
    page.wait_for_url("**/jobs/night/hostile")

    assert page.evaluate("window.hacked") is None
    assert json.loads(document)["action"]["errorAction"] == before["action"]["errorAction"]
    after = properties(shop, "hostile")
    assert after["action"] == before["action"]
    assert after["startTime"] == "2031-02-01T00:00:00Z"


def test_a_collection_is_held_back_and_its_jobs_say_so(sight: Sight, page: Page, shop: Desk):
    put(shop, "/held", {"location": "West US"})
    put(
        shop, "/held/jobs/j", {"properties": {"action": {"type": "Workflow", "workflow": {"name": "fulfil"}}}}
    )
    sight.go("/jobs/held")

    confirm(page, "Disable")
    expect(page.locator(".title .state")).to_have_text("disabled")
    sight.go("/jobs/held/j")
    expect(page.get_by_text("its collection is disabled")).to_be_visible()
    expect(page.get_by_role("button", name="Run now")).to_have_count(0)
    sight.go("/jobs/held")
    confirm(page, "Enable")
    confirm(page, "Delete")

    page.wait_for_url("**/jobs")
    until(lambda: page.get_by_role("link", name="held").count() == 0)
