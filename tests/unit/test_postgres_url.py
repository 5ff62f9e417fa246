"""Which database, and which schema in it: what goes to the driver, and what people may see."""

from __future__ import annotations

import traceback
from urllib.parse import parse_qs, urlsplit

import pytest

from backstay.errors import InvalidSetting
from backstay.store.postgres.url import address_of


def test_an_address_without_options_goes_to_the_driver_as_it_is():
    address = address_of("postgresql://app:pw@db.example:5433/shop")

    assert address.dsn == "postgresql://app:pw@db.example:5433/shop"
    assert address.schema == "backstay"


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_both_usual_schemes_are_known(scheme: str):
    assert address_of(f"{scheme}://db.example/shop").label == "postgresql://db.example/shop"


def test_the_schema_is_ours_and_all_other_options_are_the_drivers():
    address = address_of(
        "postgresql://app@db.example/shop?sslmode=require&schema=orders&application_name=a%20b"
    )

    assert address.schema == "orders"
    assert parse_qs(urlsplit(address.dsn).query) == {"sslmode": ["require"], "application_name": ["a b"]}


def test_an_option_that_is_empty_is_passed_through_as_well():
    assert urlsplit(address_of("postgresql://h/d?sslcert=").dsn).query == "sslcert="


@pytest.mark.parametrize("schema", ["orders", "_orders", "orders_2", "o", "x" * 48])
def test_a_schema_is_a_name_that_needs_no_quotes(schema: str):
    assert address_of(f"postgresql://h/d?schema={schema}").schema == schema


@pytest.mark.parametrize(
    "schema", ["", "Orders", "my-orders", "2nd", "a.b", "a%20b", "a%22b", "a%3Bb", "%C3%A4", "a%0A", "x" * 49]
)
def test_another_schema_is_refused(schema: str):
    with pytest.raises(InvalidSetting, match="it may hold small letters, digits and _, up to 48"):
        address_of(f"postgresql://h/d?schema={schema}")


# What people see


@pytest.mark.parametrize(
    ("url", "label"),
    [
        ("postgresql://db.example/shop", "postgresql://db.example/shop"),
        ("postgresql://app@db.example:5433/shop", "postgresql://app@db.example:5433/shop"),
        ("postgresql://app:hidden@db.example/shop", "postgresql://app@db.example/shop"),
        ("postgresql://app:hid@den@db.example/shop", "postgresql://app@db.example/shop"),
        ("postgresql://app:hid%2Fden@db.example/shop", "postgresql://app@db.example/shop"),
        ("postgresql://:hidden@db.example/shop", "postgresql://db.example/shop"),
        ("postgresql://app@db.example/shop?password=hidden", "postgresql://app@db.example/shop"),
        ("postgresql://app:hidden@[::1]:5433/shop", "postgresql://app@[::1]:5433/shop"),
        ("postgresql://app@/shop?host=/run/postgresql", "postgresql://app@/run/postgresql/shop"),
        ("postgresql:///shop", "postgresql://localhost/shop"),
        ("postgresql://db.example/shop?user=app@corp", "postgresql://db.example/shop"),
    ],
)
def test_a_label_says_where_the_store_is_and_never_holds_the_password(url: str, label: str):
    assert address_of(url).label == label


@pytest.mark.parametrize("password", ["11/hidden", "11?hidden", "11#hidden", "hid/den", "hid#den", "hid?den"])
def test_a_password_that_cuts_the_address_in_two_is_refused_and_not_repeated(password: str):
    with pytest.raises(InvalidSetting) as refused:
        address_of(f"postgresql://app:{password}@db.example/shop")

    said = "".join(traceback.format_exception_only(refused.value))
    assert "hid" not in said
    assert "11" not in said
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


def test_a_password_that_must_be_encoded_is_answered_with_how():
    with pytest.raises(InvalidSetting, match="must be percent-encoded: %2F for /"):
        address_of("postgresql://app:11/hidden@db.example/shop")


@pytest.mark.parametrize(
    "url",
    ["postgresql://h:port/d", "postgresql://h:99999/d", "postgresql://[::1/d", "postgresql://h1:1,h2:2/d"],
)
def test_what_is_no_url_is_answered_with_how_to_write_one(url: str):
    with pytest.raises(
        InvalidSetting, match="store is not a URL; write postgresql://user@host:port/database"
    ):
        address_of(url)


def test_another_scheme_is_named():
    with pytest.raises(InvalidSetting, match="store has the scheme 'mysql'"):
        address_of("mysql://app:hidden@h/d")
