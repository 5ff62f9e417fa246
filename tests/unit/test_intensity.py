"""Restart intensity: what has to be recovered too often is named."""

from __future__ import annotations

import pytest

from backstay.domain.control import Subject
from backstay.domain.intensity import Excess, excesses


@pytest.mark.parametrize("number", [0, 1, 3])
def test_what_stays_within_the_limit_is_left_alone(number: int):
    assert excesses([("ship", None, number)], most=3) == []


def test_one_more_than_the_limit_is_too_much():
    assert excesses([("ship", None, 4)], most=3) == [Excess(Subject.WORKFLOW, "ship", 4)]


def test_recoveries_of_one_workflow_add_up_and_those_of_another_do_not():
    found = excesses([("ship", None, 2), ("bill", None, 3), ("ship", None, 2)], most=3)

    assert found == [Excess(Subject.WORKFLOW, "ship", 4)]


def test_hung_steps_are_held_against_their_agent_in_whatever_workflow():
    found = excesses([("ship", "drone", 2), ("bill", "drone", 2), ("ship", None, 3)], most=3)

    assert found == [Excess(Subject.AGENT, "drone", 4)]
