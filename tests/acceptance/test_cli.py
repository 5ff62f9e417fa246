"""The command line as it is used: real processes on a real store."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from tests.support.databases import PostgresDatabase
from tests.support.postgres import HOST

SHOP = """
import asyncio
import sys

from backstay import App, Permanent, wait_for

app = App("shop")
bank = app.agent("bank")
not_an_app = 7


@bank.step
async def charge(order: str, cents: int) -> str:
    if cents > 1000:
        raise Permanent("over the \\x1b[31m limit")
    return f"paid {cents}"


@charge.undo
async def refund(order: str, cents: int) -> None: ...


@app.workflow
async def pay(order: str, cents: int) -> str:
    return await charge(order, cents)


@app.workflow
async def approve() -> str:
    return await wait_for("approval")


@app.workflow(version=3)
async def greet(name: str) -> str:
    return f"hello {name}"


async def submit_many(ids: list[str]) -> None:
    async with app.client() as client:
        for id in ids:
            await client.submit(greet, "you", id=id)


async def main() -> None:
    async with app.run():
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
"""

TASK_FIELDS = [
    "id", "workflow", "version", "state", "input", "output", "error", "complete_by", "hard_end",
    "locked_by", "failure_count", "attributes", "created_at", "updated_at",
]  # fmt: skip
PAID = '{"order": "o1", "cents": 500}'
TOO_MUCH = '{"order": "o2", "cents": 5000}'
PAY = ["submit", "shop:app", "pay"]


class Shell:
    """A folder with an application in it, and somebody who types commands there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("BACKSTAY_") and name not in {"COLUMNS", "FORCE_COLOR", "PYTHONPATH"}
        }
        self.environment["BACKSTAY_STORE"] = "sqlite:///shop.db"
        (folder / "shop.py").write_text(SHOP, encoding="utf-8")

    def popen(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            **options,
        )

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return self.popen("-m", "backstay", *arguments, stderr=subprocess.PIPE)

    def type(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        with self.start(*arguments) as process:
            out, err = process.communicate(stdin, timeout=30)
        assert "Traceback" not in err
        assert "\x1b" not in out + err
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def ok(self, *arguments: str, stdin: str = "") -> str:
        done = self.type(*arguments, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def submit_many(self, ids: list[str]) -> None:
        """By a program, which is quicker than a command for each."""
        with self.popen("-c", f"import asyncio, shop; asyncio.run(shop.submit_many({ids}))") as process:
            assert process.wait(30) == 0

    def json(self, *arguments: str) -> Any:
        return json.loads(self.ok(*arguments, "--json"))

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        """The application runs in a process of its own."""
        with self.popen("shop.py") as process:
            assert process.stdout is not None
            assert process.stdin is not None
            assert process.stdout.readline() == "ready\n"
            yield
            process.stdin.close()
            assert process.wait(30) == 0


class Terminal:
    """A command that has a terminal to itself, and somebody in front of it."""

    def __init__(self, shell: Shell, *arguments: str) -> None:
        import termios  # Not there on Windows.

        self._master, slave = os.openpty()
        termios.tcsetwinsize(slave, (40, 120))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "backstay", *arguments],
            cwd=shell.folder,
            env={**shell.environment, "TERM": "xterm"},
            stdin=slave,
            stdout=slave,
            stderr=slave,
        )
        os.close(slave)
        self.code: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if error[0] is not None:
            self._process.kill()
        # What nobody reads would keep the command from ending.
        with contextlib.suppress(OSError):
            while os.read(self._master, 4_096):
                pass
        self.code = self._process.wait(30)
        os.close(self._master)

    def read_until(self, words: str) -> str:
        """All that is shown up to these words, without what colours it and moves the cursor."""
        seen = b""
        while words not in (shown := re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode(errors="replace"))):
            try:
                seen += os.read(self._master, 4_096)
            except OSError as error:
                raise AssertionError(f"{words!r} was never shown, only {shown}") from error
        return shown

    def press(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


# Submitting


def test_a_task_is_recorded_although_nobody_is_there_to_run_it(shell: Shell):
    assert shell.ok("submit", "shop:app", "pay", PAID, "--id", "o1") == "submitted o1\n"

    task = shell.json("tasks", "show", "o1")
    assert list(task) == TASK_FIELDS
    assert (task["state"], task["workflow"], task["version"]) == ("pending", "pay", 1)
    assert task["input"] == {"order": "o1", "cents": 500}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", task["created_at"])
    assert "no scheduler is running" in shell.ok("tasks", "why", "o1")


def test_waiting_prints_what_the_workflow_returned_in_another_process(shell: Shell):
    with shell.serving():
        done = shell.type("submit", "shop:app", "pay", PAID, "--id", "o1", "--wait")

    assert (done.returncode, done.stdout, done.stderr) == (0, '"paid 500"\n', "submitted o1\n")


def test_waiting_with_json_prints_the_whole_task(shell: Shell):
    with shell.serving():
        task = shell.json("submit", "shop:app", "pay", PAID, "--wait", "--attribute", "customer=c9")

    assert list(task) == TASK_FIELDS
    assert (task["state"], task["output"]) == ("processed", "paid 500")
    assert task["attributes"] == {"customer": "c9"}


def test_a_task_that_fails_exits_with_1_and_says_state_step_and_error_on_one_line(shell: Shell):
    with shell.serving():
        done = shell.type("submit", "shop:app", "pay", TOO_MUCH, "--id", "o2", "--wait", "--json")

    assert done.returncode == 1
    assert json.loads(done.stdout)["error"] == {
        "type": "Permanent",
        "message": "over the \x1b[31m limit",
        "step": "charge:1",
        "permanent": True,
    }
    assert done.stderr.splitlines() == [
        "submitted o2",
        r"Error: the task is undone at step charge:1: Permanent: over the \x1b[31m limit",
    ]


def test_waiting_says_once_that_nobody_runs_the_workflow_and_goes_on_waiting(shell: Shell):
    with shell.start("submit", "shop:app", "greet", '"you"', "--id", "g1", "--wait") as waiting:
        assert waiting.stderr is not None
        assert waiting.stderr.readline() == "submitted g1\n"
        assert "no live scheduler has workflow 'greet' version 3" in waiting.stderr.readline()
        with shell.serving():
            out, err = waiting.communicate(timeout=30)

    assert (waiting.returncode, out, err) == (0, '"hello you"\n', "")


@pytest.mark.skipif(os.name == "nt", reason="Ctrl-C is a signal here")
def test_an_interrupt_stops_the_waiting_and_not_the_task(shell: Shell):
    with shell.start("submit", "shop:app", "pay", PAID, "--id", "o1", "--wait") as waiting:
        assert waiting.stderr is not None
        assert waiting.stderr.readline() == "submitted o1\n"
        waiting.send_signal(signal.SIGINT)
        _, err = waiting.communicate(timeout=30)

    assert waiting.returncode == 130
    assert "Traceback" not in err
    assert shell.json("tasks", "show", "o1")["state"] == "pending"


def test_the_same_submission_changes_nothing_and_another_under_its_id_is_refused(shell: Shell):
    shell.ok("submit", "shop:app", "pay", PAID, "--id", "o1")

    assert "o1 exists already: it is pending" in shell.ok("submit", "shop:app", "pay", PAID, "--id", "o1")
    other = shell.type("submit", "shop:app", "pay", TOO_MUCH, "--id", "o1")
    assert other.returncode == 1
    assert other.stderr.startswith("Error: task 'o1' exists already with other content")
    assert len(shell.json("tasks", "ls")["items"]) == 1


def test_the_input_may_come_from_standard_input(shell: Shell):
    shell.ok("submit", "shop:app", "pay", "-", "--id", "o1", stdin=PAID)

    assert shell.json("tasks", "show", "o1")["input"] == json.loads(PAID)


def test_a_hard_end_is_a_duration_or_an_instant(shell: Shell):
    shell.ok("submit", "shop:app", "pay", PAID, "--id", "soon", "--complete-by", "30s")
    shell.ok("submit", "shop:app", "pay", PAID, "--id", "late", "--complete-by", "2099-01-31T12:00:00+01:00")

    assert shell.json("tasks", "show", "soon")["hard_end"] is not None
    assert shell.json("tasks", "show", "late")["hard_end"] == "2099-01-31T11:00:00Z"


def test_what_a_module_prints_while_it_is_imported_stays_out_of_the_json(shell: Shell):
    (shell.folder / "loud.py").write_text("print('hello')\nfrom shop import app\n", encoding="utf-8")

    assert shell.json("submit", "loud:app", "pay", PAID, "--id", "o1")["id"] == "o1"


# Looking


def test_a_list_is_filtered_by_state_workflow_and_attribute(shell: Shell):
    with shell.serving():
        shell.type("submit", "shop:app", "pay", PAID, "--id", "good", "--wait")
        shell.type("submit", "shop:app", "pay", TOO_MUCH, "--id", "bad", "--wait")
    shell.ok("submit", "shop:app", "greet", '"you"', "--id", "new", "--attribute", "for=a:b")

    def ids(*options: str) -> list[str]:
        return [item["id"] for item in shell.json("tasks", "ls", *options)["items"]]

    assert ids() == ["new", "bad", "good"]
    assert ids("--state", "processed", "--state", "undone") == ["bad", "good"]
    assert ids("--workflow", "greet") == ["new"]
    assert ids("--attribute", "for:a:b") == ["new"]
    assert ids("--attribute", "for:a") == []


def test_pages_follow_one_another_without_gap_or_overlap(shell: Shell):
    shell.submit_many(["t0", "t1", "t2", "t3", "t4"])

    pages: list[list[str]] = []
    cursor: list[str] = []
    while len(pages) < 5:
        page = shell.json("tasks", "ls", "--limit", "2", *cursor)
        assert set(page) == {"items", "next"}
        pages.append([item["id"] for item in page["items"]])
        if page["next"] is None:
            break
        cursor = ["--cursor", page["next"]]

    assert pages == [["t4", "t3"], ["t2", "t1"], ["t0"]]


def test_listed_tasks_are_tasks_without_their_values(shell: Shell):
    shell.ok("submit", "shop:app", "greet", '"you"')

    [item] = shell.json("tasks", "ls")["items"]
    assert list(item) == [name for name in TASK_FIELDS if name not in {"input", "output"}]


def test_people_get_tables(shell: Shell):
    with shell.serving():
        shell.type("submit", "shop:app", "pay", PAID, "--id", "good", "--wait")
        shell.type("submit", "shop:app", "pay", TOO_MUCH, "--id", "bad", "--wait")

    rows = [line.split()[:3] for line in shell.ok("tasks", "ls").splitlines() if "pay" in line]
    assert rows == [["undone", "bad", "pay"], ["processed", "good", "pay"]]
    shown = shell.ok("tasks", "show", "good")
    assert re.search(r"output +\"paid 500\"", shown)
    assert re.search(r"charge:1 +completed +bank +1 ", shown)
    assert r"over the \x1b[31m limit" in shell.ok("tasks", "show", "bad")
    cut = shell.type("tasks", "ls", "--limit", "1")
    assert "--cursor " in cut.stderr


def test_why_says_what_a_task_waits_for_and_what_would_move_it(shell: Shell):
    with shell.serving():
        shell.ok("submit", "shop:app", "approve", "null", "--id", "a1")
        while "approval" not in shell.json("tasks", "why", "a1")["reason"]:
            pass
        answer = shell.json("tasks", "why", "a1")
        told = shell.ok("tasks", "why", "a1")

    assert set(answer) == {"reason", "command"}
    assert answer["command"] == "backstay tasks signal a1 approval JSON"
    assert told == f"{answer['reason']}\n  {answer['command']}\n"


@pytest.mark.parametrize("command", [["ls"], ["show", "o1"], ["why", "o1"], ["ls", "--json"]])
def test_looking_for_a_store_that_is_not_there_creates_none(shell: Shell, command: list[str]):
    before = sorted(shell.folder.iterdir())
    done = shell.type("tasks", *command)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: there is no store in shop.db; name another with --store")
    assert sorted(shell.folder.iterdir()) == before


def test_the_store_is_an_option_or_a_variable_or_in_a_file(shell: Shell):
    (shell.folder / "backstay.toml").write_text('store = "sqlite:///file.db"\n', encoding="utf-8")
    del shell.environment["BACKSTAY_STORE"]
    shell.ok("submit", "shop:app", "greet", '"you"', "--id", "in-file")
    shell.environment["BACKSTAY_STORE"] = "sqlite:///variable.db"
    shell.ok("submit", "shop:app", "greet", '"you"', "--id", "in-variable")
    option = "--store=sqlite:///option.db"
    shell.ok("submit", "shop:app", "greet", '"you"', "--id", "in-option", option)

    assert [item["id"] for item in shell.json("tasks", "ls")["items"]] == ["in-variable"]
    assert [item["id"] for item in shell.json("tasks", "ls", option)["items"]] == ["in-option"]
    assert {path.name for path in shell.folder.glob("*.db")} == {"file.db", "variable.db", "option.db"}


# Watching


@pytest.mark.skipif(os.name == "nt", reason="Ctrl-C is a signal here")
def test_watching_everything_says_each_change_until_an_interrupt(shell: Shell):
    shell.submit_many(["g1", "g2"])
    with shell.start("tasks", "watch") as watching:
        assert watching.stdout is not None
        first = [watching.stdout.readline().split(" ", 1)[1] for _ in range(2)]
        shell.ok("tasks", "cancel", "g1")
        then = watching.stdout.readline().split(" ", 1)[1]
        watching.send_signal(signal.SIGINT)
        out, err = watching.communicate(timeout=30)

    assert first == ["g2 is pending\n", "g1 is pending\n"]
    assert then == "g1 is cancelled\n"
    assert (watching.returncode, out, err) == (0, "", "")


@pytest.mark.skipif(os.name == "nt", reason="there are no such terminals")
def test_a_terminal_shows_a_live_picture_of_a_task_until_it_ends(shell: Shell):
    with shell.serving():
        shell.ok("submit", "shop:app", "approve", "null", "--id", "a1")
        with Terminal(shell, "tasks", "watch", "a1") as terminal:
            terminal.read_until("it waits for signal 'approval'")
            shell.ok("tasks", "signal", "a1", "approval", '"yes"')
            shown = terminal.read_until('"yes"')

    assert terminal.code == 0
    assert "processed" in shown


@pytest.mark.skipif(os.name == "nt", reason="there are no such terminals")
def test_a_terminal_shows_a_live_picture_of_all_tasks_until_an_interrupt(shell: Shell):
    shell.submit_many(["g1", "g2"])
    with Terminal(shell, "tasks", "watch") as terminal:
        terminal.read_until("2 pending")
        shell.ok("tasks", "cancel", "g1")
        terminal.read_until("1 pending")
        terminal.interrupt()

    assert terminal.code == 0


@pytest.mark.skipif(os.name == "nt", reason="there are no such terminals")
def test_an_undo_is_asked_for_on_a_terminal(shell: Shell):
    with shell.serving():
        shell.ok(*PAY, PAID, "--id", "o1", "--wait")
        with Terminal(shell, "tasks", "undo", "o1") as terminal:
            plan = terminal.read_until("Undo task o1? [y/N]:")
            terminal.press(b"n\n")

    assert terminal.code == 1
    assert "charge:1" in plan
    assert shell.json("tasks", "show", "o1")["state"] == "processed"


# The store itself


def test_a_store_is_made_checked_and_supervised(shell: Shell):
    assert shell.type("store", "check").returncode == 1
    assert shell.ok("store", "migrate").startswith("created the store sqlite:///shop.db with schema ")
    assert re.search(r"processes +none is live", shell.ok("store", "check"))
    assert shell.json("supervise", "--once")["ran"] is True


def test_a_token_has_no_place_on_the_command_line(shell: Shell):
    done = shell.type("tasks", "ls", "--url", "http://127.0.0.1:1", "--token", "bst_secret")

    assert done.returncode == 2
    assert "bst_secret" not in done.stdout + done.stderr


# Mistakes


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["submit", "shop", "pay", PAID], "'shop' does not name an application; write the module"),
        (["submit", "shop:", "pay", PAID], "'shop:' does not name an application"),
        (["submit", "../shop:app", "pay", PAID], "'../shop:app' does not name an application"),
        (["submit", "shops:app", "pay", PAID], "there is no module 'shops'"),
        (["submit", "shop.py:app", "pay", PAID], "a module is named without .py"),
        (["submit", "shop:ap", "pay", PAID], "module 'shop' has no 'ap'; it has shop:app"),
        (["submit", "shop:not_an_app", "pay", PAID], "is of type int, not backstay.App; it has shop:app"),
        (["submit", "broken:app", "pay", PAID], "module 'broken' cannot be imported: ValueError: at once"),
        (["submit", "shop:app", "buy", PAID], "there is no workflow 'buy'; registered: approve, greet, pay"),
        ([*PAY, "{order: 1}"], "Invalid value for JSON: JSON is malformed"),
        ([*PAY, ""], "Invalid value for JSON: Input data was truncated"),
        (["submit", "shop:app", "greet", "you"], """as in '{"order": 7}' or '"text"'"""),
        (["submit", "shop:app", "greet", '{"name": "you"}'], "the value of its one argument, name"),
        ([*PAY, "[" * 9_999], "Invalid value for JSON: "),
        ([*PAY, '{"order": "o1"}'], "missing required field `cents`"),
        ([*PAY, '{"order": "o1", "cents": "5"}'], "Expected `int`, got `str` - at `$.cents`"),
        (["submit", "shop:app", "greet", json.dumps("x" * 1_000_000)], "the limit is 524,288 bytes"),
        ([*PAY, PAID, "--id", "a b"], "id is 'a b'; an id has 1 to 200 characters"),
        ([*PAY, PAID, "--complete-by", "soon"], "an instant is written"),
        ([*PAY, PAID, "--complete-by", "2020-01-31T12:00:00Z"], "lies in the past"),
        ([*PAY, PAID, "--attribute", "c9"], "--attribute: 'c9' is no attribute; write its name"),
        ([*PAY, PAID, "--attribute", "a=1", "--attribute", "a=2"], "'a' is given twice"),
        ([*PAY, PAID, "--store", "mongodb://u:hidden@h/db"], "scheme 'mongodb'; known: sqlite"),
        (PAY, "Missing argument 'JSON'"),
        (["tasks", "ls", "--state", "done"], "'done' is not one of 'pending', 'processing', 'processed'"),
        (["tasks", "ls", "--limit", "0"], "--limit: 0 is out of range; ask for 1 to 1000"),
        (["tasks", "ls", "--limit", "1001"], "--limit: 1001 is out of range; ask for 1 to 1000"),
        (["tasks", "ls", "--limit", "ten"], "Invalid value for '--limit'"),
        (["tasks", "ls", "--cursor", "ä"], "--cursor: 'ä' is no cursor; take \"next\" of the page before"),
        (["tasks", "ls", "--cursor", "dGFzayAtMQ"], "is no cursor"),
        (["tasks", "ls", "--attribute", "c9"], "--attribute: 'c9' is no attribute; write its name"),
        (["tasks", "ls", "--stat", "error"], "No such option"),
        (["tasks", "list"], "No such command 'list'"),
        (["tasks", "show"], "Missing argument 'ID'"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_remedy_and_leaves_nothing_behind(
    shell: Shell, arguments: list[str], said: str
):
    (shell.folder / "broken.py").write_text("raise ValueError('at once')\n", encoding="utf-8")
    shell.environment["BACKSTAY_PAYLOAD_BYTES_MAX"] = str(512 * 1024)

    if any(len(argument) > 100_000 for argument in arguments):
        # Too long for a command line: it comes from standard input.
        done = shell.type(*arguments[:3], "-", stdin=arguments[3])
    else:
        done = shell.type(*arguments)

    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "hidden" not in done.stderr
    assert not list(shell.folder.glob("*.db*"))


def test_a_task_that_is_not_there_is_a_failure_and_not_a_mistake(shell: Shell):
    shell.ok("submit", "shop:app", "greet", '"you"')

    for command in ("show", "why"):
        done = shell.type("tasks", command, "nobody")
        assert (done.returncode, done.stdout) == (1, "")
        assert (
            done.stderr
            == "Error: there is no task 'nobody' in this store; `backstay tasks ls` lists what is there\n"
        )


def test_a_file_that_is_no_store_is_refused_and_stays_as_it_is(shell: Shell):
    (shell.folder / "notes.db").write_text("these are my notes\n" * 100, encoding="utf-8")

    done = shell.type("tasks", "ls", "--store", "sqlite:///notes.db")

    assert done.returncode == 1
    assert done.stderr == "Error: notes.db: file is not a database\n"
    assert (shell.folder / "notes.db").read_text(encoding="utf-8") == "these are my notes\n" * 100


def test_a_store_in_a_folder_that_is_not_there_is_told_where_to_make_one(shell: Shell):
    done = shell.type("serve", "shop:app", "--store", "sqlite:///data/shop.db", "--port", "0")

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "Error: shop.db: unable to open database file;"
        " there is no folder data: make it, or name a file elsewhere\n"
    )


