"""Every command, on a store and at a server that has it: the same words, JSON and exit codes."""

from __future__ import annotations

import contextlib
import io
import json
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from backstay.cli import run
from tests.support.shell import Keyboard

SHOP = """
from pathlib import Path

from backstay import App, Permanent, Recovery, wait_for

app = App("shop")
bank = app.agent("bank")
printer = app.agent("printer")


@bank.step
async def charge(order: str) -> str:
    if not Path(f"{order}.covered").exists():
        raise Permanent("no \\x1b[31mcover")
    return "paid"


@charge.undo
async def refund(order: str) -> None: ...


@printer.step
async def label(order: str) -> str:
    return f"label of {order}"


@label.undo
async def void(order: str) -> None: ...


@app.workflow(recovery=Recovery(then="error"))
async def pay(order: str) -> list[str]:
    return [await label(order), await charge(order)]


@app.workflow
async def approve() -> str:
    return await wait_for("approval")
"""

PATIENCE_SECONDS = 20.0

#: Commands that only look, and what the HTTP interface calls them.
LOOKING = {
    "tasks ls --limit 2": "/v1/tasks?limit=2",
    "tasks ls --state error --workflow pay": "/v1/tasks?state=error&workflow=pay",
    "tasks show t1": "/v1/tasks/t1",
    "tasks why t1": "/v1/tasks/t1/why",
    "tasks undo t1 --preview": "/v1/tasks/t1/undo",
    "workflows ls": "/v1/workflows",
    "alerts ls --open": "/v1/alerts?open=true",
    "audit --limit 1": "/v1/audit?limit=1",
    "audit --target task:t2": "/v1/audit?target=task:t2",
    "tokens ls": "/v1/tokens",
}


class Served(NamedTuple):
    """A process that runs the shop, the store on which it does so, and what opens it."""

    folder: Path
    store: str
    url: str
    token: str

    def get(self, path: str) -> Any:
        request = urllib.request.Request(
            f"{self.url}{path}", headers={"Authorization": f"Bearer {self.token}"}
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)


class Done(NamedTuple):
    code: int
    out: str
    err: str


class Operator:
    """Types commands in this process, always with the same options."""

    def __init__(self, served: Served, *options: str) -> None:
        self._served = served
        self._options = options

    def type(self, *arguments: str) -> Done:
        with (
            contextlib.redirect_stdout(io.StringIO()) as out,
            contextlib.redirect_stderr(io.StringIO()) as err,
        ):
            code = run([*arguments, *self._options])
        done = Done(code, out.getvalue(), err.getvalue())
        assert "\x1b" not in done.out + done.err
        assert self._served.token not in done.out + done.err
        return done

    def ok(self, *arguments: str) -> str:
        done = self.type(*arguments)
        assert done.code == 0, done.err
        return done.out

    def json(self, *arguments: str) -> Any:
        return json.loads(self.ok(*arguments, "--json"))

    def submit(self, workflow: str, id: str, *, until: str) -> None:
        given = "null" if workflow == "approve" else json.dumps(id)
        self.ok("submit", "shop:app", workflow, given, "--id", id)
        self.until(id, until)

    def until(self, task_id: str, state: str) -> Any:
        end = time.monotonic() + PATIENCE_SECONDS
        while (task := self.json("tasks", "show", task_id))["state"] != state:
            assert time.monotonic() < end, task
        return task


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("shop")
    store = f"sqlite:///{folder}/shop.db"
    (folder / "shop.py").write_text(SHOP, encoding="utf-8")
    with contextlib.redirect_stdout(io.StringIO()):
        assert run(["store", "migrate", "--store", store]) == 0
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert run(["tokens", "create", "--name", "me", "--role", "admin", "--json", "--store", store]) == 0
    token: str = json.loads(out.getvalue())["token"]
    command = [sys.executable, "-m", "backstay", "serve", "shop:app", "--port", "0", "--store", store]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        url = next(found[0] for line in process.stderr if (found := re.search(r"http://[0-9.:]+", line)))
        yield Served(folder, store, url, token)
        process.terminate()
        process.communicate(timeout=30)


