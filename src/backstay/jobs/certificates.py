"""A certificate of a job becomes what TLS needs; its key never lies on a disk that others read."""

from __future__ import annotations

import os
import secrets
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from backstay.domain.jobs.certificates import Identity, Unopened, opened
from backstay.domain.jobs.messages import certificate_failed
from backstay.jobs.http_request import NotSent


def identified(pfx: str, password: str) -> ssl.SSLContext:
    """TLS for one request of one job, which shows this certificate. Takes a while. Raises NotSent."""
    try:
        identity = opened(pfx, password)
        context = ssl.create_default_context()
        once = secrets.token_hex(32)
        # OpenSSL reads keys from files only; what is in this one is of no use without a word that is nowhere.
        with _file(_pem(identity, once)) as path:
            context.load_cert_chain(path, password=once)
    except Unopened as error:
        raise NotSent(certificate_failed(f"it {error}")) from None
    except (ssl.SSLError, ValueError):
        raise NotSent(certificate_failed("TLS does not accept it; its key may be too short")) from None
    return context


def _pem(identity: Identity, once: str) -> bytes:
    from cryptography.hazmat.primitives import serialization as form  # noqa: PLC0415

    key = identity.key.private_bytes(
        form.Encoding.PEM, form.PrivateFormat.PKCS8, form.BestAvailableEncryption(once.encode())
    )
    chain = (identity.certificate, *identity.between)
    return key + b"".join(one.public_bytes(form.Encoding.PEM) for one in chain)


@contextmanager
def _file(content: bytes) -> Iterator[str]:
    """Where this process finds ``content``: in memory where the system can, else in a file of 0600."""
    if hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd"):  # noqa: PTH112
        with open(os.memfd_create("identity", os.MFD_CLOEXEC), "wb") as file:  # noqa: PTH123
            file.write(content)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        yield file.name