def test_a_store_that_is_a_folder_is_named(shell: Shell):
    (shell.folder / "data").mkdir()

    done = shell.type("serve", "shop:app", "--store", "sqlite:///data", "--port", "0")

    assert done.returncode == 1
    assert done.stderr == "Error: data: unable to open database file; data is a folder: name a file in it\n"


def test_an_unknown_setting_is_named(shell: Shell):
    shell.environment["BACKSTAY_LEESE"] = "15s"

    done = shell.type("tasks", "ls")

    assert done.returncode == 2
    assert done.stderr == "Error: there is no setting 'leese' (BACKSTAY_LEESE); did you mean lease?\n"


# On PostgreSQL


def test_a_task_is_submitted_to_postgresql_and_shown_from_there(shell: Shell, postgres_url: str):
    store = f"--store={postgres_url}"

    assert shell.ok(*PAY, PAID, "--id", "o1", store) == "submitted o1\n"
    assert "o1 exists already: it is pending" in shell.ok(*PAY, PAID, "--id", "o1", store)

    shown = shell.ok("tasks", "show", "o1", store)
    assert "pending" in shown
    assert "pay" in shown
    assert not list(shell.folder.glob("*.db*"))


def test_postgresql_is_listed_with_filters_and_in_pages(shell: Shell, postgres_url: str):
    shell.environment["BACKSTAY_STORE"] = postgres_url
    shell.submit_many(["t0", "t1", "t2"])
    shell.ok(*PAY, PAID, "--id", "o1", "--attribute", "for=a:b")

    rows = [line.split()[:3] for line in shell.ok("tasks", "ls").splitlines() if "pending" in line]
    assert rows == [
        ["pending", "o1", "pay"],
        ["pending", "t2", "greet"],
        ["pending", "t1", "greet"],
        ["pending", "t0", "greet"],
    ]
    assert [item["id"] for item in shell.json("tasks", "ls", "--attribute", "for:a:b")["items"]] == ["o1"]
    page = shell.json("tasks", "ls", "--workflow", "greet", "--limit", "2")
    assert [item["id"] for item in page["items"]] == ["t2", "t1"]
    last = shell.json("tasks", "ls", "--workflow", "greet", "--limit", "2", "--cursor", page["next"])
    assert ([item["id"] for item in last["items"]], last["next"]) == (["t0"], None)


