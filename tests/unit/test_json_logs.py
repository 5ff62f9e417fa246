"""Logs as JSON: one record is one line that programs can read, whatever a value holds."""

from __future__ import annotations

import json
import logging

import pytest

from backstay.cli.logs import JsonLines
from backstay.errors import InvalidSetting
from backstay.observe import alert, emit, log
from backstay.settings import Settings


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.setFormatter(JsonLines())

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture
def lines():
    handler = Lines()
    log.addHandler(handler)
    level = log.level
    log.setLevel(logging.DEBUG)
    yield handler.lines
    log.setLevel(level)
    log.removeHandler(handler)


def test_an_event_has_its_name_and_fields(lines: list[str]):
    emit("step_retried", task_id="o1", step="charge:1", attempt=2)

    [line] = map(json.loads, lines)
    assert line.pop("at").endswith("Z")
    assert line == {
        "level": "INFO", "logger": "backstay", "event": "step_retried",
        "task_id": "o1", "step": "charge:1", "attempt": 2,
    }  # fmt: skip


def test_an_alert_names_its_kind_and_task(lines: list[str]):
    alert("task_error", task_id="o1", message="no")

    [line] = map(json.loads, lines)
    assert (line["event"], line["alert"], line["task_id"]) == ("alert", "task_error", "o1")


@pytest.mark.parametrize(
    "said", ["a\nERROR alert=forged task_id=x", '"} {"event": "alert"', "\x1b[31m\u2028\0", "\ud83d"]
)
def test_nothing_that_a_service_says_makes_another_line_or_field(lines: list[str], said: str):
    emit("step_retried", error=said)

    [line] = lines
    assert "\n" not in line
    assert json.loads(line)["event"] == "step_retried"


def test_a_traceback_is_in_its_record(lines: list[str]):
    try:
        raise ValueError("no")
    except ValueError:
        log.exception("it broke")

    [line] = map(json.loads, lines)
    assert (line["message"], "ValueError: no" in line["traceback"]) == ("it broke", True)


@pytest.mark.parametrize("wrong", [{"log_format": "xml"}, {"log_level": "loud"}])
def test_another_format_or_level_is_refused(wrong: dict[str, str]):
    with pytest.raises(InvalidSetting):
        Settings.load(wrong, environment={})
