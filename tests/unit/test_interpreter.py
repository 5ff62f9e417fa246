"""How Python itself is set while roles run."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator

import pytest

from backstay.runtime.interpreter import INTERVAL_SECONDS, YOUNGEST, set_up_for_roles


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    thresholds, interval = gc.get_threshold(), sys.getswitchinterval()
    yield
    gc.set_threshold(*thresholds)
    sys.setswitchinterval(interval)


def test_searches_are_rare_and_hand_overs_soon_while_roles_run_and_as_before_afterwards():
    gc.set_threshold(700, 10, 10)
    sys.setswitchinterval(0.005)

    with set_up_for_roles():
        assert gc.get_threshold() == (YOUNGEST, 10, 10)
        assert sys.getswitchinterval() == INTERVAL_SECONDS

    assert gc.get_threshold() == (700, 10, 10)
    assert sys.getswitchinterval() == 0.005


def test_what_the_application_has_set_up_stays():
    gc.set_threshold(5_000, 20, 20)
    sys.setswitchinterval(0.02)

    with set_up_for_roles():
        assert gc.get_threshold() == (5_000, 20, 20)
        assert sys.getswitchinterval() == 0.02

    assert gc.get_threshold() == (5_000, 20, 20)
    assert sys.getswitchinterval() == 0.02
