"""Names of collections and jobs, and where a collection is."""

from __future__ import annotations

import re
from typing import Final

from backstay.domain.jobs.records import CollectionId
from backstay.domain.text import shortened
from backstay.errors import InvalidJob

NAME_LENGTH_MAX: Final = 100
GROUP_LENGTH_MAX: Final = 90

_NAME: Final = re.compile(rf"[A-Za-z][A-Za-z0-9_-]{{0,{NAME_LENGTH_MAX - 1}}}")
_SUBSCRIPTION: Final = re.compile(rf"[A-Za-z0-9_.-]{{1,{NAME_LENGTH_MAX}}}")
# A group's name does not end in a point, as with Azure.
_GROUP: Final = re.compile(rf"(?=.{{1,{GROUP_LENGTH_MAX}}}$)[\w().-]*[\w()-]")


def check_name(value: str, what: str) -> str:
    """Return ``value`` if it may be the name of a ``what``. Raises InvalidJob."""
    if _NAME.fullmatch(value) is None:
        raise InvalidJob(
            f"the name of the {what}",
            f"is {shortened(value)}; write a letter, then letters, digits, - and _,"
            f" {NAME_LENGTH_MAX} characters at most",
        )
    return value


def check_place(id: CollectionId) -> CollectionId:
    """Return ``id`` if a collection may be there. Raises InvalidJob."""
    check_name(id.name, "job collection")
    if _SUBSCRIPTION.fullmatch(id.subscription) is None:
        raise InvalidJob(
            "the subscription",
            f"is {shortened(id.subscription)}; write 1 to {NAME_LENGTH_MAX} letters, digits, -, _ and .",
        )
    if _GROUP.fullmatch(id.resource_group) is None:
        raise InvalidJob(
            "the resource group",
            f"is {shortened(id.resource_group)}; write 1 to {GROUP_LENGTH_MAX} letters, digits,"
            " -, _, ( and ), and points that are not the last",
        )
    return id
