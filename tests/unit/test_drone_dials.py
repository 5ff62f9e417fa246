"""The fault dial of a service as knobs, and back."""

from __future__ import annotations

import pytest

from backstay import InvalidRequest
from drone_delivery.demo.dials import dial_of, knobs_of
from drone_delivery.services.faults import Dial, Latency


@pytest.mark.parametrize(
    "dial",
    [
        Dial(),
        Dial(outage=True, for_seconds=8),
        Dial(hang=True, error_rate=0.5, latency_ms=Latency(median=20, p99=200)),
    ],
)
def test_a_dial_that_is_turned_to_where_it_stands_is_the_same_dial(dial: Dial):
    assert dial_of({knob.name: knob.value for knob in knobs_of(dial)}) == dial


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"median": 20}, "give both median and p99"),
        ({"median": 200, "p99": 20}, "median may be p99 at most"),
    ],
)
def test_what_makes_no_dial_says_why(changes: dict[str, float], said: str):
    values = {knob.name: knob.value for knob in knobs_of(Dial())}

    with pytest.raises(InvalidRequest, match=said):
        dial_of({**values, **changes})
