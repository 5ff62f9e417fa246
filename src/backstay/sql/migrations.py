"""Numbered schema changes, each applied once and never edited afterwards.

A release only ever adds files: expand first, contract a release later, so that the previous
release keeps working on the new schema while it is being replaced.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

from backstay.errors import StoreTooNew, StoreUnavailable


@dataclass(frozen=True, slots=True)
class Migration:
    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


def load_migrations(package: str) -> list[Migration]:
    """The migrations in the ``migrations`` folder of ``package``, in order and without a gap."""
    found = [
        Migration(int(file.name[:4]), file.name[5:-4], file.read_text("utf-8"))
        for file in (files(package) / "migrations").iterdir()
        if file.name.endswith(".sql")
    ]
    found.sort(key=lambda migration: migration.number)
    if [migration.number for migration in found] != list(range(1, len(found) + 1)):
        raise ValueError(f"the migrations of {package} are not numbered 1, 2, 3, …")
    return found


def outstanding(known: list[Migration], applied: Mapping[int, str]) -> list[Migration]:
    """What is still to be applied to a store that has ``applied`` (number to checksum).

    Raises StoreTooNew when the store knows more than this release, and StoreUnavailable when a
    migration was applied in another form than the one we have.
    """
    for migration in known:
        checksum = applied.get(migration.number)
        if checksum is not None and checksum != migration.checksum:
            raise StoreUnavailable(
                f"migration {migration.number:04} ({migration.name}) of this store differs from the one"
                " in this release:"
                " it was edited after it had been applied, or the store belongs to another build"
            )
    newest = max(applied, default=0)
    if newest > len(known):
        raise StoreTooNew(found=newest, known=len(known))
    return [migration for migration in known if migration.number not in applied]
