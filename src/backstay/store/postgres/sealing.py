"""Secrets that are sealed anew, or for the first time, in one transaction."""

from __future__ import annotations

from typing import Final

from backstay.store.jobs import Place, Resealed
from backstay.store.postgres.tables import Tables
from backstay.store.sealing import BATCH, FIRST, SecretRow, following, resealed, sealed_first
from backstay.vault import Vault

#: The migration with which secrets are sealed.
SEALING: Final = 10


async def reseal_some(tables: Tables, vault: Vault, after: Place, *, limit: int) -> Resealed:
    done, anew = resealed(vault, await _secrets(tables, "sealed_secrets", after, limit=limit), limit=limit)
    await tables.run_rows("put_sealed", [one.row for one in anew])
    return done


async def seal_plain(tables: Tables, vault: Vault) -> None:
    """Seal what earlier releases kept as it is."""
    after: Place | None = FIRST
    while after is not None:
        plain = await _secrets(tables, "plain_secrets", after, limit=BATCH)
        await tables.run_rows("add_sealed", [one.row for one in sealed_first(vault, plain)])
        after = following(plain, limit=BATCH)
    await tables.run("forget_plain")


async def _secrets(tables: Tables, query: str, after: Place, *, limit: int) -> list[SecretRow]:
    rows = await tables.run(query, job_key=after.job_key, place=after.place, limit=limit)
    return [SecretRow(*row) for row in rows]
