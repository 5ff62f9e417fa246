"""The browser that all these tests share, and a page of the server that a test calls its ``shop``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.support.chromium import Desk, Sight, chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def sight(browser: Browser, shop: Desk) -> Iterator[Sight]:
    """A page that is checked for complaints and strangers when the test is over."""
    context = browser.new_context()
    sight = Sight(context.new_page(), shop.url)
    yield sight
    sight.check()
    context.close()


@pytest.fixture
def page(sight: Sight) -> Page:
    return sight.page
