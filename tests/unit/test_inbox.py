"""How much of what waits goes into one commit."""

from __future__ import annotations

from typing import Any

import pytest

from backstay.store.sqlite.inbox import DIVIDED_FROM, Inbox


def move(number: int) -> Any:
    """A transition, as far as an inbox looks at one."""
    return (number, None)


def filled(inbox: Inbox, number: int) -> None:
    for place in range(number):
        inbox.add(move(place))


@pytest.mark.parametrize("number", [1, DIVIDED_FROM - 1, DIVIDED_FROM])
def test_few_go_together(number: int):
    inbox = Inbox()
    filled(inbox, number)

    assert len(inbox.take([]).posted) == number
    assert not inbox


def test_of_many_that_move_one_half_is_written_while_the_other_half_is_worked_on():
    moving = 8 * DIVIDED_FROM
    inbox = Inbox()
    filled(inbox, moving)
    sizes = [0]
    for _ in range(20):
        batch = inbox.take([])
        filled(inbox, sizes[-1])  # Those of the commit before have moved again.
        sizes.append(len(batch.posted))

    assert sizes[-4:] == [moving // 2] * 4


def test_the_order_is_kept_and_what_could_not_be_written_comes_first():
    inbox = Inbox()
    filled(inbox, 3)

    batch = inbox.take([move(-1)])

    assert batch.posted == [move(number) for number in (-1, 0, 1, 2)]
