"""``walk.py VERSION URL TOKEN``: every operation of the public Python SDK of Azure Scheduler.

Run by an environment that has ``azure-mgmt-scheduler``, 7.0.0 or 2.0.0, as it was published. What the two
say differently is in ``newer`` and ``older``; the walk is the same.
"""

# mypy: disable-error-code="import-not-found, import-untyped"
# The SDK is not installed where the types are checked.

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from azure.mgmt.scheduler import SchedulerManagementClient
from azure.mgmt.scheduler import models as m

GROUP, COLLECTION, JOB = "rg", "jc1", "job1"
HERE = (GROUP, COLLECTION, JOB)
BUS = {"namespace": "ns", "message": "m", "transport_type": "NetMessaging"}
# A certificate of nobody, made for this walk; its password is p.
PFX = (
    "MIID7QIBAzCCA6MGCSqGSIb3DQEHAaCCA5QEggOQMIIDjDCCAioGCSqGSIb3DQEHBqCCAhswggIXAgEAMIICEAYJKoZIhvcN"
    "AQcBMF8GCSqGSIb3DQEFDTBSMDEGCSqGSIb3DQEFDDAkBBAV+LlAHw7cNTGEOH+3mtzJAgJOIDAMBggqhkiG9w0CCQUAMB0G"
    "CWCGSAFlAwQBKgQQ2v5+gTG0n7sMQCtQH1fANICCAaBc8xP+LBBZUO4iiq6kzXI8RFga6G3EYmVubB0YCueF6Zm6rxL2SSlS"
    "86KG1ufqmAJP2LFIe6QAwW0XmPnThGE/LmTyzvycI3uZ/bF4Dv+IboOVKhzZ7tTTsoDBw4TqJfW+M6J0ldHx3tJYUoivov5N"
    "mqoEDOoZwkhWdm88vZHsa+EZs+g6CUNH50p7EDS+LeWcJRS1eZaukthJsf5yI3ao4Tm8x4KqlvJad8mwVtIdukCl9JIZYAnK"
    "RSt09t8GKJkg7wLNVrkFb6kBEEtA6nr40oyhMFvA+j9cQMmndKddT2l4SuOqCPJ1SFuAQN1j5bJCoYQVwLqqpOIISTaXp7jE"
    "CuMqHjreFGAxuRXh9PjhM72mHlr5jD6eOyuAQ1XBcr8cJQ/HgOVZn27oleI2/YFhC441lKoxlDviwXJKfUjZP/wK+2KZEwCU"
    "PyLokmBXfKVvcdR/vR2ESY76AZUb4tPSc0B4vJHQIBZFhHAHWffa5W6nxx7TNKwLNfZqDOo2MlQw6dEUJlH2s4SFGC8CNlpF"
    "2grvtNokG5gfHCAqyOusdzCCAVoGCSqGSIb3DQEHAaCCAUsEggFHMIIBQzCCAT8GCyqGSIb3DQEMCgECoIH3MIH0MF8GCSqG"
    "SIb3DQEFDTBSMDEGCSqGSIb3DQEFDDAkBBCgMx9NkFeoUbNPSklNzxjmAgJOIDAMBggqhkiG9w0CCQUAMB0GCWCGSAFlAwQB"
    "KgQQ1ku7XyATUIZ4zWDIg3018wSBkFQDX6VSkIwI2j/eLXM0gTWdjBmCi0hyiLf/p38Fvyx4DwU8gA4Ff8k5QrppE2p6vvAB"
    "va/lxMvfXJuWOZ7MeaASK8atlYFPwcSTgMJ6vaqTaecpaoerZqZSsm3IUzBr6eji/RqtzMKlRylk2uFBrJt20av/nfUeUVfu"
    "mgWfGxSdK1JgBQJmcNt3yT5SGLcmEjE2MA8GCSqGSIb3DQEJFDECHgAwIwYJKoZIhvcNAQkVMRYEFMMCyrP24wBJAvACR4+0"
    "XIwm5g52MEEwMTANBglghkgBZQMEAgEFAAQgLcvru9S8EsfShsHk3l8ZBUEGiZE3/CsWcaivdh71EccECPbQnIrrYonpAgII"
    "AA=="
)
HISTORY_SECONDS_MAX = 60.0