@pytest.fixture
def on_store(served: Served, monkeypatch: pytest.MonkeyPatch) -> Operator:
    monkeypatch.chdir(served.folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return Operator(served, "--store", served.store)


@pytest.fixture
def at_server(served: Served, monkeypatch: pytest.MonkeyPatch) -> Operator:
    monkeypatch.setenv("BACKSTAY_TOKEN", served.token)
    return Operator(served, "--url", served.url)


@pytest.fixture(params=["on_store", "at_server"])
def operator(request: pytest.FixtureRequest) -> Operator:
    """Who asks for this works in both ways."""
    operator: Operator = request.getfixturevalue(request.param)
    return operator


@pytest.fixture
def new_id(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """An id that no other test has."""
    name = re.sub(r"[^a-z]+", "-", request.node.name.lower())
    return lambda word: f"{word}-{name}"[:150]


# Looking


@pytest.fixture(scope="module")
def history(served: Served) -> None:
    """Tasks that stay as they are, and somebody who stepped in."""
    operator = Operator(served, "--store", served.store)
    with contextlib.chdir(served.folder):
        for task_id in ("t1", "t2"):
            operator.submit("pay", task_id, until="error")
        operator.ok("tasks", "cancel", "t2", "--no-undo", "--reason", "nobody wants it")


@pytest.mark.usefixtures("history")
@pytest.mark.parametrize("command", LOOKING)
def test_json_is_what_the_http_interface_answers(operator: Operator, served: Served, command: str):
    assert operator.json(*command.split()) == served.get(LOOKING[command])


@pytest.mark.usefixtures("history")
def test_people_see_the_same_on_a_store_and_at_its_server(on_store: Operator, at_server: Operator):
    for command in ("tasks show t2", "tasks why t2", "workflows ls", "audit --target task:t2", "tokens ls"):
        # What a look takes may make something a second older, and a column wider.
        here, there = (
            re.sub(r"\d+[smh] ago|now| +|─+", " ", one.ok(*command.split())) for one in (on_store, at_server)
        )
        assert here == there


@pytest.mark.usefixtures("history")
def test_pages_follow_one_another(operator: Operator):
    first = operator.json("tasks", "ls", "--limit", "1")
    second = operator.json("tasks", "ls", "--limit", "1", "--cursor", first["next"])

    assert first["items"][0]["id"] != second["items"][0]["id"]
    assert f"--cursor {first['next']}" in operator.type("tasks", "ls", "--limit", "1").err


@pytest.mark.usefixtures("history")
def test_a_list_is_filtered_by_age(operator: Operator):
    assert operator.json("tasks", "ls", "--created-before", "1h")["items"] == []
    assert operator.json("tasks", "ls", "--created-after", "1h", "--limit", "1")["items"] != []
    assert operator.json("tasks", "ls", "--created-after", "2099-01-31T12:00:00Z")["items"] == []


def test_agents_tell_how_they_stand(operator: Operator):
    agents = {one["name"]: one for one in operator.json("agents", "ls")["items"]}

    assert set(agents) == {"bank", "printer"}
    assert [one["breaker"] for one in agents["bank"]["instances"]] == ["closed"]
    assert re.search(r"printer +live +closed", operator.ok("agents", "ls"))


# Tasks


def test_a_task_is_submitted_and_waited_for(operator: Operator, served: Served, new_id: Callable[[str], str]):
    task_id = new_id("o1")
    (served.folder / f"{task_id}.covered").touch()
    submit = ("submit", "shop:app", "pay", f'"{task_id}"', "--id", task_id)

    done = operator.type(*submit, "--wait")

    assert (done.code, json.loads(done.out), done.err) == (
        0,
        [f"label of {task_id}", "paid"],
        f"submitted {task_id}\n",
    )
    assert operator.ok(*submit) == f"{task_id} exists already: it is processed\n"
    assert operator.json(*submit)["output"] == [f"label of {task_id}", "paid"]
    assert operator.type("submit", "shop:app", "pay", '"other"', "--id", task_id).code == 1


def test_a_task_that_stops_is_a_failure_to_whoever_waits(operator: Operator, new_id: Callable[[str], str]):
    done = operator.type("submit", "shop:app", "pay", '"x"', "--id", new_id("x"), "--wait", "--json")

    assert done.code == 1
    assert json.loads(done.out)["state"] == "error"
    assert r"no \x1b[31mcover" in done.err.splitlines()[-1]


def test_at_a_server_the_application_need_not_be_here(at_server: Operator):
    submitted = at_server.ok("submit", "nowhere:app", "approve", "null", "--attribute", "for=me")

    task = at_server.json("tasks", "ls", "--attribute", "for:me")["items"][0]
    assert submitted == f"submitted {task['id']}\n"


def test_a_signal_counts_once_under_its_key(operator: Operator, new_id: Callable[[str], str]):
    task_id = new_id("a")
    operator.submit("approve", task_id, until="waiting")

    told = operator.json("tasks", "signal", task_id, "approval", '"yes"', "--key", "k1")
    assert told["id"] == task_id
    task = operator.until(task_id, "processed")

    assert task["output"] == "yes"
    late = operator.type("tasks", "signal", task_id, "approval")
    assert (late.code, late.out) == (1, "")
    assert "nothing in it will ask for a signal any more" in late.err


def test_a_task_is_cancelled_once(operator: Operator, new_id: Callable[[str], str]):
    task_id = new_id("a")
    operator.submit("approve", task_id, until="waiting")

    assert (
        operator.ok("tasks", "cancel", task_id, "--reason", "changed our mind") == f"{task_id} is cancelled\n"
    )
    again = operator.type("tasks", "cancel", task_id)

    assert (again.code, again.out) == (1, "")
    assert again.err == f"Error: task {task_id} is cancelled and cannot become cancelled\n"
    [entry] = operator.json("audit", "--target", f"task:{task_id}")["items"]
    assert (entry["action"], entry["reason"]) == ("cancel and undo", "changed our mind")


def test_a_task_goes_on_once_its_trouble_is_over(
    operator: Operator, served: Served, new_id: Callable[[str], str]
):
    task_id = new_id("o")
    operator.submit("pay", task_id, until="error")
    (served.folder / f"{task_id}.covered").touch()

    assert operator.json("tasks", "resubmit", task_id, "--from", "failed")["id"] == task_id
    operator.until(task_id, "processed")

    assert operator.type("tasks", "resubmit", task_id).code == 1


def test_a_step_is_completed_by_hand(operator: Operator, new_id: Callable[[str], str]):
    task_id = new_id("o")
    operator.submit("pay", task_id, until="error")

    operator.ok("tasks", "complete-step", task_id, "charge:1", '"paid in cash"', "--reason", "cash")

    assert operator.until(task_id, "processed")["output"] == [f"label of {task_id}", "paid in cash"]
    assert operator.type("tasks", "complete-step", task_id, "charge:1", '"twice"').code == 1


def test_an_undo_shows_its_plan_first(operator: Operator, new_id: Callable[[str], str]):
    task_id = new_id("o")
    operator.submit("pay", task_id, until="error")

    plan = operator.json("tasks", "undo", task_id, "--preview")
    assert [step["key"] for step in plan["steps"]] == ["label:1"]
    assert re.search(r"1\. +label:1 +\w+ +printer", operator.ok("tasks", "undo", task_id, "--preview"))
    assert operator.json("tasks", "show", task_id)["state"] == "error"

    assert re.search(r"label:1(.|\n)*is undo", operator.ok("tasks", "undo", task_id, "--reason", "too late"))
    operator.until(task_id, "undone")
    assert operator.type("tasks", "undo", task_id, "--yes").code == 1


def test_an_undo_is_confirmed_on_a_terminal(
    operator: Operator, new_id: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
):
    task_id = new_id("o")
    operator.submit("pay", task_id, until="error")

    monkeypatch.setattr(sys, "stdin", Keyboard("n\n"))
    refused = operator.type("tasks", "undo", task_id)
    monkeypatch.setattr(sys, "stdin", Keyboard(""))
    gone = operator.type("tasks", "undo", task_id)

    assert (refused.code, gone.code) == (1, 1)
    assert f"Undo task {task_id}? [y/N]" in refused.err
    assert refused.err.endswith("nothing was undone\n")
    assert operator.json("tasks", "show", task_id)["state"] == "error"
    monkeypatch.setattr(sys, "stdin", Keyboard("y\n"))
    assert operator.json("tasks", "undo", task_id)["id"] == task_id
    operator.until(task_id, "undone")


# Watching


def test_watching_one_task_on_a_pipe_says_each_change_once(operator: Operator, new_id: Callable[[str], str]):
    task_id = new_id("o")
    operator.submit("pay", task_id, until="error")

    words = [line.split(" ", 1)[1] for line in operator.ok("tasks", "watch", task_id).splitlines()]

    assert words[0] == rf"{task_id} is error: Permanent at charge:1: no \x1b[31mcover"
    assert words[1:3] == [
        "  step label:1 is completed",
        r"  step charge:1 is failed: Permanent: no \x1b[31mcover",
    ]
    assert words[3].startswith("  stopped at step charge:1")
    [line] = operator.ok("tasks", "watch", task_id, "--json").splitlines()
    assert json.loads(line) == operator.json("tasks", "show", task_id)


# Agents and workflows


def test_an_agent_is_paused_and_resumed(operator: Operator):
    paused = operator.json("agents", "pause", "printer", "--reason", "no paper")
    assert (paused["name"], paused["paused"], paused["reason"]) == ("printer", True, "no paper")
    assert re.search(r"printer +paused .*no paper", operator.ok("agents", "ls"))

    assert operator.ok("agents", "resume", "printer") == "agent printer is not paused\n"
    assert operator.json("agents", "resume", "printer")["paused"] is False


@pytest.mark.parametrize(
    ("position", "said"), [("open", "held open"), ("closed", "held closed"), ("auto", "left to itself")]
)
def test_a_breaker_is_held_in_place(operator: Operator, position: str, said: str):
    told = operator.ok("agents", "breaker", "printer", position)
    agent = operator.json("agents", "breaker", "printer", position, "--reason", "trial")
    operator.ok("agents", "breaker", "printer", "auto")

    assert told == f"the breaker of agent printer is {said}\n"
    assert agent["forced_breaker"] == (None if position == "auto" else position)


def test_a_workflow_is_paused_and_resumed(operator: Operator, new_id: Callable[[str], str]):
    assert operator.json("workflows", "pause", "approve", "--reason", "holiday")["paused"] is True
    task_id = new_id("a")
    operator.ok("submit", "shop:app", "approve", "null", "--id", task_id)
    assert operator.json("tasks", "why", task_id)["command"] == "backstay workflows resume approve"

    assert operator.ok("workflows", "resume", "approve") == "workflow approve is not paused\n"
    operator.until(task_id, "waiting")


# Alerts and tokens


def test_an_alert_is_taken_up_by_the_first_who_does(operator: Operator, new_id: Callable[[str], str]):
    task_id = new_id("o")
    operator.submit("pay", task_id, until="error")
    [alert] = [one for one in operator.json("alerts", "ls", "--open")["items"] if one["task_id"] == task_id]
    number = str(alert["id"])

    taken = operator.json("alerts", "ack", number, "--reason", "mine")
    assert taken["acknowledged_by"] is not None
    assert (
        operator.ok("alerts", "ack", number) == f"alert {number} is taken up by {taken['acknowledged_by']}\n"
    )
    assert alert["id"] not in {one["id"] for one in operator.json("alerts", "ls", "--open")["items"]}
    assert re.search(rf"^ {number} .*task_error", operator.ok("alerts", "ls"), re.MULTILINE)


def test_a_token_is_shown_once_and_revoked(operator: Operator, new_id: Callable[[str], str]):
    name = new_id("ci")

    created = operator.json("tokens", "create", "--name", name, "--role", "read")
    assert list(created) == ["token", "name", "role"]
    assert re.fullmatch(r"bst_[\w-]{43}", created["token"])
    assert operator.type("tokens", "create", "--name", name, "--role", "read").code == 1
    listed = operator.ok("tokens", "ls") + operator.ok("tokens", "ls", "--json") + operator.ok("audit")
    assert created["token"] not in listed

    assert operator.ok("tokens", "revoke", name) == f"token {name} is revoked\n"
    assert operator.ok("tokens", "revoke", name, "--json") == ""
    [token] = [one for one in operator.json("tokens", "ls")["items"] if one["name"] == name]
    assert token["revoked_at"] is not None


def test_people_get_the_token_alone_and_a_word_of_warning_beside_it(
    operator: Operator, new_id: Callable[[str], str]
):
    done = operator.type("tokens", "create", "--name", new_id("me"), "--role", "operate")

    assert re.fullmatch(r"bst_[\w-]{43}\n", done.out)
    assert "it will not be shown again" in done.err


# The supervisor and the store


def test_one_round_is_left_to_the_process_that_leads(on_store: Operator):
    done = on_store.type("supervise", "--once")

    assert done.code == 0
    assert "leads and makes the rounds; nothing was done here" in done.err
    assert on_store.json("supervise", "--once")["ran"] is False


def test_the_server_that_leads_makes_a_round(at_server: Operator, served: Served):
    made = at_server.json("supervise", "--once")

    assert made["ran"] is True
    assert set(made) == {"ran", *served.get("/v1/supervisor")}


def test_a_store_is_checked(on_store: Operator, served: Served):
    checked = on_store.json("store", "check")

    assert (checked["backend"], checked["store"]) == ("sqlite", served.store)
    assert len(checked["instances"]) == 1
    assert checked["supervisor"]["leader"] == checked["instances"][0]
    told = on_store.ok("store", "check")
    assert re.search(rf"^schema +{checked['schema']} *$", told, re.MULTILINE)
    assert re.search(rf"^open alerts +{checked['open_alerts']} *$", told, re.MULTILINE)


def test_a_store_is_created_and_then_up_to_date(tmp_path: Path, served: Served):
    operator = Operator(served, "--store", f"sqlite:///{tmp_path}/new.db")

    assert operator.type("store", "check").code == 1
    assert operator.ok("store", "migrate").startswith(
        f"created the store sqlite:///{tmp_path}/new.db with schema"
    )
    assert "is up to date with schema" in operator.ok("store", "migrate")
    assert operator.json("store", "migrate")["created"] is False
    assert operator.json("supervise", "--once")["ran"] is True
    assert re.search(r"leader +nobody", operator.ok("store", "check"))


# What is not there, and what is written wrongly


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("tasks show nobody", "there is no task 'nobody' in this store"),
        ("tasks why nobody", "there is no task 'nobody' in this store"),
        ("tasks watch nobody", "there is no task 'nobody' in this store"),
        ("tasks undo nobody", "there is no task 'nobody' in this store"),
        ("tasks cancel nobody", "there is no task 'nobody' in this store"),
        ("tasks resubmit nobody", "there is no task 'nobody' in this store"),
        ("tasks signal nobody approval", "there is no task 'nobody' in this store"),
        ("tasks complete-step nobody charge:1", "there is no task 'nobody' in this store"),
        ("tasks complete-step t1 ship:1", "task 't1' has no step 'ship:1'"),
        ("tasks complete-step t1 a/b?c=%2F", "task 't1' has no step 'a/b?c=%2F'"),
        ("agents pause nobody", "there is no agent 'nobody' in any live process"),
        ("agents resume nobody", "there is no agent 'nobody' in any live process"),
        ("agents breaker nobody open", "there is no agent 'nobody' in any live process"),
        ("workflows pause nobody", "there is no workflow 'nobody' here or in any live process"),
        ("workflows resume nobody", "there is no workflow 'nobody' here or in any live process"),
        ("alerts ack 999999", "there is no alert 999999"),
        ("tokens revoke nobody", "there is no token 'nobody'"),
    ],
)
@pytest.mark.usefixtures("history")
def test_what_is_not_there_is_a_failure_and_not_a_mistake(operator: Operator, command: str, said: str):
    done = operator.type(*command.split())

    assert (done.code, done.out) == (1, "")
    [line] = done.err.splitlines()
    assert line.startswith("Error: ")
    assert said in line


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("tasks ls --limit 0", "--limit: 0 is out of range"),
        ("tasks ls --created-after soon", "--created-after"),
        ("tasks ls --created-before 2030-01-31T12:00:00", "has no time zone"),
        ("tasks show a%b", "an id has 1 to 200 characters"),
        ("tasks resubmit t1 --from middle", "'middle'"),
        ("tasks signal t1 approval {", "Invalid value for JSON"),
        ("tasks signal t1 a:b 1", "no colon"),
        ("tasks complete-step t1 charge:1 nope", "Invalid value for JSON"),
        ("agents breaker bank ajar", "'ajar'"),
        ("alerts ack first", "Invalid value for 'ID'"),
        ("alerts ack 0", "Invalid value for 'ID'"),
        ("alerts ls --cursor -3", "is no cursor"),
        ("audit --limit 1001", "ask for 1 to 1000"),
        ("tokens create --name x --role king", "'king' is not one of 'read', 'submit', 'operate', 'admin'"),
        ("tokens create --name a%b --role read", "an id has 1 to 200 characters"),
        ("tokens create --role read", "Missing option '--name'"),
        ("tokens revoke a%b", "an id has 1 to 200 characters"),
        ("supervise", "backstay serve --roles supervisor"),
        ("workflows pause", "Missing argument 'NAME'"),
    ],
)
def test_what_is_written_wrongly_is_a_mistake(operator: Operator, command: str, said: str):
    done = operator.type(*command.split())

    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_a_reason_that_is_too_long_is_refused(operator: Operator):
    done = operator.type("workflows", "pause", "approve", "--reason", "x" * 1_001)

    assert (done.code, done.err) == (
        2,
        "Error: reason must be text of at most 1,000 characters, without NUL\n",
    )


