"""Debian's Chromium under Playwright, and a server whose console it looks at."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request as Asked
from urllib.request import urlopen

from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect, sync_playwright

from tests.support import console_app
from tests.support.serve_command import environment, serving

QUIETLY = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


#: Whatever else the machine does meanwhile, what is waited for comes within this time.
PATIENCE_SECONDS = 20.0


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser with a profile of its own. A machine without one fails the test."""
    path = shutil.which("chromium")
    assert path is not None, (
        "these tests need Chromium: apt-get install chromium (`make test` does so as root)"
    )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=QUIETLY)
        expect.set_options(timeout=PATIENCE_SECONDS * 1_000)
        yield browser
        browser.close()


class Desk:
    """A server, as a program sees it."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self._number = 0

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        asked = Asked(f"{self.url}{path}", data, {"Content-Type": "application/json"}, method=method)
        with urlopen(asked) as answer:
            return json.load(answer)

    def submit(self, way: str, **more: Any) -> str:
        """A new task that goes this way; its id."""
        self._number += 1
        order = f"order-{self._number}"
        task = {"workflow": "fulfil", "id": order, "input": {"order": order, "way": way}, **more}
        self.ask("POST", "/v1/tasks", task)
        return order

    def state(self, task_id: str) -> str:
        return str(self.ask("GET", f"/v1/tasks/{task_id}")["state"])

    def stopped(self, way: str, state: str, **more: Any) -> str:
        """A task that went this way, once it has come to ``state``."""
        order = self.submit(way, **more)
        until(lambda: self.state(order) == state)
        return order

    def token(self, role: str) -> str:
        """A new token of this role: from then on everybody has to show one."""
        made = subprocess.run(
            [sys.executable, "-m", "backstay", "tokens", "create", "--name", role, "--role", role, "--json"],
            cwd=self.folder,
            env=environment(BACKSTAY_STORE="sqlite:///desk.db"),
            capture_output=True,
            check=True,
        )
        return str(json.loads(made.stdout)["token"])

    def is_guarded(self) -> bool:
        """Whether the server has seen that there is a token."""
        try:
            self.ask("GET", "/v1/alerts")
        except HTTPError as refused:
            return refused.code == HTTPStatus.UNAUTHORIZED
        return False


@contextmanager
def desk(folder: Path, application: ModuleType = console_app) -> Iterator[Desk]:
    """A server of an application whose module stands alone."""
    assert application.__file__ is not None
    name = Path(application.__file__).stem
    shutil.copy(application.__file__, folder / f"{name}.py")
    with serving(folder, f"{name}:app", "--store", "sqlite:///desk.db") as served:
        yield Desk(served.url, folder)


class Sight:
    """A page, and everything about it that nobody should see."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.complaints: list[str] = []
        self.strangers: list[str] = []
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", self._asked)

    def go(self, path: str) -> None:
        self.page.goto(f"{self.url}{path}")

    def check(self) -> None:
        """Nothing complained, and nothing was asked of anybody else."""
        assert not self.complaints, self.complaints
        assert not self.strangers, self.strangers

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _asked(self, request: Request) -> None:
        if not request.url.startswith((self.url, "data:")):
            self.strangers.append(request.url)


def confirm(page: Page, button: str, *, reason: str = "a test", fields: dict[str, str] | None = None) -> str:
    """Press a button, answer what it asks, and confirm; what it said before."""
    page.get_by_role("button", name=button, exact=True).first.click()
    dialog = page.locator("dialog[open]")
    said = dialog.inner_text()
    for label, value in (fields or {}).items():
        dialog.get_by_label(label).fill(value)
    dialog.get_by_label("Why?").fill(reason)
    with page.expect_navigation():
        dialog.locator("button.strong").click()
    return said


@contextmanager
def another_site(text: str) -> Iterator[str]:
    """A page under another name of this machine, which for a browser is another site."""

    class Site(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_args: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://localhost:{server.server_port}/"
        server.shutdown()
        thread.join()


def until(holds: Callable[[], bool], *, within: float = PATIENCE_SECONDS) -> None:
    """Until it holds; looked at often."""
    end = time.monotonic() + within
    while not holds():
        assert time.monotonic() < end, "it does not come true"
        time.sleep(0.02)