@dataclass(frozen=True)
class Sdk:
    """How one generation of the SDK says what both can say."""

    client: Any
    #: Before the names of long-running operations: delete, enable, disable.
    begin: str
    #: What a job is handed over as.
    job: Callable[[Any], Any]
    error: type[Exception]
    code_of: Callable[[Any], str]

    def settle(self, operation: str) -> None:
        begun = getattr(self.client.job_collections, f"{self.begin}{operation}")(GROUP, COLLECTION)
        assert begun.result() is None

    def write(self, name: str = JOB, /, **properties: Any) -> Any:
        said = self.job(m.JobProperties(**properties))
        return self.client.jobs.create_or_update(GROUP, COLLECTION, name, said)

    def patch(self, **properties: Any) -> Any:
        return self.client.jobs.patch(*HERE, self.job(m.JobProperties(**properties)))

    def refused(self, call: Callable[[], Any]) -> str:
        """The code of the error that the call raises."""
        try:
            call()
        except self.error as error:
            return self.code_of(error)
        raise AssertionError("it was not refused")


def newer(url: str, token: str) -> Sdk:
    from azure.core.credentials import AccessToken
    from azure.core.exceptions import HttpResponseError
    from azure.core.pipeline.policies import SansIOHTTPPolicy

    class Credential:
        def get_token(self, *_: object, **__: object) -> AccessToken:
            return AccessToken(token, 4102444800)

    # The default policy sends a token over TLS only.
    class PlainBearer(SansIOHTTPPolicy[Any, Any]):
        def on_request(self, request: Any) -> None:
            request.http_request.headers["Authorization"] = f"Bearer {token}"

    client = SchedulerManagementClient(
        Credential(),
        "sub-id",
        base_url=url,
        authentication_policy=PlainBearer(),
        retry_total=0,
        polling_interval=0,
    )
    return Sdk(
        client,
        begin="begin_",
        job=lambda properties: m.JobDefinition(properties=properties),
        error=HttpResponseError,
        code_of=lambda error: error.error.code,
    )


def older(url: str, token: str) -> Sdk:
    from msrest.authentication import BasicTokenAuthentication
    from msrestazure.azure_exceptions import CloudError

    credentials = BasicTokenAuthentication({"access_token": token})
    return Sdk(
        SchedulerManagementClient(credentials, "sub-id", base_url=url),
        begin="",
        job=lambda properties: properties,
        error=CloudError,
        code_of=lambda error: error.error.error,
    )


def named(value: Any) -> str:
    """A name that one generation keeps as text, and the other as a member of an enumeration."""
    return str(getattr(value, "value", value)).lower()


def walk(sdk: Sdk, url: str) -> None:
    walk_collections(sdk)
    walk_jobs(sdk, url)
    walk_actions(sdk)
    walk_history(sdk, url)
    walk_to_the_end(sdk)


def walk_collections(sdk: Sdk) -> None:
    collections = sdk.client.job_collections
    quota = m.JobCollectionQuota(
        max_job_count=9, max_recurrence=m.JobMaxRecurrence(frequency="Minute", interval=1)
    )
    properties = m.JobCollectionProperties(sku=m.Sku(name="Standard"), state="Enabled", quota=quota)
    document = m.JobCollectionDefinition(location="westus", tags={"a": "b"}, properties=properties)
    assert sdk.refused(lambda: collections.get(GROUP, COLLECTION)) == "ResourceNotFound"
    made = collections.create_or_update(GROUP, COLLECTION, document)
    assert (made.name, made.location, made.tags) == (COLLECTION, "West US", {"a": "b"})
    assert (named(made.properties.sku.name), named(made.properties.state)) == ("standard", "enabled")
    assert made.properties.quota.max_job_count == 9
    assert named(made.properties.quota.max_recurrence.frequency) == "minute"
    assert collections.get(GROUP, COLLECTION).id == made.id
    patched = collections.patch(GROUP, COLLECTION, m.JobCollectionDefinition(tags={"c": "d"}))
    assert patched.tags == {"a": "b", "c": "d"}
    assert [one.name for one in collections.list_by_subscription()] == [COLLECTION]
    assert [one.name for one in collections.list_by_resource_group(GROUP)] == [COLLECTION]
    assert list(collections.list_by_resource_group("other")) == []
    sdk.settle("disable")
    assert named(collections.get(GROUP, COLLECTION).properties.state) == "disabled"
    sdk.settle("enable")
    assert named(collections.get(GROUP, COLLECTION).properties.state) == "enabled"


