"""Between what decides about jobs, or acts for them, and what is kept: here secrets are sealed and opened.

What is kept is sealed. A decision sees secrets opened, and what it leaves is sealed again; a secret that
stays the same stays as it is kept, so that one that cannot be opened outlives every change but one of itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from backstay.domain.jobs.records import LOST, JobRecord
from backstay.domain.sealing import Belonging, key_id_of
from backstay.domain.task import NewTask
from backstay.errors import SecretUnopened
from backstay.store.jobs import DecideJob, DecideRun, JobSeen, Place, Resealed
from backstay.vault import Vault

#: Before all of them.
FIRST: Final = Place(0, "")
#: So many are sealed at once.
BATCH: Final = 500


class SecretRow(NamedTuple):
    """A secret as it is kept."""

    job_key: int
    place: str
    uid: str
    sealed: str

    @property
    def row(self) -> tuple[int, str, str]:
        return self.job_key, self.place, self.sealed

    @property
    def belonging(self) -> Belonging:
        return Belonging(self.uid, self.place)


class Opened(Mapping[str, str]):
    """Secrets by their places, for an action. To ask for one that cannot be opened raises SecretUnopened."""

    def __init__(self, vault: Vault, uid: str, sealed: Mapping[str, str]) -> None:
        self._vault = vault
        self._uid = uid
        self._sealed = sealed

    def __getitem__(self, place: str) -> str:
        return self._vault.open(self._sealed[place], Belonging(self._uid, place))

    def __iter__(self) -> Iterator[str]:
        return iter(self._sealed)

    def __len__(self) -> int:
        return len(self._sealed)


# Decisions


def deciding_job(vault: Vault, decide: DecideJob) -> DecideJob:
    """The same decision, by what is kept."""

    def by_what_is_kept(seen: JobSeen) -> JobRecord:
        opened = _opened(vault, seen)
        return _sealed(vault, decide(opened), before=seen.job, opened=opened.job)

    return by_what_is_kept


def deciding_run(vault: Vault, decide: DecideRun) -> DecideRun:
    def by_what_is_kept(seen: JobSeen) -> NewTask:
        return decide(_opened(vault, seen))

    return by_what_is_kept


def _opened(vault: Vault, seen: JobSeen) -> JobSeen:
    job = seen.job
    if job is None or not job.secrets:
        return seen
    secrets = {
        place: _secret(vault, sealed, Belonging(job.uid, place)) for place, sealed in job.secrets.items()
    }
    return replace(seen, job=replace(job, secrets=secrets))


def _secret(vault: Vault, sealed: str, belonging: Belonging) -> str:
    try:
        return vault.open(sealed, belonging)
    except SecretUnopened:
        return LOST


def _sealed(
    vault: Vault, after: JobRecord, *, before: JobRecord | None, opened: JobRecord | None
) -> JobRecord:
    kept = before.secrets if before is not None else {}
    known = opened.secrets if opened is not None and opened.uid == after.uid else {}
    secrets = {}
    for place, secret in after.secrets.items():
        if _is_same(known.get(place), secret):
            secrets[place] = kept[place]
        elif secret is not LOST:
            secrets[place] = vault.seal(secret, Belonging(after.uid, place))
    return replace(after, secrets=secrets)


def _is_same(known: str | None, secret: str) -> bool:
    return known is secret if secret is LOST or known is LOST else known == secret


# Sealing anew


def resealed(vault: Vault, kept: Sequence[SecretRow], *, limit: int) -> tuple[Resealed, list[SecretRow]]:
    """What becomes of these, of which ``limit`` were asked for, and those that are to be written."""
    current, anew, unopened = vault.sealing_key().id, [], 0
    for one in kept:
        try:
            if key_id_of(one.sealed) != current:
                secret = vault.open(one.sealed, one.belonging)
                anew.append(one._replace(sealed=vault.seal(secret, one.belonging)))
        except SecretUnopened:
            unopened += 1
    after = following(kept, limit=limit)
    return Resealed(sealed=len(anew), unopened=unopened, after=after), anew


def following(kept: Sequence[SecretRow], *, limit: int) -> Place | None:
    """Where to go on after these."""
    return Place(kept[-1].job_key, kept[-1].place) if len(kept) == limit else None


def sealed_first(vault: Vault, plain: Sequence[SecretRow]) -> list[SecretRow]:
    """Secrets that an earlier release kept as they are, sealed."""
    return [one._replace(sealed=vault.seal(one.sealed, one.belonging)) for one in plain]
