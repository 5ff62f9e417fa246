"""A certificate is opened when a job is written, and only what may be told of it is kept in sight."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import pytest

from backstay.domain.jobs.documents import patched, replaced
from backstay.errors import InvalidJob
from backstay.jobs.certificates import identified
from tests.support.job_documents import http, pfx, written

PLACE = "properties.action.request.authentication"


def shown(**members: str) -> dict[str, str]:
    return {"type": "ClientCertificate", "pfx": pfx(), "password": "hunter2", **members}


@pytest.mark.parametrize("wrong", [{"password": "other"}, {"pfx": "aHVudGVyMg=="}])
def test_a_file_that_cannot_be_opened_is_refused_and_not_shown(wrong):
    with pytest.raises(InvalidJob, match="cannot be opened with this password; write") as refused:
        replaced(http(authentication=shown(**wrong)))

    assert refused.value.field == f"{PLACE}.pfx"
    assert "aHVudGVyMg" not in str(refused.value)


def test_what_a_certificate_says_is_answered_and_stays_through_a_patch():
    job = written(http(authentication=shown()))
    answered = job.definition["action"]["request"]["authentication"]

    changed = patched(job, {"properties": {"action": {"request": {"method": "POST"}}}})

    assert answered["certificateSubjectName"] == "CN=nightly"
    assert answered["certificateExpirationDate"] == "2050-01-01T00:00:00Z"
    assert len(answered["certificateThumbprint"]) == 40
    assert changed.definition["action"]["request"]["authentication"] == answered


@pytest.mark.parametrize("has_memory", [True, False])
def test_its_key_lies_in_no_file_as_it_is(has_memory: bool, monkeypatch: pytest.MonkeyPatch):
    seen = []

    load = ssl.SSLContext.load_cert_chain

    def looking(context: ssl.SSLContext, path: str, password: str) -> None:
        seen.append(Path(path).read_bytes())
        load(context, path, password=password)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", looking)
    if not has_memory:
        monkeypatch.delattr(os, "memfd_create", raising=False)

    identified(pfx(), "hunter2")

    [written] = seen
    assert b"BEGIN ENCRYPTED PRIVATE KEY" in written
    assert b"BEGIN PRIVATE KEY" not in written


@pytest.mark.parametrize("tenant", ["..", "a/b", "a?b", "a%2fb", ".", "a b"])
def test_a_tenant_that_would_lead_elsewhere_is_refused(tenant):
    oauth = {"type": "ActiveDirectoryOAuth", "audience": "a", "clientId": "c", "secret": "s"}

    with pytest.raises(InvalidJob, match="is no tenant"):
        replaced(http(authentication={**oauth, "tenant": tenant}))