def walk_jobs(sdk: Sdk, url: str) -> None:
    start = tomorrow().replace(microsecond=0)
    schedule = m.JobRecurrenceSchedule(
        hours=[5, 17],
        minutes=[15, 45],
        monthly_occurrences=[m.JobRecurrenceScheduleMonthlyOccurrence(day="Friday", occurrence=-1)],
    )
    request = m.HttpRequest(
        uri=f"{url}/healthz",
        method="POST",
        body="hi",
        headers={"Content-Type": "text/plain"},
        authentication=m.BasicAuthentication(username="u", password="p"),
    )
    topic = m.ServiceBusTopicMessage(
        topic_path="t",
        brokered_message_properties=m.ServiceBusBrokeredMessageProperties(time_to_live=timedelta(hours=1)),
        **BUS,
    )
    policy = m.RetryPolicy(retry_type="Fixed", retry_interval=timedelta(minutes=1), retry_count=2)
    action = m.JobAction(
        type="Http",
        request=request,
        retry_policy=policy,
        error_action=m.JobErrorAction(type="ServiceBusTopic", service_bus_topic_message=topic),
    )
    recurrence = m.JobRecurrence(frequency="Month", interval=1, count=10, schedule=schedule)
    assert sdk.refused(lambda: sdk.client.jobs.get(*HERE)) == "NotFound"
    made = sdk.write(start_time=start, action=action, recurrence=recurrence, state="Enabled")
    assert made.name == f"{COLLECTION}/{JOB}"
    for job in (made, sdk.client.jobs.get(*HERE)):
        said = job.properties
        assert said.start_time == start
        assert said.action.retry_policy.retry_interval == timedelta(minutes=1)
        assert (said.action.request.authentication.username, said.action.request.authentication.password) == (
            "u",
            None,
        )
        more = said.action.error_action.service_bus_topic_message.brokered_message_properties
        assert more.time_to_live == timedelta(hours=1)
        assert said.recurrence.schedule.hours == [5, 17]
        assert (named(said.state), said.status.execution_count) == ("enabled", 0)
        assert said.status.next_execution_time > start
    patched = sdk.patch(state="Disabled")
    assert (named(patched.properties.state), patched.properties.recurrence.count) == ("disabled", 10)
    assert patched.properties.action.retry_policy.retry_interval == timedelta(minutes=1)
    # Lists of the older generation cannot read what it writes: it patches its reader of durations elsewhere.
    plain = sdk.write(action=m.JobAction(type="Http", request=request))
    assert (plain.properties.action.retry_policy, plain.properties.recurrence) == (None, None)


