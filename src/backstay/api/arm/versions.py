"""The api-versions, and what differs between them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Final

from backstay.api.arm.errors import ArmRefused
from backstay.api.arm.shapes import API_VERSIONS, ApiVersion
from backstay.domain.jobs.records import Sku
from backstay.jobroom import SKUS

_EARLIER: Final = (Sku.STANDARD, Sku.FREE, Sku.PREMIUM)
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(-[a-z]+)?")


def check_version(given: Sequence[str], *, any_date: bool = False) -> None:
    """Raise ArmRefused unless one is given that is known; with ``any_date``, one that looks like any."""
    if not given or not given[0]:
        raise ArmRefused(
            HTTPStatus.BAD_REQUEST,
            "MissingApiVersionParameter",
            "The api-version query parameter (?api-version=) is required for all requests.",
        )
    [version, *more] = given
    if more or not (_DATE.fullmatch(version) if any_date else version in API_VERSIONS):
        raise ArmRefused(
            HTTPStatus.BAD_REQUEST,
            "InvalidApiVersionParameter",
            f"The api-version '{version[:40]}' is invalid."
            f" The supported versions are '{','.join(API_VERSIONS)}'.",
        )


def skus_of(version: ApiVersion) -> Sequence[Sku]:
    """What a collection may be given by a client of this version."""
    return SKUS if version == API_VERSIONS[0] else _EARLIER
