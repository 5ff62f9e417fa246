"""Seals with one key, and opens with many."""

from __future__ import annotations

import secrets
from typing import Final

from backstay.domain.sealing import (
    NONCE_BYTES,
    Belonging,
    SecretKey,
    key_id_of,
    keys_in,
    seal,
    unseal,
)
from backstay.errors import SecretKeyMissing, SecretUnopened
from backstay.vault.keyfile import KeyFile

_NO_KEY: Final = (
    "there is no key for secrets of jobs: set BACKSTAY_SECRET_KEY (`openssl rand -base64 32` makes one),"
    " the same for every process on this store"
)


class Vault:
    """The keys of one process. Those of the setting come first; the file is looked at each time.

    So a process that runs while keys are rotated seals with the new one, and opens what others sealed.
    """

    def __init__(self, setting: str = "", file: KeyFile | None = None) -> None:
        self._given: Final = keys_in(setting)
        self.file: Final = file

    @property
    def has_given_keys(self) -> bool:
        """Whether the setting has some: then new ones come from there."""
        return bool(self._given)

    def sealing_key(self) -> SecretKey:
        """The key that seals; where none is given the file is made. Raises SecretKeyMissing."""
        if self._given:
            return self._given[0]
        if self.file is None:
            raise SecretKeyMissing(_NO_KEY)
        if keys := self.file.made() if self.file.may_make else self.file.keys():
            return keys[0]
        raise SecretKeyMissing(
            f"there is no key file {self.file.path}; `backstay store rotate-key` makes it:"
            " then copy it to every host that works on this store"
        )

    def seal(self, secret: str, belonging: Belonging) -> str:
        """Raises SecretKeyMissing."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        return seal(secret, belonging, key=self.sealing_key(), nonce=nonce)

    def open(self, sealed: str, belonging: Belonging) -> str:
        """Raises SecretUnopened."""
        return unseal(sealed, belonging, key=self._key(key_id_of(sealed)))

    def _key(self, id: str) -> SecretKey:
        found = {key.id: key for key in (*self._in_file(), *self._given)}.get(id)
        if found is None:
            raise SecretUnopened(f"it was sealed with a key that is not here, {id:.16}")
        return found

    def _in_file(self) -> tuple[SecretKey, ...]:
        if self.file is None:
            return ()
        try:
            return self.file.keys()
        except SecretKeyMissing as error:
            if self._given:
                return ()
            raise SecretUnopened(str(error)) from error
