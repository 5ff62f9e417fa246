"""Streams and queues in the console: what is behind, what was set aside, and who may put it back."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support import console_streams_app
from tests.support.chromium import Desk, Sight, another_site, confirm, desk, until
from tests.support.console_app import HOSTILE

PAGES = ("/streams", "/streams/parcels", "/streams/parcels?group=depot", "/queues", "/queues/orders")

#: What stands where nothing is known yet.
UNKNOWN = "\N{EN DASH}"

_numbers = count(1)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A depot: a stream that is read, a queue that is worked off, a queue that nobody receives from."""
    with desk(tmp_path_factory.mktemp("depot"), console_streams_app) as served:
        for number in range(3):
            send(served, "drafts", {"draft": number})
            append(served, {"parcel": number})
        yield served


def append(shop: Desk, body: Any, *, key: str = "k") -> None:
    shop.ask("POST", f"/v1/streams/parcels/events?key={quote(key)}", body)


def send(shop: Desk, queue: str, body: Any, **more: Any) -> None:
    shop.ask("POST", f"/v1/queues/{queue}/messages", {"body": body, **more})


def set_aside(shop: Desk, reason: str, *, key: str | None = None) -> Any:
    """An event that failed once, as it lies in quarantine."""
    key = key or f"parcel-{next(_numbers)}"
    append(shop, {"parcel": HOSTILE, "fails": reason}, key=key)
    until(lambda: any(one["key"] == key for one in quarantine(shop)))
    [event] = [one for one in quarantine(shop) if one["key"] == key]
    return event


def quarantine(shop: Desk) -> list[Any]:
    items: list[Any] = shop.ask("GET", "/v1/streams/parcels/quarantine")["items"]
    return items


def dead_letter(shop: Desk, reason: str) -> Any:
    """A message that failed once, as it lies among the dead letters."""
    order = f"order-{next(_numbers)}"
    send(shop, "orders", {"order": HOSTILE, "fails": reason}, id=order, properties={"from": HOSTILE})
    until(lambda: any(one["id"] == order for one in dead(shop)))
    [letter] = [one for one in dead(shop) if one["id"] == order]
    return letter


def dead(shop: Desk) -> list[Any]:
    items: list[Any] = shop.ask("GET", "/v1/queues/orders/dead")["items"]
    return items


# How it looks


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_shows_itself_in_light_and_dark(browser: Browser, shop: Desk, scheme: str):
    event, letter = set_aside(shop, "no road"), dead_letter(shop, "no road")
    draft = shop.ask("GET", "/v1/queues/drafts/messages")["items"][0]
    context = browser.new_context(color_scheme="dark" if scheme == "dark" else "light")
    sight = Sight(context.new_page(), shop.url)
    for path in (
        *PAGES,
        f"/streams/parcels/quarantine/{event['id']}",
        f"/streams/parcels/quarantine/{event['id']}/resubmit",
        f"/queues/orders/dead/{letter['sequence']}",
        f"/queues/orders/dead/{letter['sequence']}/do/discard",
        f"/queues/drafts/messages/{draft['sequence']}",
    ):
        sight.go(path)
        expect(sight.page.locator("main h1, main h2").first).to_be_visible()
        wide = sight.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{path} is wider than the window"
    sight.check()
    context.close()


def test_a_stream_and_a_queue_are_seen_to_move_without_the_page_being_loaded_again(
    browser: Browser, shop: Desk
):
    context = browser.new_context()
    of_stream, of_queue = (Sight(context.new_page(), shop.url) for _ in range(2))
    of_stream.go("/streams/parcels")
    of_queue.go("/queues/drafts")
    for sight in (of_stream, of_queue):
        sight.page.evaluate("window.loaded = 'once'")
    kept = of_stream.page.locator(".tile", has_text="kept").locator(".big")
    ready = of_queue.page.locator(".tile", has_text="ready").locator(".big")
    events, drafts = int(kept.inner_text()), int(ready.inner_text())

    append(shop, {"parcel": "one more"})
    send(shop, "drafts", {"draft": "one more"})

    expect(kept).to_have_text(str(events + 1))
    expect(ready).to_have_text(str(drafts + 1))
    # By the second look it is known how fast it is.
    expect(of_stream.page.locator(".tile", has_text="events a second").locator(".big")).not_to_have_text(
        UNKNOWN
    )
    for sight in (of_stream, of_queue):
        assert sight.page.evaluate("window.loaded") == "once"
        sight.check()
    context.close()


def test_the_overview_leads_to_what_was_set_aside(sight: Sight, page: Page, shop: Desk):
    set_aside(shop, "no road")
    dead_letter(shop, "no road")

    for target, path in (
        ("group:parcels/depot", "/streams/parcels?group=depot"),
        ("queue:orders", "/queues/orders"),
        ("stream lag", "/streams"),
    ):
        sight.go("/")
        page.get_by_role("link", name=target, exact=True).click()
        page.wait_for_url(f"**{path}")
        expect(page.locator("main h1")).to_be_visible()


# What an operator does


def test_an_event_that_was_set_aside_is_looked_at_and_processed_again(sight: Sight, page: Page, shop: Desk):
    event = set_aside(shop, "no road leads there")
    sight.go("/streams/parcels")

    page.locator(f"#event-{event['id']}").click()
    dialog = page.locator("dialog[open]")
    expect(dialog.locator("pre")).to_contain_text("window.hacked")
    expect(dialog).to_contain_text("no road leads there")
    dialog.get_by_role("button", name="Resubmit").click()
    expect(dialog).to_contain_text("goes through all stages of group depot")
    dialog.get_by_label("Why?").fill("there is a road now")
    with page.expect_navigation():
        dialog.locator("button.strong").click()

    until(lambda: event["id"] not in [one["id"] for one in quarantine(shop)])
    [entry] = shop.ask("GET", "/v1/audit?target=stream:parcels&limit=1")["items"]
    assert (entry["action"], entry["reason"]) == (
        f"resubmit quarantined {event['id']}",
        "there is a road now",
    )