# Where a command works


def test_a_store_and_a_server_at_once_are_a_mistake(served: Served):
    done = Operator(served, "--store", served.store, "--url", served.url).type("tasks", "ls")

    assert done.code == 2
    assert "give one of --store and --url" in done.err


def test_the_server_may_stand_in_the_environment_and_an_option_wins(
    served: Served, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("BACKSTAY_URL", "http://127.0.0.1:1")

    assert Operator(served).type("tasks", "ls").code == 1
    assert Operator(served, "--store", served.store).type("tasks", "ls").code == 0


def test_without_the_right_token_the_server_opens_nothing(served: Served, monkeypatch: pytest.MonkeyPatch):
    operator = Operator(served, "--url", served.url)
    monkeypatch.delenv("BACKSTAY_TOKEN", raising=False)
    nothing = operator.type("tasks", "ls")
    monkeypatch.setenv("BACKSTAY_TOKEN", "bst_somebody-elses")
    wrong = operator.type("tasks", "ls")

    assert (nothing.code, wrong.code) == (1, 1)
    assert nothing.err.endswith("put a token into BACKSTAY_TOKEN\n")
    assert wrong.err.endswith("put another token into BACKSTAY_TOKEN\n")
    assert "somebody-elses" not in wrong.err


def test_a_role_that_does_not_suffice_is_named(
    served: Served, at_server: Operator, monkeypatch: pytest.MonkeyPatch, new_id: Callable[[str], str]
):
    reader = at_server.json("tokens", "create", "--name", new_id("r"), "--role", "read")
    monkeypatch.setenv("BACKSTAY_TOKEN", reader["token"])

    done = at_server.type("workflows", "pause", "approve")

    assert done.code == 1
    assert "this needs the role operate" in done.err
