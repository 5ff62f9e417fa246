"""Take the pictures of the console that are in docs: of a shop that has been at work for three minutes.

It needs Chromium, as the tests of the console do (`tools/chromium.py` installs it), and the fonts of the
machine. The server is its own, over a store in a temporary folder. Times differ from run to run, what is
ordered does not; a machine that is busy with something else shows in the bars of the tasks.
"""

from __future__ import annotations

import math
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from random import Random
from typing import Any, Final, Literal

from playwright.sync_api import Browser, Locator, Page, expect

from backstay.clock import SystemClock
from tests.support.arm import VERSION
from tests.support.chromium import Desk, chromium, desk, until
from tools import pictured_shop

DOCS: Final = Path(__file__).resolve().parents[1] / "docs"
WIDTH: Final = 1280
HIGHEST: Final = 1000
HIGH: Final = 960
LOW: Final = 700

#: So many points the charts get, one every ten seconds; a slow machine is given twice that long.
SAMPLES: Final = 16
SECONDS: Final = 20 * SAMPLES

#: Orders swell and ebb; on the whole they come faster than the archive takes them.
ORDERS_A_SECOND: Final = 5.0
SWELL: Final = 3.0
PERIOD_SECONDS: Final = 110.0
TICK_SECONDS: Final = 0.25

FIRST: Final = 2041
ITEMS: Final = ("lamp", "desk", "chair", "shelf", "rug", "clock")
CITIES: Final = (*("Lisbon", "Porto", "Braga", "Faro", "Évora") * 7, "Atlantis")
WAYS: Final = (*("truck",) * 29, "boat")

COLLECTION: Final = (
    "/subscriptions/default/resourceGroups/default/providers/Microsoft.Scheduler/jobCollections/billing"
)
JOBS: Final = {
    "invoices": {"frequency": "day", "schedule": {"hours": [5], "minutes": [0]}},
    "ledger": {"frequency": "month", "schedule": {"monthDays": [-1], "hours": [22], "minutes": [30]}},
    "rates": {"frequency": "hour", "interval": 4},
}

#: What is written of a new job beside its fields.
DOCUMENT: Final = """\
{
  "action": {
    "request": {"headers": {"Content-Type": "application/json"}},
    "retryPolicy": {"retryType": "Fixed", "retryInterval": "PT1M", "retryCount": 2}
  },
  "overlap": "queue"
}
"""


class Customers:
    """They order, at a rate that swells and ebbs; in the same way each time."""

    def __init__(self, shop: Desk) -> None:
        self._shop = shop
        self._chance = Random(FIRST)
        self._number = FIRST
        self._went = threading.Event()

    def order(self, **more: Any) -> str:
        """One more order; its id."""
        order = f"order-{self._number}"
        self._number += 1
        self._append(
            order,
            {
                "customer": f"c{self._chance.randrange(10, 100)}",
                "items": self._chance.sample(ITEMS, 3),
                "city": self._chance.choice(CITIES),
                "by": self._chance.choice(WAYS),
                **more,
            },
        )
        return order

    def order_without_a_name(self) -> None:
        """Nobody can be written to about it, so it is set aside."""
        self._append("order-2040", {"items": ["lamp"], "city": "Porto", "by": "truck"})

    @contextmanager
    def at_it(self) -> Iterator[None]:
        """They order as long as the context is open."""
        thread = threading.Thread(target=self._go_on)
        thread.start()
        try:
            yield
        finally:
            self._went.set()
            thread.join()

    def _append(self, order: str, body: Any) -> None:
        self._shop.ask("POST", f"/v1/streams/orders/events?key={order}", body)

    def _go_on(self) -> None:
        due, ticks = 0.0, 0
        while not self._went.wait(TICK_SECONDS):
            ticks += 1
            due += TICK_SECONDS * _rate(ticks * TICK_SECONDS)
            while due >= 1:
                due -= 1
                self.order()


def _rate(seconds: float) -> float:
    return ORDERS_A_SECOND + SWELL * math.sin(2 * math.pi * seconds / PERIOD_SECONDS)


