"""Which fields of a decoded JSON value nobody would read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import msgspec
import pydantic
import pytest

from backstay.definitions.codec import Signature, type_hints
from backstay.definitions.strict import unknown_field
from backstay.errors import InvalidInput


class Item(msgspec.Struct):
    sku: str
    count: int = 1


class Renamed(msgspec.Struct, rename="camel"):
    first_name: str


@dataclass
class Address:
    street: str
    item: Item | None = None


class Options(TypedDict, total=False):
    colour: str
    item: Item


class Point(NamedTuple):
    x: int
    item: Item | None = None


class Row(msgspec.Struct, array_like=True):
    item: Item
    count: int = 1


class Card(msgspec.Struct, tag="card"):
    number: str


class Cash(msgspec.Struct, tag="cash"):
    amount: int
    item: Item | None = None


class Cheque(msgspec.Struct, tag=True, array_like=True):
    amount: int


class Coupon(msgspec.Struct, tag=True, array_like=True):
    code: str
    item: Item | None = None


class Tree(msgspec.Struct):
    name: str
    children: list[Tree] = []


class Model(pydantic.BaseModel):
    name: str


ITEM = {"sku": "nail"}
WRONG = {"sku": "nail", "size": 3}


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Item, ITEM),
        (Item, "of another type"),
        (Item, [WRONG]),
        (Renamed, {"firstName": "ann"}),
        (Address, {"street": "x", "item": None}),
        (Options, {"item": ITEM}),
        (Point, [1, ITEM]),
        (Point, [1]),
        (Row, [ITEM, 2]),
        (list[Item], [ITEM, ITEM]),
        (tuple[Item, int], [ITEM, 1]),
        (tuple[Item, ...], [ITEM]),
        (frozenset[str], ["a"]),
        (dict[str, Item], {"anything": ITEM}),
        (Item | None, None),
        (Item | None, ITEM),
        (Item | list[Item] | int, 7),
        (Card | Cash, {"type": "cash", "amount": 1}),
        (Card | Cash, {"type": "gold", "amount": 1}),
        (Cheque | Coupon, ["Coupon", "x", ITEM]),
        (Cheque | Coupon, []),
        (Annotated[Item, msgspec.Meta(description="one")], ITEM),
        (Tree, {"name": "a", "children": [{"name": "b", "children": []}]}),
        (Any, WRONG),
        (Item | Any, WRONG),
        (dict, WRONG),
        (list, [WRONG]),
        (msgspec.Raw, WRONG),
        (Model, {"name": "a", "size": 3}),
        (Model | None, {"name": "a", "size": 3}),
        (Literal["a", "b"], "a"),
        (None, {"a": 1}),
        (int, WRONG),
    ],
)
def test_what_is_known_passes_and_what_does_not_fit_at_all_is_for_the_decoder(kind: Any, value: Any):
    assert unknown_field(kind, value) is None


@pytest.mark.parametrize(
    ("kind", "value", "path", "name"),
    [
        (Item, WRONG, "$", "size"),
        (Renamed, {"firstName": "ann", "first_name": "ann"}, "$", "first_name"),
        (Address, {"street": "x", "city": "y"}, "$", "city"),
        (Address, {"street": "x", "item": WRONG}, "$.item", "size"),
        (Options, {"color": "red"}, "$", "color"),
        (Options, {"item": WRONG}, "$.item", "size"),
        (Point, [1, WRONG], "$[1]", "size"),
        (Point, [1, ITEM, 3], "$", "[2]"),
        (Row, [WRONG], "$[0]", "size"),
        (Row, [ITEM, 1, 2], "$", "[2]"),
        (list[Item], [ITEM, WRONG], "$[1]", "size"),
        (tuple[int, Item], [1, WRONG], "$[1]", "size"),
        (tuple[Item, ...], [WRONG], "$[0]", "size"),
        (dict[str, list[Item]], {"a": [ITEM, WRONG]}, "$.a[1]", "size"),
        (Item | None, WRONG, "$", "size"),
        (Item | list[Item] | int, [WRONG], "$[0]", "size"),
        (Card | Cash, {"type": "cash", "amount": 1, "number": "7"}, "$", "number"),
        (Card | Cash, {"type": "cash", "amount": 1, "item": WRONG}, "$.item", "size"),
        (Cheque | Coupon, ["Coupon", "x", WRONG], "$[2]", "size"),
        (Cheque | Coupon, ["Cheque", 1, 2], "$", "[2]"),
        (Annotated[Item, msgspec.Meta(description="one")] | None, WRONG, "$", "size"),
        (Tree, {"name": "a", "children": [{"name": "b", "kids": []}]}, "$.children[0]", "kids"),
    ],
)
def test_a_field_that_nobody_reads_is_found_at_any_depth(kind: Any, value: Any, path: str, name: str):
    unknown = unknown_field(kind, value)

    assert unknown is not None
    assert (unknown.path, unknown.name) == (path, name)


def test_the_message_names_the_path_the_field_and_what_is_known():
    assert str(unknown_field(list[Item], [WRONG])) == "unknown field 'size' at $[0]; known: sku, count"


# The input of a workflow


def signature(function: Any) -> Signature:
    return Signature(function, "workflow w", hints=type_hints(function, "workflow w", {}))


def test_the_input_of_one_argument_is_its_value():
    async def w(item: Item) -> None: ...

    signature(w).check_fields(ITEM)
    with pytest.raises(
        InvalidInput, match=r"^input of workflow w has an unknown field 'size' at \$; known: "
    ):
        signature(w).check_fields(WRONG)


def test_several_arguments_are_fields_themselves():
    async def w(item: Item, count: int = 1) -> None: ...

    signature(w).check_fields({"item": ITEM})
    with pytest.raises(InvalidInput, match=r"'colour' at \$; known: item, count"):
        signature(w).check_fields({"item": ITEM, "colour": "red"})
    with pytest.raises(InvalidInput, match=r"'size' at \$\.item"):
        signature(w).check_fields({"item": WRONG})


def test_where_nothing_is_declared_nothing_is_judged():
    async def w(value: Any) -> None: ...
    async def none() -> None: ...

    signature(w).check_fields(WRONG)
    signature(none).check_fields({})


def test_a_value_without_bottom_is_refused():
    async def w(tree: Tree) -> None: ...

    value: dict[str, Any] = {"name": "leaf"}
    for _ in range(100_000):
        value = {"name": "node", "children": [value]}

    with pytest.raises(InvalidInput, match="nested too deeply"):
        signature(w).check_fields(value)
    while value.get("children"):  # Taken apart from above: to drop it as a whole would overrun the stack.
        value = value["children"].pop()
