"""What people see in a terminal: short, whole where it counts, and harmless."""

from __future__ import annotations

import io
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rich.console import Console, RenderableType

from backstay.cli.render import value_text, visible
from backstay.cli.tables import (
    STYLES,
    agent_table,
    alert_table,
    audit_table,
    plan_table,
    step_table,
    supervisor_facts,
    task_details,
    task_table,
    token_table,
    workflow_table,
)
from backstay.domain.access import Role
from backstay.domain.alert import Alert, AlertKind
from backstay.domain.audit import Entry
from backstay.domain.states import StepState, TaskState
from backstay.domain.step import Failure
from backstay.domain.why import Reason
from backstay.domain.wording import age, brief, instant, span
from backstay.views import (
    AgentInstance,
    AgentView,
    CallsView,
    PlannedUndo,
    RoundView,
    Step,
    SupervisorView,
    Task,
    TokenView,
    WorkflowView,
)

NOW = datetime(2030, 1, 31, 12, 0, tzinfo=UTC)
UUID = "3f2b8c1e-9d47-4a53-8f26-7c1d5e9b0a64"


def drawn(what: RenderableType, *, columns: int = 100) -> list[str]:
    """The lines that a terminal of this width would show."""
    output = io.StringIO()
    Console(file=output, width=columns, color_system=None).print(what)
    return [line.rstrip() for line in output.getvalue().splitlines()]


def listed(id: str = "order-17", *, state: str = "processed", error: Failure | None = None) -> Task:
    return Task(
        id=id,
        workflow="fulfil",
        version=1,
        state=state,
        error=error,
        complete_by=None,
        hard_end=None,
        locked_by=None,
        failure_count=0,
        attributes={},
        created_at=NOW - timedelta(minutes=3),
        updated_at=NOW - timedelta(seconds=42),
    )


def task(*, state: str = "processing", output: object = None, error: Failure | None = None) -> Task:
    return Task(
        id="order-17",
        workflow="fulfil",
        version=2,
        state=state,
        input={"city": "Lisbon"},
        output=output,
        error=error,
        complete_by=NOW + timedelta(minutes=9),
        hard_end=None,
        locked_by="host-1-abc",
        failure_count=0,
        attributes={"customer": "c9"},
        created_at=NOW - timedelta(minutes=1),
        updated_at=NOW,
    )


def step(*, state: str = "completed", output: object = "ok", error: Failure | None = None) -> Step:
    return Step(
        key="0.charge:1",
        agent="bank",
        operation="charge",
        state=state,
        attempt=2,
        failure_count=1,
        complete_by=None,
        input=None,
        output=output,
        error=error,
        started_at=NOW - timedelta(seconds=10),
        ended_at=NOW - timedelta(seconds=10) + timedelta(milliseconds=230),
    )


@pytest.mark.parametrize(
    ("then", "text"),
    [
        (NOW, "now"),
        (NOW - timedelta(milliseconds=900), "now"),
        (NOW - timedelta(seconds=42), "42s ago"),
        (NOW - timedelta(seconds=119), "1m ago"),
        (NOW - timedelta(hours=23, minutes=59), "23h ago"),
        (NOW - timedelta(days=400), "400d ago"),
        (NOW + timedelta(minutes=5), "in 5m"),
    ],
)
def test_an_age_is_one_number_in_its_largest_unit(then: datetime, text: str):
    assert age(then, now=NOW) == text


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.00041, "0.4ms"), (0.0123, "12ms"), (0.34, "340ms"), (0.99951, "1.0s"), (1.94, "1.9s"),
        (9.96, "10s"), (59.98, "1.0m"), (150, "2.5m"), (5_400, "1.5h"),
    ],
)  # fmt: skip
def test_a_length_of_time_is_said_in_the_digits_that_matter(seconds: float, said: str):
    assert brief(seconds) == said


def test_a_span_below_a_second_is_no_span():
    assert span(timedelta(milliseconds=999)) == "0s"


def test_an_instant_is_utc_with_a_z():
    assert instant(NOW) == "2030-01-31T12:00:00Z"


@pytest.mark.parametrize("state", [*TaskState, *StepState])
def test_every_state_has_a_colour(state: str):
    assert STYLES[state]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ünïcode", "plain ünïcode"),
        ("two\nlines", "two\\nlines"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("\u202eright to left", "\\u202eright to left"),
    ],
)
def test_text_from_elsewhere_stays_on_its_line_and_commands_no_terminal(text: str, shown: str):
    assert visible(text) == shown


