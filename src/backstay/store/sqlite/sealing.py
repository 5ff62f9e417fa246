"""Secrets that are sealed anew, or for the first time, within a commit."""

from __future__ import annotations

from typing import Final

from backstay.store.jobs import Place, Resealed
from backstay.store.rows import as_json
from backstay.store.sealing import BATCH, FIRST, SecretRow, following, resealed, sealed_first
from backstay.store.sqlite.tables import Tables
from backstay.vault import Vault

#: The migration with which secrets are sealed.
SEALING: Final = 11


def reseal_some(tables: Tables, vault: Vault, after: Place, *, limit: int) -> Resealed:
    done, anew = resealed(vault, _secrets(tables, "sealed_secrets", after, limit=limit), limit=limit)
    tables.run("put_sealed", secrets=as_json([one.row for one in anew]))
    return done


def seal_plain(tables: Tables, vault: Vault) -> int:
    """Seal what earlier releases kept as it is; how many. Nothing of it stays in the file's pages."""
    # Deleted rows are overwritten then; this connection does so from now on, which costs it little.
    tables.connection.execute("PRAGMA secure_delete = ON")
    after: Place | None = FIRST
    while after is not None:
        plain = _secrets(tables, "plain_secrets", after, limit=BATCH)
        tables.run("add_sealed", secrets=as_json([one.row for one in sealed_first(vault, plain)]))
        after = following(plain, limit=BATCH)
    return tables.run("forget_plain").rowcount


def _secrets(tables: Tables, query: str, after: Place, *, limit: int) -> list[SecretRow]:
    rows = tables.run(query, job_key=after.job_key, place=after.place, limit=limit).fetchall()
    return [SecretRow(*row) for row in rows]
