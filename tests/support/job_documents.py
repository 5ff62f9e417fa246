"""Documents of jobs as clients write them."""

from __future__ import annotations

import base64
import functools
from datetime import UTC, datetime
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12

from backstay.domain.jobs.deciding import put_job
from backstay.domain.jobs.documents import JobDocument, joined, replaced
from backstay.domain.jobs.records import JobRecord
from tests.support.job_records import COLLECTION, NOON, PLACE, RULES

HTTP: dict[str, Any] = {"type": "Http", "request": {"uri": "http://example.org", "method": "GET"}}
BASIC: dict[str, Any] = {"type": "Basic", "username": "u", "password": "hunter2"}
QUEUE: dict[str, Any] = {
    "type": "StorageQueue",
    "queueMessage": {"storageAccount": "acct", "queueName": "q", "sasToken": "hunter2", "message": "m"},
}
SERVICE_BUS: dict[str, Any] = {
    "namespace": "ns",
    "message": "m",
    "transportType": "NetMessaging",
    "authentication": {"type": "SharedAccessKey", "sasKeyName": "k", "sasKey": "hunter2"},
}


@functools.cache
def pfx(password: str = "hunter2", name: str = "nightly") -> str:
    """A certificate with its key, as a client sends it."""
    key = ec.generate_private_key(ec.SECP256R1())
    called = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    certificate = (
        x509.CertificateBuilder(called, called, key.public_key(), x509.random_serial_number())
        .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2050, 1, 1, tzinfo=UTC))
        .sign(key, hashes.SHA256())
    )
    return pfx_of(key, certificate, password)


def pfx_of(key: Any, certificate: x509.Certificate, password: str) -> str:
    kept = serialization.BestAvailableEncryption(password.encode())
    return base64.b64encode(pkcs12.serialize_key_and_certificates(b"", key, certificate, None, kept)).decode()


def laborious_pfx(rounds: int) -> str:
    """A file of which nobody knows before so many rounds of a hash whether its password is right."""
    der = bytearray(base64.b64decode(pfx()))
    # It ends with the number of rounds, as the last of the two sequences whose lengths grow with it.
    assert der[:2] == b"\x30\x82"
    assert der[-4:] == b"\x02\x02\x08\x00"
    [inner] = [at for at in range(len(der) - 128, len(der)) if der[at:] == _sequence(der[at + 2 :])]
    der[-4:] = b"\x02\x04" + rounds.to_bytes(4, "big")
    der[inner + 1] += 2
    der[2:4] = (len(der) - 4).to_bytes(2, "big")
    return base64.b64encode(der).decode()


def _sequence(content: bytes | bytearray) -> bytes:
    return bytes([0x30, len(content)]) + content


def body(**properties: Any) -> dict[str, Any]:
    """A whole document: an Http job, unless ``properties`` say otherwise."""
    return {"properties": {"action": HTTP, **properties}}


def http(**request: Any) -> dict[str, Any]:
    return body(action={"type": "Http", "request": {**HTTP["request"], **request}})


def read(**properties: Any) -> JobDocument:
    return replaced(body(**properties))


def written(document: object, **fields: Any) -> JobRecord:
    """The job that a PUT of ``document`` makes."""
    new = JobRecord(
        key=1, uid="u1", collection=PLACE, name="j1", definition={}, created_at=NOON, updated_at=NOON
    )
    return put_job(
        new,
        replaced(document),
        **{"collection": COLLECTION, "job": None, "jobs": 0, "now": NOON, **fields},
        delay=RULES.immediately,
    )


def whole(job: JobRecord) -> dict[str, Any]:
    """What a client would PUT to have this job: what it is answered, and the secrets that it is not."""
    return {"properties": {**joined(job.definition, job.secrets), "state": job.state.value}}
