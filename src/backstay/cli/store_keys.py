"""``backstay store rotate-key``: a new key for secrets of jobs, and all of them sealed with it."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final

import msgspec
import typer

from backstay.cli.access import JsonOption, StoreOption
from backstay.cli.render import complain, note, print_json, say
from backstay.client import Client
from backstay.definitions.registry import Registry
from backstay.errors import SecretKeyMissing
from backstay.runtime import connected
from backstay.runtime.stores import vault_of
from backstay.settings import Settings
from backstay.vault import Vault

# Whoever waits is told after so many secrets.
TOLD_EVERY: Final = 5_000


class Rotated(msgspec.Struct, frozen=True, kw_only=True):
    """What ``store rotate-key`` answers."""

    # The id of the key that seals now, as it stands in what it sealed; no part of the key.
    key: str
    made: bool
    sealed: int
    # No key that is here opens them: they have to be written again.
    unopened: int


def rotate_key(
    store: StoreOption = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Make no new key: finish a rotation that was interrupted.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Make a new key for secrets of jobs, and seal all of them with it. Servers may run meanwhile.

    Keys that are given by the setting secret_key are not made here: put the new one first there.
    """
    rotated = asyncio.run(_rotated(Settings.load({"store": store}), resume=resume))
    if json:
        print_json(rotated)
    else:
        say(f"key {rotated.key} {'is made and seals' if rotated.made else 'seals'} from now on")
        say(f"{rotated.sealed:,} secrets are sealed anew")
    if rotated.unopened:
        complain(
            f"{rotated.unopened:,} secrets cannot be opened with any key that is here, and stay as they are;"
            " bring back their key, or write them into their jobs again"
        )
        raise typer.Exit(1)


async def _rotated(settings: Settings, *, resume: bool) -> Rotated:
    vault = vault_of(settings)
    async with connected(Registry(), settings, must_exist=True) as client:
        made = False if resume else await _with_new_key(client, vault)
        sealed, unopened = await _sealed(client)
        return Rotated(key=vault.sealing_key().id, made=made, sealed=sealed, unopened=unopened)


async def _with_new_key(client: Client, vault: Vault) -> bool:
    """Make a key, if it is for us to make one; whether it was."""
    if vault.has_given_keys:
        return False
    if vault.file is None:
        raise SecretKeyMissing(
            "there is neither a key nor a file for one: set secret_key, or name a file as secret_key_file"
        )
    if vault.file.keys():
        # Of a rotation that was interrupted something may be left under keys that would fall out of the file.
        await _sealed(client)
    await asyncio.to_thread(vault.file.add)
    return True


async def _sealed(client: Client) -> tuple[int, int]:
    """Seal all secrets with the first key; how many were, and how many no key opens."""
    sealed = unopened = told = 0
    async for some in client.jobroom.reseal():
        sealed, unopened = sealed + some.sealed, unopened + some.unopened
        if sealed - told >= TOLD_EVERY:
            told = sealed
            note(f"{sealed:,} secrets are sealed anew …")
    return sealed, unopened
