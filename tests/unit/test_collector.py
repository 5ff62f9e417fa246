"""How often Python searches for garbage while roles run."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from backstay.runtime.collector import YOUNGEST, rare_collections


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_the_search_is_rare_while_roles_run_and_as_before_afterwards():
    gc.set_threshold(700, 10, 10)

    with rare_collections():
        assert gc.get_threshold() == (YOUNGEST, 10, 10)

    assert gc.get_threshold() == (700, 10, 10)


def test_what_the_application_has_set_up_stays():
    gc.set_threshold(5_000, 20, 20)

    with rare_collections():
        assert gc.get_threshold() == (5_000, 20, 20)

    assert gc.get_threshold() == (5_000, 20, 20)
