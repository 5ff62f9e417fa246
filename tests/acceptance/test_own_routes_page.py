"""The programs in docs/own-routes.md do what the page says, in real processes."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from backstay.api.application import SECURITY_HEADERS
from backstay.runtime.lifespans import SHUTDOWN_SECONDS, STARTUP_SECONDS
from backstay.settings import Settings
from backstay.web.bodies import BODY_SECONDS, MARGIN_BYTES
from tests.support.platform import PATIENCE_SECONDS, eventually

PAGE = Path(__file__).resolve().parents[2] / "docs" / "own-routes.md"
TEXT = PAGE.read_text("utf-8")

OPENS, CLOSES = "the shop opens", "the shop closes"
#: What ``backstay serve`` and uvicorn say once they run.
RUNNING = re.compile(r"running(?: on (?P<url>http://[\w.:]+))?.*\n", re.IGNORECASE)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def commands() -> list[list[str]]:
    """The commands of the page, each in its words; a port that is free is taken."""
    lines = [line.removeprefix("$ backstay ") for block in blocks("console") for line in block.splitlines()]
    return [[sys.executable, "-m", "backstay", *line.split(), "--port", "0"] for line in lines]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return with_programs(tmp_path)


def with_programs(folder: Path) -> Path:
    """Where the programs of the page lie, under the names that they give themselves."""
    for program in blocks("python"):
        name, _, _ = program.removeprefix("# ").partition("\n")
        (folder / name).write_text(program, "utf-8")
    return folder


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("BACKSTAY_")}


class Server:
    """A process that serves; all it says, to whomever, goes into one file."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log

    @property
    def said(self) -> str:
        return self._log.read_text("utf-8")

    def until_said(self, words: re.Pattern[str]) -> re.Match[str]:
        def look() -> re.Match[str] | None:
            found = words.search(self.said)
            assert found or self._process.poll() is None, f"it has ended:\n{self.said}"
            return found

        found = eventually(look, bool, what=f"saying {words.pattern}")
        assert found is not None
        return found

    @property
    def url(self) -> str | None:
        return self.until_said(RUNNING)["url"]

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """The status and what the JSON says; of anything else, the text. Bytes are sent as they are."""
        status, headers, content = self.exchange(method, path, body)
        return status, json.loads(content) if headers["Content-Type"].endswith("json") else content.decode()

    def exchange(
        self, method: str, path: str, body: Any = None
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        assert self.url is not None
        host = self.url.removeprefix("http://")
        with closing(http.client.HTTPConnection(host, timeout=PATIENCE_SECONDS)) as connection:
            connection.request(method, path, body if isinstance(body, bytes | None) else json.dumps(body))
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()

    def terminate(self) -> None:
        self._process.terminate()

    def ended(self) -> int:
        """Its exit code, once it has ended."""
        return self._process.wait(PATIENCE_SECONDS)


@contextmanager
def running(folder: Path, command: list[str], *, ready: re.Pattern[str] = RUNNING) -> Iterator[Server]:
    """The server, ready; it may have been ended when the context is left, and is then."""
    log = folder / f"{len(list(folder.glob('*.log')))}.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, cwd=folder, env=environment(), stdout=file, stderr=subprocess.STDOUT
        )
    with process:
        try:
            server = Server(process, log)
            server.until_said(ready)
            yield server
        finally:
            process.kill()


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The first program, for tests that place no order."""
    with running(with_programs(tmp_path_factory.mktemp("shop")), commands()[0]) as server:
        yield server


def shipped(server: Server, order: str) -> Any:
    """What the page's program says of an order, once its task is processed."""
    _, task = eventually(
        lambda: server.ask("GET", f"/api/orders/{order}"),
        lambda answer: answer[1]["state"] == "processed",
        what=f"{order} shipped",
    )
    return task["output"]


# The first program


