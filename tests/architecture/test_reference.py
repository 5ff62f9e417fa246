"""The pages in docs/reference are what they describe."""

from __future__ import annotations

import inspect

import backstay
from backstay import testing
from tools.reference import python
from tools.reference.pages import pages


def test_the_reference_is_current():
    outdated = [path.name for path, text in pages().items() if path.read_text(encoding="utf-8") != text]

    assert outdated == [], "run `make reference`"


def test_every_public_name_has_one_place_in_the_reference():
    things = [thing for section in python.SECTIONS.values() for thing in section]

    assert len(things) == len(set(things))
    assert {getattr(backstay, name) for name in backstay.__all__} <= set(things)
    assert {testing.stepped, testing.Platform, testing.ManualClock} <= set(things)


def test_whatever_is_told_of_has_a_docstring():
    things = [thing for section in python.SECTIONS.values() for thing in section]

    assert [thing.__name__ for thing in things if not thing.__doc__] == []


def test_a_long_signature_has_a_line_for_each_parameter():
    def place(order, /, *items, by="(,", **more): ...

    assert python.broken(inspect.signature(place)).splitlines() == [
        "(",
        "    order,",
        "    /,",
        "    *items,",
        "    by='(,',",
        "    **more,",
        ")",
    ]
