"""Which failures are looked at once more: tools/every_test.py."""

from __future__ import annotations

import pytest

from tools.every_test import LOOKED_AT_AGAIN_MAX, deserves_another_look

KILLS = "tests/chaos/test_random_kills.py::test_nothing_is_lost"


@pytest.mark.parametrize("folder", ["acceptance", "browser", "chaos", "integration/streams"])
def test_a_few_failures_among_processes_are_looked_at_again(folder: str):
    few = [f"tests/{folder}/test_it.py::test_{number}" for number in range(LOOKED_AT_AGAIN_MAX)]

    assert deserves_another_look(few)


def test_many_failures_are_no_accident():
    many = [f"{KILLS}[{number}]" for number in range(LOOKED_AT_AGAIN_MAX + 1)]

    assert not deserves_another_look(many)


@pytest.mark.parametrize("folder", ["unit", "property", "conformance", "migration", "architecture"])
def test_what_computes_and_compares_fails_at_once_whatever_failed_beside_it(folder: str):
    assert not deserves_another_look([KILLS, f"tests/{folder}/test_it.py::test_it"])


def test_a_run_that_failed_without_a_failed_test_stays_failed():
    assert not deserves_another_look([])
