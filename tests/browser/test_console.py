"""The console in a browser: every page in light and dark, every operator action, keys, and attacks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.chromium import Desk, Sight, another_site, confirm, desk, until
from tests.support.console_app import HOSTILE

PAGES = ("/", "/tasks", "/agents", "/supervisor", "/audit")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A server under a little load: tasks that go well, wait and fail, while others look at it."""
    with desk(tmp_path_factory.mktemp("desk")) as served:
        for way in ("goes well", "fails", "broken", "waits", "sleeps") * 4:
            served.submit(way, attributes={"customer": "c9"})
        yield served


# How it looks


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_shows_itself_in_light_and_dark(browser: Browser, shop: Desk, scheme: str):
    task = shop.stopped("fails", "undone")
    context = browser.new_context(color_scheme="dark" if scheme == "dark" else "light")
    sight = Sight(context.new_page(), shop.url)
    grounds = set()
    for path in (*PAGES, f"/tasks/{task}", f"/tasks/{task}/steps/charge:1", "/tasks?state=error"):
        sight.go(path)
        expect(sight.page.locator("main h1, main h2").first).to_be_visible()
        wide = sight.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{path} is wider than the window"
        grounds.add(sight.page.evaluate("getComputedStyle(document.documentElement).backgroundColor"))
    sight.check()
    context.close()

    assert len(grounds) == 1
    [ground] = grounds
    assert (int(ground.removeprefix("rgb(").split(",")[0]) < 128) == (scheme == "dark")


def test_the_overview_draws_the_last_hour_and_goes_on_drawing(sight: Sight, page: Page, shop: Desk):
    sight.go("/")

    expect(page.locator(".chart canvas")).to_have_count(3)
    expect(page.get_by_role("heading", name="Needs a person")).to_be_visible()
    # A sample comes every ten seconds, by the stream and without the page being loaded again.
    sampled = "JSON.parse(document.getElementById('sample').dataset.sample).at.length > 0"
    until(lambda: bool(page.evaluate(sampled)), within=40)
    expect(page.locator(".tile .big").first).not_to_have_text("\N{EN DASH}")


def test_tasks_are_found_by_what_is_known_of_them(sight: Sight, page: Page, shop: Desk):
    wanted = shop.stopped("broken", "error", attributes={"customer": "rare"})

    for field, value in (("Attribute", "customer:rare"), ("Id", wanted)):
        sight.go("/tasks")
        page.get_by_label(field).fill(value)
        page.get_by_role("button", name="Show").click()
        expect(page.get_by_text(wanted, exact=True).first).to_be_visible()
    sight.go("/tasks")
    page.get_by_label("Error says").fill("WINDOW.hacked")
    page.keyboard.press("Enter")
    expect(page.locator("tbody .state").first).to_have_text("error")
    assert set(page.locator("tbody .state").all_inner_texts()) == {"error"}


def test_a_task_is_seen_to_move_without_the_page_being_loaded_again(sight: Sight, page: Page, shop: Desk):
    task = shop.stopped("waits", "waiting")
    sight.go(f"/tasks/{task}")
    page.evaluate("window.loaded = 'once'")

    shop.ask("POST", f"/v1/tasks/{task}/signal/approval", "granted")

    expect(page.locator(".title .state")).to_have_text("processed")
    expect(page.locator(".values")).to_contain_text("granted")
    assert page.evaluate("window.loaded") == "once"


# What an operator does


