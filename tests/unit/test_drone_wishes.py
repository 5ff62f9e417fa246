"""What customers want is read from events strictly: whatever else is on the stream is set aside."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from backstay import Event
from drone_delivery.entities import DeliveryRequest, NewSchedule
from drone_delivery.wishes import AnyWish, Cancel, Deliver, Reschedule, is_change, is_new, parse
from tests.support.drone_platform import distinct_request

REQUEST = msgspec.convert({**distinct_request(7), "deliveryId": "d-7"}, DeliveryRequest)
DELIVER = Deliver(request=REQUEST)
RESCHEDULE = Reschedule(delivery_id="d-7", change_id="c-1", schedule=NewSchedule(deadline="tomorrow"))
CANCEL = Cancel(delivery_id="d-7")


def sent(wish: AnyWish) -> Any:
    return msgspec.to_builtins(wish)


@pytest.mark.parametrize("wish", [DELIVER, RESCHEDULE, CANCEL], ids=lambda wish: type(wish).__name__)
def test_what_was_appended_is_what_is_read(wish: AnyWish):
    assert parse(Event(body=sent(wish), key="d-7")) == wish


def test_a_new_delivery_is_for_one_group_and_everything_else_for_the_other():
    assert [is_new(wish) for wish in (DELIVER, RESCHEDULE, CANCEL)] == [True, False, False]
    assert [is_change(wish) for wish in (DELIVER, RESCHEDULE, CANCEL)] == [False, True, True]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (None, "object"),
        ("d-7", "object"),
        ({}, "operation"),
        ({"operation": "explode", "deliveryId": "d-7"}, "explode"),
        ({"operation": "deliver", "request": {}}, "ownerId"),
        ({"operation": "cancel", "deliveryId": "d-7", "reason": "no"}, "reason"),
        ({"operation": "cancel", "deliveryId": "../d-7"}, "deliveryId"),
        ({"operation": "cancel", "deliveryId": "d-8"}, "it must be the delivery's id, 'd-8'"),
        ({**sent(RESCHEDULE), "schedule": {}}, "nothing is to change"),
        (
            {"operation": "deliver", "request": {**sent(DELIVER)["request"], "pickupLocation": "0,91,0"}},
            "nowhere on earth",
        ),
    ],
)
def test_anything_else_raises_and_says_what_is_wrong(body: Any, said: str):
    with pytest.raises(ValueError, match=said):
        parse(Event(body=body, key="d-7"))
