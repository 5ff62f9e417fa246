"""The certificate by which a job shows who it is: a .pfx file is opened, and what may be told of it is told.

No I/O. Nothing that is raised or shown here holds the file or its password.
"""

from __future__ import annotations

import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from backstay.domain.recurrence import Moment
from backstay.errors import InvalidJob

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
    from cryptography.x509 import Certificate


class Unopened(ValueError):
    """A file that cannot be used; the text says why, and what helps."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate, its key, and the certificates between it and an authority that others know."""

    certificate: Certificate
    key: PrivateKeyTypes = field(repr=False)
    between: tuple[Certificate, ...] = ()


def pfx_bytes(written: str) -> bytes:
    """What base64 stands for; it may have been broken into lines. Raises ValueError."""
    return binascii.a2b_base64("".join(written.split()), strict_mode=True)


def opened(pfx: str, password: str) -> Identity:
    """What is in the file. Raises Unopened."""
    # Only who has a certificate waits for this import.
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import pkcs12  # noqa: PLC0415

    try:
        found = pkcs12.load_pkcs12(pfx_bytes(pfx), password.encode())
    except (ValueError, TypeError, UnsupportedAlgorithm):
        # The cause may show what is in the file.
        raise Unopened(
            "cannot be opened with this password; write a PKCS#12 file in base64, and its password"
        ) from None
    if found.key is None or found.cert is None:
        raise Unopened("lacks a certificate or its private key; export both of them")
    certificate = found.cert.certificate
    try:
        belong_together = certificate.public_key() == found.key.public_key()
    except (ValueError, UnsupportedAlgorithm):
        raise Unopened("has a key of a kind that is not known here; use RSA or an elliptic curve") from None
    if not belong_together:
        raise Unopened("has a key that is not that of its certificate; export both of them together")
    return Identity(certificate, found.key, tuple(one.certificate for one in found.additional_certs))


def told(certificate: Certificate) -> dict[str, str]:
    """What clients are answered of it. Raises Unopened where it cannot be told."""
    from cryptography.hazmat.primitives.hashes import SHA1  # noqa: PLC0415

    try:
        expires = Moment(certificate.not_valid_after_utc).text
        subject = certificate.subject.rfc4514_string()
    except ValueError:
        raise Unopened("has a certificate that cannot be read; write one that keeps to X.509") from None
    return {
        # A name for the certificate, as everybody names it; nothing rests on it.
        "certificateThumbprint": certificate.fingerprint(SHA1()).hex().upper(),  # noqa: S303
        # The published interface has one name for it, and the service sent the other.
        "certificateExpirationDate": expires,
        "certificateExpiration": expires,
        "certificateSubjectName": subject,
    }


#: The names of what is told.
TOLD: Final = (
    "certificateThumbprint",
    "certificateExpirationDate",
    "certificateExpiration",
    "certificateSubjectName",
)


def checked_certificate(authentication: Mapping[str, Any], field: str) -> dict[str, str]:
    """What is told of the certificate of an authentication. Raises InvalidJob."""
    try:
        return told(opened(authentication["pfx"], authentication["password"]).certificate)
    except Unopened as error:
        raise InvalidJob(f"{field}.pfx", str(error)) from None
