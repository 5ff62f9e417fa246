"""Who may do what over HTTP: four roles, each with the rights of those before it."""

from __future__ import annotations

import hashlib
from datetime import datetime
from enum import StrEnum
from typing import Final

import msgspec

TOKENS_MAX: Final = 1_000


class Role(StrEnum):
    """What a token lets its holder do."""

    READ = "read"  # look
    SUBMIT = "submit"  # and hand in tasks
    OPERATE = "operate"  # and step in: resubmit, undo, signal, pause, acknowledge
    ADMIN = "admin"  # and manage tokens

    def includes(self, other: Role) -> bool:
        return _RANKS[self] >= _RANKS[other]


_RANKS: Final = {role: rank for rank, role in enumerate(Role)}


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """A token as the store knows it: never the secret, only its digest."""

    name: str
    role: Role
    digest: str
    created_at: datetime
    revoked_at: datetime | None = None


def digest_of(secret: str) -> str:
    """What is kept of a token. A secret of 256 random bits needs no slow hash: nobody can guess it."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
