"""Which roles a process may have together."""

from __future__ import annotations

import pytest

from backstay.errors import InvalidSetting
from backstay.runtime.roles import ALL, Role, as_names, parse_roles


def test_roles_are_named_with_or_without_blanks():
    assert parse_roles(["api", " supervisor "]) == {Role.API, Role.SUPERVISOR}


def test_all_of_them_together_are_the_default():
    assert parse_roles(as_names(ALL)) == ALL


@pytest.mark.parametrize("names", [["scheduler"], ["agents", "api"], ["agents", "supervisor"]])
def test_any_of_them_may_be_alone_or_beside_any_other(names: list[str]):
    assert parse_roles(names) == {Role(name) for name in names}


@pytest.mark.parametrize("names", [["janitor"], [""], ["api", "jobz"]])
def test_an_unknown_role_is_refused_by_name(names: list[str]):
    with pytest.raises(
        InvalidSetting, match=f"there is no role '{names[-1]}'; roles: api, ingest, scheduler"
    ):
        parse_roles(names)


def test_no_role_at_all_is_refused():
    with pytest.raises(InvalidSetting, match="no role is named"):
        parse_roles([])
