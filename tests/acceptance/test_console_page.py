"""The program in docs/console.md does what the page says."""

from __future__ import annotations

from pathlib import Path

import aiohttp

from tests.support.pages import Page
from tests.support.serve_command import serving

PAGE = Page("console.md")


async def test_the_discount_of_the_page_is_a_dial_on_the_console(tmp_path: Path):
    [program] = PAGE.blocks("python")
    (tmp_path / "shop.py").write_text(program)
    with serving(tmp_path, "shop:app", "--roles", "api", "--store", "sqlite:///shop.db") as served:
        page = await shown(f"{served.url}/dials")
        form = await shown(f"{served.url}/dials/discount/turn")

    assert "discount" in page
    assert 'href="/dials" aria-current="page"' in page
    assert 'type="checkbox" name="on"' in form
    assert 'name="discount" min="0" max="50" step="any" value="5"' in form


async def shown(url: str) -> str:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        assert answer.status == 200
        return await answer.text()
