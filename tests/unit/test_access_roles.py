"""Roles: each has the rights of those before it. Tokens: only their digest is kept."""

from __future__ import annotations

import pytest

from backstay.domain.access import Role, digest_of

ORDER = [Role.READ, Role.SUBMIT, Role.OPERATE, Role.ADMIN]


@pytest.mark.parametrize("held", ORDER)
@pytest.mark.parametrize("wanted", ORDER)
def test_a_role_includes_itself_and_those_before_it(held: Role, wanted: Role):
    assert held.includes(wanted) is (ORDER.index(held) >= ORDER.index(wanted))


def test_a_digest_tells_secrets_apart_and_does_not_hold_them():
    assert digest_of("one") != digest_of("two")
    assert "one" not in digest_of("one")


def test_even_half_a_surrogate_pair_has_a_digest():
    assert len(digest_of("\ud800")) == 64