def walk_actions(sdk: Sdk) -> None:
    """Whatever else an action can be is kept as well."""
    storage = m.StorageQueueMessage(storage_account="acct", queue_name="q", sas_token="t", message="m")
    more = m.ServiceBusBrokeredMessageProperties(label="l")
    key = m.ServiceBusAuthentication(type="SharedAccessKey", sas_key_name="k", sas_key="s")
    oauth = m.OAuthAuthentication(tenant="t", audience="a", client_id="c", secret="s")
    certificate = m.ClientCertAuthentication(pfx=PFX, password="p")
    actions = {
        "storage": m.JobAction(type="StorageQueue", queue_message=storage),
        "queue": m.JobAction(
            type="ServiceBusQueue",
            service_bus_queue_message=m.ServiceBusQueueMessage(
                queue_name="q", authentication=key, brokered_message_properties=more, **BUS
            ),
        ),
        "topic": m.JobAction(
            type="ServiceBusTopic",
            service_bus_topic_message=m.ServiceBusTopicMessage(
                topic_path="t", custom_message_properties={"x": "y"}, **BUS
            ),
        ),
        "oauth": m.JobAction(
            type="Https", request=m.HttpRequest(uri="https://a", method="GET", authentication=oauth)
        ),
        "certificate": m.JobAction(
            type="Https", request=m.HttpRequest(uri="https://a", method="GET", authentication=certificate)
        ),
    }
    for name, action in actions.items():
        said = sdk.write(name, action=action, state="Disabled").properties
        assert (named(said.action.type), said.status) == (action.type.lower(), None)
    jobs = {
        one.name.partition("/")[2]: one.properties.action for one in sdk.client.jobs.list(GROUP, COLLECTION)
    }
    assert sorted(jobs) == sorted([JOB, *actions])
    message = jobs["queue"].service_bus_queue_message
    assert (named(message.transport_type), message.authentication.sas_key) == ("netmessaging", None)
    assert message.brokered_message_properties.label == "l"
    assert jobs["storage"].queue_message.sas_token is None
    assert jobs["topic"].service_bus_topic_message.custom_message_properties == {"x": "y"}
    assert (jobs["oauth"].request.authentication.client_id, jobs["oauth"].request.authentication.secret) == (
        "c",
        None,
    )
    assert jobs["certificate"].request.authentication.pfx is None
    assert jobs["certificate"].request.authentication.certificate_subject_name == "CN=nightly"
    assert jobs["certificate"].request.authentication.certificate_expiration_date.year == 2050


def tomorrow() -> datetime:
    return datetime.now(UTC) + timedelta(days=1)  # noqa: TID251  No part of Backstay is in this process.


def walk_history(sdk: Sdk, url: str) -> None:
    """A job runs because somebody asks for it, and what became of it can be read."""
    jobs = sdk.client.jobs
    request = m.HttpRequest(uri=f"{url}/healthz", method="GET")
    daily = m.JobRecurrence(frequency="Day", interval=1)
    sdk.write(start_time=tomorrow(), action=m.JobAction(type="Http", request=request), recurrence=daily)
    assert list(jobs.list_job_history(*HERE)) == []
    assert jobs.run(*HERE) is None
    until = time.monotonic() + HISTORY_SECONDS_MAX
    while not (found := list(jobs.list_job_history(*HERE, top=5, skip=0))):
        assert time.monotonic() < until, "it was not run"
        time.sleep(0.1)
    [entry] = found
    assert entry.properties.message.startswith("Http Action - Response from host '127.0.0.1': 'OK'")
    assert (named(entry.properties.action_name), entry.properties.retry_count) == ("mainaction", 0)
    assert list(jobs.list_job_history(*HERE, top=5, skip=0, filter="status eq Failed")) == []
    assert jobs.get(*HERE).properties.status.execution_count == 1


def walk_to_the_end(sdk: Sdk) -> None:
    jobs = sdk.client.jobs
    enabled = jobs.list(GROUP, COLLECTION, top=5, skip=0, filter="state eq Enabled")
    assert [one.name for one in enabled] == [f"{COLLECTION}/{JOB}"]
    assert len(list(jobs.list(GROUP, COLLECTION, top=2, skip=1))) == 2
    assert sdk.refused(lambda: list(jobs.list(GROUP, COLLECTION, filter="nonsense"))) == "BadRequest"
    too_often = m.JobRecurrence(frequency="Minute", interval=1001)
    assert sdk.refused(lambda: sdk.patch(recurrence=too_often)) == "BadRequest"
    assert jobs.delete(*HERE) is None
    assert sdk.refused(lambda: jobs.get(*HERE)) == "NotFound"
    sdk.settle("delete")
    assert list(sdk.client.job_collections.list_by_subscription()) == []


if __name__ == "__main__":
    _, version, server, secret = sys.argv
    walk({"7.0.0": newer, "2.0.0": older}[version](server, secret), server)
    print("walked")