@dataclass(frozen=True)
class Photographer:
    """Looks at pages of one server, and keeps what is seen in docs."""

    browser: Browser
    url: str

    def take(
        self,
        name: str,
        path: str,
        *,
        scheme: Literal["light", "dark"] = "light",
        height: int = HIGH,
        ready: Callable[[Page], None],
    ) -> None:
        """The picture ``name`` of a page, once ``ready`` has done with it what is to be seen."""
        with self._at(path, scheme=scheme, height=height) as page:
            ready(page)
            page.screenshot(path=DOCS / f"{name}.png")
        print(f"docs/{name}.png")

    @contextmanager
    def _at(self, path: str, *, scheme: Literal["light", "dark"], height: int) -> Iterator[Page]:
        context = self.browser.new_context(
            color_scheme=scheme, viewport={"width": WIDTH, "height": height}, reduced_motion="reduce"
        )
        page = context.new_page()
        page.goto(f"{self.url}{path}")
        yield page
        context.close()


def main() -> int:
    """Take them all; those of what moves while customers are at it."""
    with (
        tempfile.TemporaryDirectory() as folder,
        desk(Path(folder), pictured_shop) as shop,
        chromium() as browser,
    ):
        customers = Customers(shop)
        customers.order_without_a_name()
        first = customers.order(city="Lisbon", by="truck")
        until(lambda: _states(shop, first) == ["processed"])
        lost = customers.order(city="Atlantis", by="truck")
        stuck = customers.order(city="Porto", by="drones")
        until(lambda: _states(shop, lost, stuck) == ["undone", "error"])
        _fill_with_jobs(shop)
        photographer = Photographer(browser, shop.url)
        with customers.at_it():
            photographer.take("console-overview", "/", height=HIGHEST, ready=_sampled)
            photographer.take("console-streams", "/streams/orders", ready=_paced)
        photographer.take("console-task", f"/tasks/{lost}", scheme="dark", height=LOW, ready=_undone)
        photographer.take("console-question", f"/tasks/{stuck}", scheme="dark", height=LOW, ready=_asked)
        photographer.take("console-job", "/jobs/billing/-/new", ready=_written)
    return 0


def _states(shop: Desk, *tasks: str) -> list[str]:
    known = {one["id"]: one["state"] for one in shop.ask("GET", "/v1/tasks")["items"]}
    return [known.get(task, "unknown") for task in tasks]


def _fill_with_jobs(shop: Desk) -> None:
    shop.ask("PUT", f"{COLLECTION}?api-version={VERSION}", {"location": "West US", "properties": {}})
    for name, recurrence in JOBS.items():
        action = {"type": "Http", "request": {"uri": f"https://billing.example.org/{name}", "method": "POST"}}
        shop.ask(
            "PUT",
            f"{COLLECTION}/jobs/{name}?api-version={VERSION}",
            {"properties": {"action": action, "startTime": f"{_in_months(1)}", "recurrence": recurrence}},
        )


def _in_months(number: int) -> date:
    """The first day of a month to come."""
    months = _today().month - 1 + number
    return date(_today().year + months // 12, months % 12 + 1, 1)


def _today() -> date:
    return SystemClock().now().date()


# What is to be seen on each page


def _sampled(page: Page) -> None:
    seen: set[str | None] = set()
    for _second in range(SECONDS):
        seen.add(page.locator("#sample").get_attribute("data-sample"))
        if len(seen) > SAMPLES:
            return
        page.wait_for_timeout(1_000)
    raise AssertionError(f"there were {len(seen)} samples in {SECONDS} s; {SAMPLES} were awaited")


def _paced(page: Page) -> None:
    rate = page.locator(".tile", has_text="events a second").locator(".big")
    expect(rate).not_to_have_text("\N{EN DASH}")


def _undone(page: Page) -> None:
    expect(page.locator(".title .state")).to_have_text("undone")


def _asked(page: Page) -> None:
    page.get_by_role("button", name="Undo", exact=True).click()
    expect(page.locator("dialog[open]")).to_contain_text("is undone, in this order")


def _written(page: Page) -> None:
    def field(name: str) -> Locator:
        return page.locator(f"[name='{name}']")

    field("name").fill("reminders")
    field("method").select_option("POST")
    field("url").fill("https://billing.example.org/reminders")
    field("body").fill('{"overdue": "14d"}')
    field("frequency").select_option("every week")
    field("interval").fill("1")
    field("start").fill(f"{_in_months(1)}")
    field("until").fill(f"{_in_months(5)}")
    field("hours").fill("7, 15")
    field("minutes").fill("30")
    field("day-monday").check()
    field("day-thursday").check()
    field("document").fill(DOCUMENT)
    expect(page.locator("#preview")).to_contain_text("Runs at 07:30 and 15:30 every Monday and Thursday")
    expect(page.locator("#preview")).to_contain_text("2 times, 1m apart")
    field("document").blur()


if __name__ == "__main__":
    sys.exit(main())