def test_a_task_in_postgresql_is_the_same_json(shell: Shell, postgres_url: str):
    store = f"--store={postgres_url}"

    submitted = shell.json(*PAY, PAID, "--id", "o1", "--attribute", "customer=c9", store)
    task = shell.json("tasks", "show", "o1", store)

    assert list(task) == TASK_FIELDS
    assert task == submitted
    assert (task["state"], task["workflow"], task["version"]) == ("pending", "pay", 1)
    assert (task["input"], task["attributes"]) == ({"order": "o1", "cents": 500}, {"customer": "c9"})
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", task["created_at"])


def test_why_says_what_a_task_in_postgresql_waits_for(shell: Shell, postgres_url: str):
    store = f"--store={postgres_url}"
    shell.ok(*PAY, PAID, "--id", "o1", store)

    answer = shell.json("tasks", "why", "o1", store)

    assert set(answer) == {"reason", "command"}
    assert "no scheduler is running" in answer["reason"]
    assert shell.ok("tasks", "why", "o1", store).startswith(answer["reason"])


def test_an_operator_steps_in_on_postgresql(shell: Shell, postgres_url: str):
    shell.environment["BACKSTAY_STORE"] = postgres_url
    made = shell.json("store", "migrate")
    shell.ok(*PAY, PAID, "--id", "o1")

    assert (made["backend"], made["created"]) == ("postgresql", True)
    assert "@" not in made["store"]
    assert shell.ok("tasks", "cancel", "o1", "--reason", "too late") == "o1 is cancelled\n"
    assert shell.json("audit")["items"][0]["reason"] == "too late"
    assert shell.json("supervise", "--once")["ran"] is True
    assert shell.json("store", "check")["open_alerts"] == 0


