"""What people see in a terminal: short, whole where it counts, and harmless."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console, RenderableType

from backstay.cli.render import STYLES, age, instant, span, step_table, task_details, task_table, visible
from backstay.domain.states import StepState, TaskState
from backstay.domain.step import Failure
from backstay.domain.why import Reason
from backstay.views import Step, Task

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