def test_the_program_takes_orders_and_ships_them(folder: Path):
    with running(folder, commands()[0]) as server:
        placed = server.ask("PUT", "/api/orders/order-17", {"city": "Lisbon"})

        assert placed == (202, {"order": "order-17", "by": "loopback"})
        assert shipped(server, "order-17") == "order-17 is on its way to Lisbon"


def test_the_program_refuses_what_it_says_it_refuses(folder: Path):
    with running(folder, commands()[0]) as server:
        server.ask("PUT", "/api/orders/order-17", {"city": "Lisbon"})

        assert server.ask("PUT", "/api/orders/order-17", {"city": "Faro"}) == (
            409,
            {"detail": "there is an order of this name to another city"},
        )
        assert server.ask("GET", "/api/orders/order-18") == (404, {"detail": "there is no such order"})
        assert server.ask("PUT", "/api/orders/order-18", {"city": "Atlantis"}) == (
            422,
            {"detail": "nothing is shipped to Atlantis"},
        )


@pytest.mark.parametrize(
    ("path", "body", "named"),
    [
        ("order-17", b"", "truncated"),
        ("order-17", b"Lisbon", "malformed"),
        ("order-17", b'{"city": "\xff"}', "utf-8"),
        ("order-17", b"[]", "object"),
        ("order-17", b"{}", "city"),
        ("order-17", b'{"city": ["Lisbon"]}', "city"),
        ("order-17", b'{"city": "Lisbon", "street": "Rua Augusta"}', "street"),
        ("order%2017", b'{"city": "Lisbon"}', "order 17"),
    ],
)
def test_the_program_says_what_is_wrong_with_what_is_no_order(
    serving: Server, path: str, body: bytes, named: str
):
    refused, said = serving.ask("PUT", f"/api/orders/{path}", body)

    assert (refused, named in said["detail"]) == (422, True), said
    assert serving.ask("GET", "/api/orders/order-17")[0] == 404


def test_the_programs_front_page_has_the_policy_of_its_own(folder: Path):
    with running(folder, commands()[0]) as server:
        status, headers, content = server.exchange("GET", "/api/")

    assert (status, b"<h1>Shop</h1>" in content) == (200, True)
    assert headers.get_all("Content-Security-Policy") == ["default-src 'self'"]


def test_the_routes_run_apart_from_the_workflows(folder: Path):
    _, front, back = commands()
    with running(folder, front) as routes, running(folder, back) as workflows:
        routes.ask("PUT", "/api/orders/order-17", {"city": "Faro"})

        assert shipped(routes, "order-17") == "order-17 is on its way to Faro"
        assert workflows.url is None
        for server in (routes, workflows):
            server.terminate()
            assert server.ended() == 0

    assert (routes.said.count(OPENS), routes.said.count(CLOSES)) == (1, 1)
    assert (workflows.said.count(OPENS), workflows.said.count(CLOSES)) == (0, 0)


# Its lifespan

SLOW = """
import asyncio
from contextlib import asynccontextmanager
from pathlib import Path

from backstay import App
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

app = App("slow")


@app.workflow
async def greet() -> None: ...


@asynccontextmanager
async def lifespan(_app):
    await app.submit(greet, id="greeting")
    print("it starts", flush=True)
    yield
    print("it ends, and", (await app.task("greeting")).id, "is there", flush=True)


async def wait(_request):
    print("it is asked", flush=True)
    while not Path("go").exists():
        await asyncio.sleep(0.01)
    print("it answers", flush=True)
    return PlainTextResponse("done")


app.mount("/slow", Starlette(routes=[Route("/wait", wait)], lifespan=lifespan))
"""


ENDLESS = """
import asyncio
from contextlib import asynccontextmanager

from backstay import App
from starlette.applications import Starlette

app = App("endless")


@app.workflow
async def greet() -> None: ...


@asynccontextmanager
async def first(_app):
    print("the first starts", flush=True)
    yield
    print("the first ends", flush=True)


@asynccontextmanager
async def second(_app):
    print("the second starts", flush=True)
    try:
        await asyncio.Event().wait()
        yield
    finally:
        print("the second ends", flush=True)


app.mount("/first", Starlette(lifespan=first))
app.mount("/second", Starlette(lifespan=second))
"""