def test_waiting_prints_what_a_process_on_the_same_postgresql_returned(shell: Shell, postgres_url: str):
    shell.environment["BACKSTAY_STORE"] = postgres_url
    with shell.serving():
        done = shell.type(*PAY, PAID, "--id", "o1", "--wait")

    assert (done.returncode, done.stdout, done.stderr) == (0, '"paid 500"\n', "submitted o1\n")
    assert shell.json("tasks", "show", "o1")["output"] == "paid 500"


@pytest.mark.parametrize("command", [[*PAY, PAID], ["tasks", "ls", "--json"]])
def test_a_postgresql_that_does_not_answer_is_one_line_without_the_password(shell: Shell, command: list[str]):
    with socket.socket() as nobody:  # has the port, and takes no connection
        nobody.bind((HOST, 0))
        port = nobody.getsockname()[1]
        done = shell.type(*command, "--store", f"postgresql://app:hidden@{HOST}:{port}/shop")

    assert (done.returncode, done.stdout) == (1, "")
    [line] = done.stderr.splitlines()
    assert line.startswith(f"Error: postgresql://app@{HOST}:{port}/shop: ")
    assert "hidden" not in line


def test_looking_for_a_store_that_is_not_in_postgresql_creates_none(
    shell: Shell, postgres_database: PostgresDatabase
):
    done = shell.type("tasks", "ls", "--store", postgres_database.url)

    assert (done.returncode, done.stdout) == (1, "")
    where = postgres_database.server.url()
    assert done.stderr.startswith(
        f"Error: there is no store in {where}, schema {postgres_database.schema}; name another with --store"
    )
    assert postgres_database.is_untouched()


# The command itself


def test_the_installed_command_says_its_version_and_explains_itself():
    command = Path(sys.executable).with_name("backstay")
    version = subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout
    about = subprocess.run([command, "--help"], capture_output=True, text=True, check=True).stdout

    assert re.fullmatch(r"backstay \d+\.\d+\.\d+\S*\n", version)
    assert "submit" in about
    assert "tasks" in about
    assert "BACKSTAY_STORE" in about