def test_dead_letters_are_put_back_and_dropped(sight: Sight, page: Page, shop: Desk):
    back, gone = dead_letter(shop, "no road"), dead_letter(shop, "nonsense")
    sight.go("/queues/orders")

    for letter, button, says in ((back, "Resubmit", "new again"), (gone, "Discard", "gone for good")):
        row = page.locator("tr", has=page.locator(f"#letter-{letter['sequence']}"))
        row.get_by_role("button", name=button).click()
        dialog = page.locator("dialog[open]")
        expect(dialog).to_contain_text(says)
        dialog.get_by_label("Why?").fill(f"because of {button}")
        with page.expect_navigation():
            dialog.locator("button.strong").click()

    assert not {back["id"], gone["id"]} & {one["id"] for one in dead(shop)}
    trail = shop.ask("GET", "/v1/audit?target=queue:orders&limit=2")["items"]
    assert [(one["action"], one["reason"]) for one in trail] == [
        (f"discard {gone['id']}", "because of Discard"),
        (f"resubmit {back['id']}", "because of Resubmit"),
    ]


def test_everything_that_was_set_aside_goes_at_once(sight: Sight, page: Page, shop: Desk):
    for _ in range(2):
        set_aside(shop, "no road")
        dead_letter(shop, "no road")

    sight.go("/streams/parcels")
    assert "1,000 events" in confirm(page, "Resubmit all")
    sight.go("/queues/orders")
    assert "as if they had never been received" in confirm(page, "Resubmit all")

    until(lambda: not quarantine(shop))
    assert not dead(shop)
    sight.go("/streams/parcels")
    expect(page.get_by_text("Nothing is set aside.")).to_be_visible()


# Attacks


def test_nothing_that_others_wrote_runs_as_a_script(sight: Sight, page: Page, shop: Desk):
    event, letter = set_aside(shop, HOSTILE, key=HOSTILE), dead_letter(shop, HOSTILE)
    send(shop, "drafts", {"draft": HOSTILE}, session="s", properties={HOSTILE: HOSTILE}, priority=10)
    draft = shop.ask("GET", "/v1/queues/drafts/messages")["items"][0]
    shop.ask("POST", "/v1/streams/parcels/quarantine/resubmit", {"reason": HOSTILE})
    until(lambda: not quarantine(shop))
    again = set_aside(shop, HOSTILE, key=f"again {HOSTILE}")
    assert event["id"] != again["id"]

    for path in (
        "/",
        *PAGES,
        "/queues/drafts",
        f"/streams/parcels/quarantine/{again['id']}",
        f"/streams/parcels/quarantine/{again['id']}/resubmit",
        f"/queues/orders/dead/{letter['sequence']}",
        f"/queues/drafts/messages/{draft['sequence']}",
        "/audit",
    ):
        sight.go(path)
        page.wait_for_load_state()
        assert page.evaluate("window.hacked") is None, path
        assert page.locator("main script, main img").count() == 0
    sight.go("/queues/orders")
    page.locator(f"#letter-{letter['sequence']}").click()
    expect(page.locator("dialog[open] pre").first).to_contain_text("window.hacked")
    assert page.evaluate("window.hacked") is None


def test_no_page_of_another_site_puts_anything_back(browser: Browser, shop: Desk):
    letter = dead_letter(shop, "no road")
    path = f"/queues/orders/dead/{letter['sequence']}/do/discard"
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{shop.url}{path}")
    proof = page.locator("input[name=proof]").first.get_attribute("value")
    attack = f"""<!doctype html><form method="post" action="{shop.url}{path}">
        <input name="proof" value="{proof}"><button>win</button></form>"""

    with another_site(attack) as site:
        page.goto(site)
        with page.expect_navigation():
            page.get_by_role("button", name="win").click()
        expect(page.get_by_role("heading", name="This is not allowed")).to_be_visible()

    assert letter["id"] in [one["id"] for one in dead(shop)]
    context.close()


def test_who_may_only_look_sees_what_was_set_aside_and_no_button(browser: Browser, tmp_path: Path):
    with desk(tmp_path, console_streams_app) as guarded:
        event, letter = set_aside(guarded, "no road"), dead_letter(guarded, "no road")
        secret = guarded.token("read")
        until(guarded.is_guarded)
        context = browser.new_context()
        sight = Sight(context.new_page(), guarded.url)
        sight.go("/streams/parcels")
        sight.page.get_by_label("Token").fill(secret)
        sight.page.get_by_role("button", name="Sign in").click()
        sight.page.wait_for_url("**/streams/parcels")
        for path in ("/streams/parcels", "/queues/orders"):
            sight.go(path)
            expect(sight.page.get_by_text("no road").first).to_be_visible()
            expect(sight.page.get_by_role("button", name="Resubmit")).to_have_count(0)
        sight.check()
        for path in (
            f"/streams/parcels/quarantine/{event['id']}/resubmit",
            f"/queues/orders/dead/{letter['sequence']}/do/discard",
        ):
            refused = sight.page.goto(f"{guarded.url}{path}")
            assert refused is not None
            assert refused.status == HTTPStatus.FORBIDDEN
        context.close()