def test_square_brackets_are_text_and_not_markup():
    [line] = [
        line
        for line in drawn(task_table([listed(error=Failure("E", "[red]no[/]"))], now=NOW))
        if "17" in line
    ]

    assert "E: [red]no[/]" in line


def test_a_list_keeps_ids_whole_and_cuts_notes():
    long = Failure("Permanent", "a very long story about what went wrong " * 5, step="ship:1")
    lines = drawn(task_table([listed(UUID, state="undone", error=long), listed()], now=NOW))

    assert max(map(len, lines)) <= 100
    [row] = [line for line in lines if UUID in line]
    assert row.split()[:4] == ["undone", UUID, "fulfil", "3m"]
    assert "Permanent at ship:1" in row
    assert row.endswith("…")


def test_an_id_that_is_wider_than_the_terminal_is_folded_and_not_cut():
    lines = drawn(task_table([listed("x" * 200)], now=NOW))

    assert sum(line.count("x") for line in lines) == 200


def test_details_say_what_a_person_asks_first():
    lines = drawn(task_details(task(), Reason("agent 'bank' works on it", "backstay tasks why x"), now=NOW))
    facts = {line.split()[0]: line for line in lines}

    assert "order-17" in facts["task"]
    assert "processing" in facts["state"]
    assert "fulfil v2" in facts["workflow"]
    assert "2030-01-31T12:09:00Z, in 9m" in facts["complete"]
    assert "customer = c9" in facts["attribute"]
    assert '{"city":"Lisbon"}' in facts["input"]
    assert "agent 'bank' works on it" in facts["why"]
    assert lines[-1].strip() == "backstay tasks why x"
    assert "output" not in facts
    assert "error" not in facts


def test_the_output_null_of_a_processed_task_is_shown():
    lines = drawn(task_details(task(state="processed"), Reason("it is processed"), now=NOW))

    assert [line.split() for line in lines if line.startswith("output")] == [["output", "null"]]


def test_a_step_shows_its_result_or_its_error():
    table = step_table([step(), step(state="failed", error=Failure("Refused", "no cover"))], now=NOW)
    done, failed = [line for line in drawn(table) if "charge:1" in line]

    assert done.split() == ["0.charge:1", "completed", "bank", "2", "10s", "ago", "230ms", '"ok"']
    assert failed.endswith("Refused: no cover")


# Who works


def agent(**changes: Any) -> AgentView:
    given: dict[str, Any] = {
        "name": "bank", "paused": False, "forced_breaker": None, "held_by": None, "reason": None,
        "instances": [],
    }  # fmt: skip
    return AgentView(**{**given, **changes})


def instance(id: str, **changes: Any) -> AgentInstance:
    given: dict[str, Any] = {
        "in_flight": 1, "waiting": 0, "concurrency": None, "concurrency_max": None, "breaker": "closed",
        "open_until": None,
    }  # fmt: skip
    return AgentInstance(id=id, **{**given, **changes})


def row(table: RenderableType, word: str) -> str:
    """The one line of a table with this word in it."""
    [line] = [line for line in drawn(table, columns=160) if word in line]
    return line


def test_an_agent_is_one_line_over_all_its_processes():
    instances = [instance("a", in_flight=2, waiting=5), instance("b", in_flight=3)]

    line = row(agent_table([agent(instances=instances)]), "bank")

    assert line.split() == ["bank", "live", "closed", "5", "5", "2"]


def test_the_limit_of_an_agent_is_summed_over_its_processes_and_says_where_a_pace_has_it_now():
    paced = [
        instance("a", concurrency=12, concurrency_max=50),
        instance("b", concurrency=50, concurrency_max=50),
    ]
    fixed = [instance("a", concurrency=4, concurrency_max=4)]

    assert "62 of 100" in row(agent_table([agent(instances=paced)]), "bank")
    assert row(agent_table([agent(instances=fixed)]), "bank").split() == [
        "bank",
        "live",
        "closed",
        "1",
        "4",
        "0",
        "1",
    ]


def test_how_long_calls_took_lately_and_how_many_failed_is_of_all_processes():
    calls = CallsView(number=200, failed=3, p50_seconds=0.0123, p95_seconds=0.4, p99_seconds=1.94)

    [line] = [line for line in drawn(agent_table([agent(calls=calls)]), columns=160) if "bank" in line]

    assert line.split()[-4:] == ["12ms", "1.9s", "1.5%", "0"]


def test_a_breaker_that_is_open_somewhere_says_in_how_many_processes():
    instances = [instance("a", breaker="open"), instance("b"), instance("c")]

    assert "open in 1, closed in 2" in row(agent_table([agent(instances=instances)]), "bank")