def test_it_starts_before_the_first_request_and_ends_after_the_last(folder: Path):
    (folder / "slow.py").write_text(SLOW)
    command = [word.replace("shop:app", "slow:app") for word in commands()[0]]
    with running(folder, command) as server, ThreadPoolExecutor() as elsewhere:
        asked = elsewhere.submit(server.ask, "GET", "/slow/wait")
        server.until_said(re.compile("it is asked"))

        server.terminate()
        server.until_said(re.compile("draining"))
        (folder / "go").touch()

        assert asked.result(PATIENCE_SECONDS) == (200, "done")
        assert server.ended() == 0

    happened = re.findall(r"^it .*|^backstay is running", server.said, re.MULTILINE)
    assert happened == [
        "it starts",
        "backstay is running",
        "it is asked",
        "it answers",
        "it ends, and greeting is there",
    ]


def test_sigterm_during_a_startup_does_not_wait_for_it_and_shuts_down_what_had_started(folder: Path):
    (folder / "endless.py").write_text(ENDLESS)
    command = [word.replace("shop:app", "endless:app") for word in commands()[0]]
    with running(folder, command, ready=re.compile("the second starts")) as server:
        server.terminate()

        assert server.ended() == 0

    happened = re.findall(r"^the .*(?:starts|ends)$|^backstay is running", server.said, re.MULTILINE)
    assert happened == [
        "the first starts",
        "the second starts",
        "the second ends",
        "the first ends",
    ]


def test_a_startup_that_fails_ends_the_process_with_a_line_that_names_the_path(folder: Path):
    program = (folder / "shop.py").read_text("utf-8")
    failing = program.replace(f'print("{OPENS}", flush=True)', 'raise RuntimeError("the shelf is empty")')
    assert failing != program
    (folder / "shop.py").write_text(failing, "utf-8")

    done = subprocess.run(
        commands()[0],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )

    assert done.returncode == 1
    *log, last = done.stderr.strip().splitlines()
    assert last == "Error: the application mounted at '/api' did not start; the log says why"
    assert "RuntimeError: the shelf is empty" in log
    assert "backstay is running" not in done.stderr


# The second program


def test_a_web_application_of_its_own_submits_to_the_processes_that_run_the_workflows(folder: Path):
    _, front, back = commands()
    own = [sys.executable, "-m", "uvicorn", "web:web", "--port", "0"]
    with running(folder, own) as web, running(folder, back), running(folder, front) as routes:
        placed = web.ask("PUT", "/orders/order-17")

        assert placed == (202, {"order": "order-17"})
        assert shipped(routes, "order-17") == "order-17 is on its way to Lisbon"


# Its tables


@pytest.mark.parametrize(("name", "value"), sorted(SECURITY_HEADERS.items()))
def test_the_page_names_every_header_that_is_set(name: str, value: str):
    assert f"| `{name}` | `{value}` |" in TEXT


def test_the_page_names_the_limits_that_hold():
    settings = Settings()
    facts = [
        f"`payload_bytes_max` ({settings.payload_bytes_max // 1024**2} MiB)",
        f"and {MARGIN_BYTES // 1024} KiB more",
        f"{BODY_SECONDS:.0f} s for the body to arrive",
        f"`backlog_limit` ({settings.backlog_limit:,})",
        f"`connections_max` ({settings.connections_max:,})",
        f"`drain`\n({settings.drain.total_seconds():.0f} s)",
        f"Each startup may take {STARTUP_SECONDS:.0f} s",
        f"all shutdowns\ntogether may take {SHUTDOWN_SECONDS:.0f} s",
    ]

    assert [fact for fact in facts if fact not in TEXT] == []
