"""Where a collection is said to be. Nothing depends on it here, but clients read back its full name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

LOCATIONS: Final = (
    "Australia East",
    "Australia Southeast",
    "Brazil South",
    "Canada Central",
    "Canada East",
    "Central India",
    "Central US",
    "East Asia",
    "East US",
    "East US 2",
    "France Central",
    "Japan East",
    "Japan West",
    "Korea Central",
    "Korea South",
    "North Central US",
    "North Europe",
    "South Central US",
    "South India",
    "Southeast Asia",
    "UK South",
    "UK West",
    "West Central US",
    "West Europe",
    "West India",
    "West US",
    "West US 2",
)


def _folded(location: str) -> str:
    return "".join(location.split()).casefold()


_DISPLAYED: Final[Mapping[str, str]] = {_folded(one): one for one in LOCATIONS}


def display_name(location: str) -> str:
    """``westus`` is shown as West US; a place that Azure does not have, as it was written."""
    return _DISPLAYED.get(_folded(location), location)


def is_same_location(one: str, other: str) -> bool:
    return _folded(one) == _folded(other)
