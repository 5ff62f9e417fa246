"""Events and alerts as lines for people: one each, with what is known of them."""

from __future__ import annotations

import pytest

from backstay.observe import alert, emit


def test_what_is_not_known_is_not_in_the_line(caplog: pytest.LogCaptureFixture):
    alert("task_error", task_id="o1", step=None, message="no")

    assert caplog.messages == ["alert=task_error task_id=o1 message=no"]


def test_whatever_a_value_holds_it_is_one_line(caplog: pytest.LogCaptureFixture):
    caplog.set_level("INFO", logger="backstay")

    emit("step_retried", task_id="o1", error="one\ntwo")

    assert caplog.messages == [r"step_retried task_id=o1 error=one\ntwo"]