@pytest.mark.parametrize(
    "move",
    [
        ("broken", "error", "Resubmit", "what is completed stays", "error"),
        ("broken", "error", "Restart", "happens once more", "error"),
        ("broken", "error", "Undo", "charge:1", "undone"),
        ("goes well", "processed", "Undo", "charge:1", "undone"),
        ("sleeps", "waiting", "Cancel", "stays as it is", "cancelled"),
        ("waits", "waiting", "Signal approval", "approval", "processed"),
        ("undo fails", "undo_failed", "Resubmit", "charge:1", "undo_failed"),
        ("undo fails", "undo_failed", "Confirm undo of charge:1", "counts as undone", "undone"),
        ("by hand", "undoing", "Confirm undo of sign:1", "counts as undone", "undone"),
    ],
    ids=lambda move: f"{move[2]} after {move[0]}",
)
def test_each_move_says_what_it_will_do_and_does_it(
    sight: Sight, page: Page, shop: Desk, move: tuple[str, ...]
):
    way, stops, button, says, comes_to = move
    task = shop.stopped(way, stops)
    sight.go(f"/tasks/{task}")

    said = confirm(page, button, reason=f"because of {button}")

    assert says in said
    until(lambda: shop.state(task) == comes_to)
    trail = shop.ask("GET", f"/v1/audit?target=task:{task}")["items"]
    assert [(entry["who"], entry["reason"]) for entry in trail] == [("loopback", f"because of {button}")]
    expect(page.locator(".trail")).to_contain_text(f"because of {button}")


def test_a_step_is_completed_by_hand_with_the_output_that_is_given(sight: Sight, page: Page, shop: Desk):
    shop.ask("POST", "/v1/agents/carrier/pause", {})
    try:
        task = shop.submit("goes well")
        sight.go(f"/tasks/{task}")
        button = page.get_by_role("button", name="Complete ship:1")
        expect(button).to_be_visible()
        confirm(page, "Complete ship:1", fields={"Output, as JSON": '"by bicycle"'})
        until(lambda: shop.state(task) == "processed")
    finally:
        shop.ask("POST", "/v1/agents/carrier/resume", {})

    expect(page.locator(".values")).to_contain_text("by bicycle")


def test_agents_and_workflows_are_held_back_and_let_go(sight: Sight, page: Page, shop: Desk):
    sight.go("/agents")
    bank = page.locator("tr", has=page.get_by_role("rowheader", name="bank"))
    for button in ("Hold open", "Hold closed", "Leave to itself", "Pause", "Resume"):
        bank.get_by_role("button", name=button).click()
        with page.expect_navigation():
            page.locator("dialog[open] button.strong").click()
    workflow = page.locator("tr", has=page.get_by_role("rowheader", name="fulfil"))
    for button in ("Pause", "Resume"):
        workflow.get_by_role("button", name=button).click()
        with page.expect_navigation():
            page.locator("dialog[open] button.strong").click()

    done = [entry["action"] for entry in shop.ask("GET", "/v1/audit?target=agent:bank")["items"]]
    assert done[:5] == ["resume", "pause", "breaker auto", "breaker closed", "breaker open"]
    done = [entry["action"] for entry in shop.ask("GET", "/v1/audit?target=workflow:fulfil")["items"]]
    assert done[:2] == ["resume", "pause"]


def test_alerts_are_taken_up_and_a_round_is_run(sight: Sight, page: Page, shop: Desk):
    shop.stopped("broken", "error")
    open_before = len(shop.ask("GET", "/v1/alerts?open=true&limit=1000")["items"])
    sight.go("/supervisor")

    confirm(page, "Acknowledge")
    confirm(page, "Run a round")

    assert len(shop.ask("GET", "/v1/alerts?open=true&limit=1000")["items"]) == open_before - 1
    expect(page.get_by_text("Leader")).to_be_visible()


def test_a_question_can_be_left_without_anything_being_done(sight: Sight, page: Page, shop: Desk):
    task = shop.stopped("broken", "error")
    sight.go(f"/tasks/{task}")

    page.get_by_role("button", name="Undo").click()
    page.get_by_text("Leave it").click()
    expect(page.locator("dialog[open]")).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("dialog[open]")).to_have_count(1)
    page.keyboard.press("Escape")

    expect(page.locator("dialog[open]")).to_have_count(0)
    assert shop.state(task) == "error"