def test_an_agent_that_is_held_back_says_by_whom_and_why():
    held = agent(paused=True, forced_breaker="open", held_by="ann@ops", reason="the bank\nis away")

    line = row(agent_table([held]), "bank")

    assert line.split()[1:4] == ["paused", "held", "open"]
    assert line.endswith(r"held by ann@ops: the bank\nis away")


def test_a_workflow_that_nobody_runs_is_absent():
    view = WorkflowView(name="pay", versions=[], paused=False, held_by=None, reason=None, instances=[])

    assert row(workflow_table([view]), "pay").split() == ["pay", "absent", "0"]


def test_a_workflow_shows_its_versions():
    view = WorkflowView(
        name="pay", versions=[1, 3], paused=True, held_by="supervisor", reason=None, instances=["a"]
    )

    assert row(workflow_table([view]), "pay").split() == [
        "pay", "1,", "3", "paused", "1", "held", "by", "supervisor",
    ]  # fmt: skip


def test_the_supervisor_tells_who_leads_and_what_the_last_round_did():
    last = RoundView(at=NOW - timedelta(seconds=5), recovered=3, undone=1, errors=0, woken=2)
    view = SupervisorView(leader="host-1", epoch=4, lease_until=NOW + timedelta(seconds=10), last_round=last)

    facts = dict(supervisor_facts(view, now=NOW))

    assert facts["leader"] == "host-1"
    assert facts["lease until"] == "2030-01-31T12:00:10Z, in 10s"
    assert facts["it did"] == "3 recovered (1 of them undos), 2 woken, 0 held back"


def test_a_supervisor_that_never_was_is_nobody():
    view = SupervisorView(leader=None, epoch=0, lease_until=None, last_round=None)

    assert supervisor_facts(view, now=NOW) == [("leader", "nobody")]


# What operators watch


def test_an_alert_says_since_when_about_what_and_who_took_it_up():
    alert = Alert(
        id=7, kind=AlertKind.TASK_ERROR, target="task:o1", task_id="o1", step="charge:1",
        message="\x1b[31mno cover", at=NOW - timedelta(hours=2), last_at=NOW,
        acknowledged_by="ann@ops", acknowledged_at=NOW,
    )  # fmt: skip

    line = row(alert_table([alert], now=NOW), "o1")

    assert line.split()[:6] == ["7", "2h", "ago", "task_error", "o1", "charge:1"]
    assert re.search(r"ann@ops +\\x1b\[31mno cover$", line)


def test_a_line_of_the_trail_shows_what_is_another_afterwards():
    entry = Entry(
        id=1, at=NOW, who="ann@ops", action="resubmit from failed", target="task:o1", reason="bank is back",
        before={"state": "error", "failure_count": 3, "request": None},
        after={"state": "pending", "failure_count": 0, "request": None},
    )  # fmt: skip

    line = row(audit_table([entry]), "task:o1")

    assert line.split()[:2] == ["2030-01-31T12:00:00Z", "ann@ops"]
    assert "state error → pending, failure_count 3 → 0" in line
    assert line.endswith("bank is back")


def test_a_line_of_the_trail_about_something_new_shows_what_it_became():
    entry = Entry(
        id=1, at=NOW, who="ann", action="pause", target="agent:bank", reason=None,
        before=None, after={"paused": True, "breaker": None, "by": "ann"},
    )  # fmt: skip

    assert row(audit_table([entry]), "agent:bank").endswith("agent:bank  paused null → true")


def test_a_token_shows_its_role_and_never_more():
    live = TokenView(name="ci", role=Role.SUBMIT, created_at=NOW - timedelta(days=3), revoked_at=None)
    revoked = TokenView(name="old", role=Role.ADMIN, created_at=NOW - timedelta(days=9), revoked_at=NOW)

    table = token_table([live, revoked], now=NOW)

    assert row(table, "ci").split() == ["ci", "submit", "3d", "ago"]
    assert row(table, "old").split() == ["old", "admin", "9d", "ago", "now"]


def test_a_plan_says_in_which_order_and_what_is_a_persons_work():
    table = plan_table(
        [
            PlannedUndo(key="ship:1", agent="drone", outcome="done", manual=False),
            PlannedUndo(key="call:1", agent="desk", outcome="unsure", manual=True),
        ]
    )

    assert row(table, "ship:1").split() == ["1.", "ship:1", "done", "drone"]
    assert row(table, "call:1").split() == ["2.", "call:1", "unsure", "a", "person"]


def test_a_long_value_is_cut():
    text = value_text("x" * 5_000)

    assert (len(text), text[-1]) == (2_000, "…")
