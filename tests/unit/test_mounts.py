"""Where an application of the user's own may be mounted."""

from __future__ import annotations

from typing import Any

import pytest

from backstay import App
from backstay.api.routes import ROUTES
from backstay.definitions.mounts import RESERVED, check_path, overlap
from backstay.errors import InvalidDefinition


async def nothing(scope: Any, receive: Any, send: Any) -> None: ...


# Paths


@pytest.mark.parametrize(
    "path",
    [
        "/api",
        "/a",
        "/api/v1",
        "/a/b/c/d",
        "/my-shop",
        "/my_shop",
        "/~me",
        "/api.v2",
        "/v1x",
        "/V1",
        "/shop/v1",
    ],
)
def test_a_path_of_plain_names_is_accepted(path: str):
    assert check_path(path) == path


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "//",
        "api",
        "api/",
        "/api/",
        "//api",
        "/api//v1",
        "/.",
        "/..",
        "/api/..",
        "/api/../v1",
        "/.hidden",
        "/%61pi",
        "/api%2Fv1",
        "/api?x=1",
        "/api#top",
        "/my shop",
        " /api",
        "/api ",
        "/api\n",
        "/api\0",
        "/café",
        "/{name}",
        "/api;x",
        "\\api",
        "http://localhost/api",
    ],
)
def test_any_other_path_is_refused_and_the_error_shows_how_to_write_one(path: str):
    with pytest.raises(InvalidDefinition, match="with a slash before each name, as in '/api'"):
        check_path(path)


@pytest.mark.parametrize("first", sorted(RESERVED))
@pytest.mark.parametrize("rest", ["", "/shop"])
def test_a_path_that_begins_as_one_of_backstays_own_is_refused(first: str, rest: str):
    with pytest.raises(InvalidDefinition, match=f"paths below '/{first}' are Backstay's own"):
        check_path(f"/{first}{rest}")


def test_every_route_of_the_interface_begins_with_a_reserved_name():
    assert {route.path.split("/")[1] for route in ROUTES} <= RESERVED


# More than one


@pytest.mark.parametrize(
    ("path", "other"), [("/api", "/api"), ("/api", "/api/v2"), ("/api", "/api/v2/x"), ("/a/b", "/a/b/c")]
)
def test_of_two_mounts_neither_may_contain_the_other(path: str, other: str):
    for first, second in ((path, other), (other, path)):
        app = App("shop")
        app.mount(first, nothing)

        with pytest.raises(InvalidDefinition, match=f"'{second}' and '{first}' are both mounted"):
            app.mount(second, nothing)

        assert list(app.registry.mounts) == [first]


@pytest.mark.parametrize(
    ("path", "other"),
    [("/ap", "/api"), ("/api", "/api2"), ("/a/b", "/a/c"), ("/a/b", "/b"), ("/api", "/API")],
)
def test_paths_that_only_begin_alike_do_not_overlap(path: str, other: str):
    app = App("shop")

    app.mount(path, nothing)
    app.mount(other, nothing)

    assert list(app.registry.mounts) == [path, other]
    assert not overlap(path, other)
    assert not overlap(other, path)


def test_a_path_that_is_refused_leaves_nothing_behind():
    app = App("shop")

    with pytest.raises(InvalidDefinition):
        app.mount("/v1/shop", nothing)

    assert app.registry.mounts == {}