def test_a_task_is_resubmitted_by_keys_alone(sight: Sight, page: Page, shop: Desk):
    task = shop.stopped("broken", "error", attributes={"customer": "keys"})
    sight.go("/")

    page.keyboard.press("/")
    page.wait_for_url("**/tasks")
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("/")
    expect(page.get_by_label("Workflow")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.type("customer:keys")
    page.keyboard.press("Enter")
    page.wait_for_url("**customer%3Akeys**")
    press_until(page, "Tab", lambda: focused(page) == task)
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/tasks/{task}")
    press_until(page, "Tab", lambda: focused(page) == "Resubmit")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid", "it shows"
    page.keyboard.press("Space")
    expect(page.get_by_label("Why?")).to_be_focused()
    page.keyboard.type("by keys")
    with page.expect_navigation():
        page.keyboard.press("Enter")

    [entry] = shop.ask("GET", f"/v1/audit?target=task:{task}")["items"]
    assert (entry["action"], entry["reason"]) == ("resubmit from failed", "by keys")


def focused(page: Page) -> str:
    return str(page.evaluate("document.activeElement.textContent.trim()"))


def press_until(page: Page, key: str, holds) -> None:
    for _ in range(60):
        if holds():
            return
        page.keyboard.press(key)
    raise AssertionError(f"{key} does not lead there; it led to {focused(page)!r}")


# Attacks


def test_nothing_that_others_wrote_runs_as_a_script(sight: Sight, page: Page, shop: Desk):
    task = shop.submit(
        "broken", attributes={"customer": HOSTILE}, input={"order": HOSTILE, "way": "broken"}, id="hostile"
    )
    until(lambda: shop.state("hostile") == "error")
    shop.ask("POST", "/v1/tasks/hostile/resubmit", {"reason": HOSTILE})
    until(lambda: shop.state("hostile") == "error")
    assert task

    for path in (*PAGES, "/tasks/hostile", "/tasks/hostile/steps/charge:1", "/tasks/hostile/do/undo"):
        sight.go(path)
        page.wait_for_load_state()
        assert page.evaluate("window.hacked") is None, path
        assert page.locator("main script, main img").count() == 0
    sight.go("/tasks/hostile")
    page.get_by_role("link", name="charge:1").click()
    expect(page.locator("dialog[open] pre").first).to_contain_text("window.hacked")
    assert page.evaluate("window.hacked") is None


def test_no_page_of_another_site_frames_or_changes_anything(browser: Browser, shop: Desk):
    task = shop.stopped("broken", "error")
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{shop.url}/tasks/{task}/do/undo")
    proof = page.locator("input[name=proof]").first.get_attribute("value")
    attack = f"""<!doctype html><iframe src="{shop.url}/tasks/{task}/do/undo"></iframe>
        <form method="post" action="{shop.url}/tasks/{task}/do/undo">
        <input name="proof" value="{proof}"><button>win</button></form>"""

    with another_site(attack) as site:
        page.goto(site)
        page.wait_for_function("frames.length === 1")
        framed = [frame.url for frame in page.frames[1:]]
        with page.expect_navigation():
            page.get_by_role("button", name="win").click()

        assert all(url.startswith("chrome-error:") for url in framed), framed
        expect(page.get_by_role("heading", name="This is not allowed")).to_be_visible()
    assert shop.state(task) == "error"
    context.close()


def test_with_tokens_one_signs_in_and_does_what_the_role_allows(browser: Browser, tmp_path: Path):
    with desk(tmp_path) as guarded:
        task = guarded.stopped("broken", "error")
        tokens = {role: guarded.token(role) for role in ("read", "operate")}
        # The server has seen a store without tokens a moment ago: a page of that time would lose its stream.
        until(guarded.is_guarded)
        for role, buttons in (("read", 0), ("operate", 1)):
            context = browser.new_context()
            sight = Sight(context.new_page(), guarded.url)
            sight.go(f"/tasks/{task}")
            sight.page.get_by_label("Token").fill(tokens[role])
            sight.page.get_by_role("button", name="Sign in").click()
            sight.page.wait_for_url(f"**/tasks/{task}")
            expect(sight.page.get_by_role("button", name="Resubmit")).to_have_count(buttons)
            assert sight.page.evaluate("document.cookie") == "", "no script reads the session"
            sight.page.get_by_role("button", name="Sign out").click()
            sight.page.wait_for_url("**/sign-in")
            sight.check()
            context.close()
