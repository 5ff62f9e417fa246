"""Types that several routes take."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from backstay.domain.task import ID_LENGTH_MAX

ITEMS_MAX: Final = 1_000
_KEY_MAX: Final = 2**63 - 1

ID_PATTERN: Final = f"[A-Za-z0-9._:@~-]{{1,{ID_LENGTH_MAX}}}"

# In Python `$` admits a line break behind it. `\Z` would not, but the pattern stands in the schemas as
# well, whose dialect is that of ECMAScript and does not know it.
Id = Annotated[str, msgspec.Meta(pattern=rf"^{ID_PATTERN}$(?!\n)")]
Limit = Annotated[int, msgspec.Meta(ge=1, le=ITEMS_MAX, description="How many at most.")]
Cursor = Annotated[int, msgspec.Meta(ge=1, le=_KEY_MAX, description="As `next` of the page before.")]
Reason = Annotated[str | None, msgspec.Meta(description="Why; it is kept in the audit trail.")]
Number = Annotated[int, msgspec.Meta(ge=1, le=_KEY_MAX)]


class NamePath(msgspec.Struct, frozen=True):
    name: Id


class ReasonQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of what has no body."""

    reason: Reason = None


class Because(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why; it is kept in the audit trail."""

    reason: str | None = None
