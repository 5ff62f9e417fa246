"""What a customer orders, as it goes over the wire: camelCase, and unknown fields refused."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

CENTS_MAX: Final = 100_000_000

#: No control characters: a name is shown in terminals.
Customer = Annotated[str, msgspec.Meta(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+\Z")]
Cents = Annotated[int, msgspec.Meta(ge=1, le=CENTS_MAX)]

#: What a payment page gives out in exchange for a card. No card number has this form, so none gets past it.
CardToken = Annotated[str, msgspec.Meta(max_length=64, pattern=r"^tok_[a-z0-9_]+\Z")]


class NewOrder(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """An order as it is placed."""

    customer: Customer
    cents: Cents
    card_token: CardToken


class Order(NewOrder, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """An order as it is fulfilled: the input of its task."""

    id: str
