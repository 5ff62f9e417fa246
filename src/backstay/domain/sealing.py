"""Secrets as they lie in a store: sealed, so that whoever reads the database, or a copy of it, reads none.

    bs1.<id of the key>.<base64url of nonce, ciphertext and tag>

AES-256-GCM. What a secret belongs to is part of the seal: of another job, of another place in it, under
another header, it does not open. Pure: keys and nonces are given. Nothing that is raised or shown here holds
a secret or a key.
"""

from __future__ import annotations

import binascii
import hashlib
import re
from base64 import b64decode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from backstay.domain import jsontext
from backstay.errors import InvalidRequest, SecretUnopened

VERSION: Final = "bs1"
KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
#: So many keys are known at once: one that seals, and those that sealed before it.
KEYS_MAX: Final = 16

_ALTERED: Final = "it was altered, or belongs to something else"
_ID_LENGTH: Final = 16
_SEALED: Final = re.compile(rf"{VERSION}\.([0-9a-f]{{{_ID_LENGTH}}})\.[A-Za-z0-9_=-]+")


@dataclass(frozen=True, slots=True)
class SecretKey:
    """A key; ``id`` names it in what it sealed, and tells nothing of it."""

    id: str
    material: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Belonging:
    """What a secret belongs to: a job, by its uid, and a place in its definition."""

    uid: str
    place: str


def key_of(material: bytes) -> SecretKey:
    digest = hashlib.sha256(b"backstay secret key\0" + material).hexdigest()
    return SecretKey(digest[:_ID_LENGTH], material)


def read_key(written: str) -> SecretKey:
    """The key that is written so. Raises InvalidRequest, which does not show it."""
    try:
        material = b64decode(written.strip(), validate=True)
    except (binascii.Error, ValueError):
        material = b""
    if len(material) != KEY_BYTES:
        raise InvalidRequest(
            f"is no key: it must be {KEY_BYTES} random bytes in base64;"
            f" `openssl rand -base64 {KEY_BYTES}` makes one"
        )
    return key_of(material)


def read_keys(written: Iterable[str]) -> tuple[SecretKey, ...]:
    """Each once, in their order: the first seals, and all of them open. Raises InvalidRequest."""
    keys = {key.id: key for key in map(read_key, written)}
    if len(keys) > KEYS_MAX:
        raise InvalidRequest(f"has {len(keys)} keys; {KEYS_MAX} are kept, so leave out the oldest")
    return tuple(keys.values())


def keys_in(setting: str) -> tuple[SecretKey, ...]:
    """Keys with commas between. Raises InvalidRequest."""
    return read_keys(one for one in setting.split(",") if one.strip())


def seal(secret: str, belonging: Belonging, *, key: SecretKey, nonce: bytes) -> str:
    """The secret, sealed; ``nonce`` is random, and used once."""
    # Only who has secrets waits for this import.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415

    body = AESGCM(key.material).encrypt(nonce, secret.encode(), _bound(key.id, belonging))
    return f"{VERSION}.{key.id}.{urlsafe_b64encode(nonce + body).decode()}"


def key_id_of(sealed: str) -> str:
    """The id of the key that sealed it. Raises SecretUnopened for whatever is not sealed as it must be."""
    if (found := _SEALED.fullmatch(sealed)) is None:
        raise SecretUnopened(
            "it is not sealed as this release seals: it was altered, or another release wrote it"
        )
    return found[1]


def unseal(sealed: str, belonging: Belonging, *, key: SecretKey) -> str:
    """The secret. Raises SecretUnopened."""
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415

    bound = _bound(key_id_of(sealed), belonging)
    try:
        written = sealed.rpartition(".")[2].encode()
        body = urlsafe_b64decode(written)
        # One seal has one spelling: whatever else decodes to it was altered.
        if urlsafe_b64encode(body) != written:
            raise SecretUnopened(_ALTERED)
        return AESGCM(key.material).decrypt(body[:NONCE_BYTES], body[NONCE_BYTES:], bound).decode()
    except (InvalidTag, ValueError):
        raise SecretUnopened(_ALTERED) from None


def _bound(key_id: str, belonging: Belonging) -> bytes:
    return jsontext.written([VERSION, key_id, belonging.uid, belonging.place])
