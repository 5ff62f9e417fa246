"""A job's document: what a client sends becomes what is kept, or an error that names the member.

    PUT     nothing kept ─┐
    PATCH   what is kept ─┴─ merged with what was sent ─▶ judged ─▶ definition, secrets, state, timing

What is kept of a document is split: the definition is all that a client may see, and secrets lie apart, each
by the place in the definition that it belongs to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from backstay.domain import jsontext
from backstay.domain.jobs.actions import MESSAGES, read_action, read_type
from backstay.domain.jobs.merging import Json, kind_of, merged, spelled
from backstay.domain.jobs.outcomes import FINISHED
from backstay.domain.jobs.readers import Reader, choice
from backstay.domain.jobs.records import CatchUp, JobRecord, JobState, Overlap
from backstay.domain.jobs.shapes import JOB
from backstay.domain.jobs.timing import read_recurrence
from backstay.domain.recurrence import Timing, read_moment, read_span, read_timing
from backstay.domain.recurrence.spans import Span
from backstay.errors import InvalidJob

#: A whole job, secrets included, as JSON.
JOB_BYTES_MAX: Final = 16 * 1024

#: What was said of a document that is none.
MALFORMED: Final = "Malformed Job Object"

_PROPERTIES: Final = "properties"
_ACTIONS: Final = ("action", "action.errorAction")
_AUTHENTICATED: Final = ("request", "serviceBusQueueMessage", "serviceBusTopicMessage")
#: Where secrets are.
SECRETS: Final = tuple(
    f"{action}.{secret}"
    for action in _ACTIONS
    for secret in (
        "request.authentication.password",
        "request.authentication.pfx",
        "request.authentication.secret",
        "queueMessage.sasToken",
        "serviceBusQueueMessage.authentication.sasKey",
        "serviceBusTopicMessage.authentication.sasKey",
    )
)
#: What an authentication of a type, or the message to a queue, is of no use without.
SECRETS_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "basic": ("password",),
    "clientcertificate": ("pfx", "password"),
    "activedirectoryoauth": ("secret",),
    "sharedaccesskey": ("sasKey",),
    "queuemessage": ("sasToken",),
}
_CERTIFICATE: Final = "clientcertificate"
_SPANS: Final = tuple(
    f"{action}.{span}"
    for action in _ACTIONS
    for span in (
        "retryPolicy.retryInterval",
        "serviceBusQueueMessage.brokeredMessageProperties.timeToLive",
        "serviceBusTopicMessage.brokeredMessageProperties.timeToLive",
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDocument:
    """A document that was found to be good."""

    definition: Json
    secrets: Mapping[str, str] = field(repr=False)
    state: JobState
    catch_up: CatchUp
    overlap: Overlap
    timing: Timing


def replaced(body: object) -> JobDocument:
    """What a PUT says. Raises InvalidJob."""
    return _judged(merged({}, _sent(body, may_be_empty=False), JOB))


def patched(job: JobRecord, body: object) -> JobDocument:
    """What a PATCH makes of a job. Raises InvalidJob."""
    sent = _sent(body, may_be_empty=True)
    kept = joined(job.definition, job.secrets) | {"state": job.state.value}
    _forget_other_types(kept, sent)
    whole = merged(kept, sent, JOB)
    _write_alike(whole, sent)
    return _judged(whole)


def _sent(body: object, *, may_be_empty: bool) -> Json:
    if not isinstance(body, dict):
        raise InvalidJob("the job", f"is {kind_of(body)}; it must be a JSON object", recorded=MALFORMED)
    found = [value for name, value in body.items() if name.casefold() == _PROPERTIES]
    if not found and may_be_empty:
        return {}
    if len(found) != 1 or not isinstance(found[0], dict):
        raise InvalidJob(
            _PROPERTIES,
            'must be there once; a job is written {"properties": {"action": …}}',
            recorded=MALFORMED,
        )
    sent: Json = spelled(found[0], JOB, _PROPERTIES)
    return sent


# Judging


def _judged(whole: Json) -> JobDocument:
    _check_size(whole)
    timing = read_timing(whole)
    definition: Json = {}
    for name, reader in _READERS.items():
        if name in whole:
            definition[name] = reader(whole[name], f"{_PROPERTIES}.{name}")
    if "action" not in definition:
        raise InvalidJob(f"{_PROPERTIES}.action", "is missing; a job needs an action")
    public, secrets = split(definition)
    return JobDocument(
        definition=public,
        secrets=secrets,
        state=_state(whole.get("state", JobState.ENABLED.value), f"{_PROPERTIES}.state"),
        catch_up=CatchUp(definition.get("catchUp", CatchUp.ONE)),
        overlap=Overlap(definition.get("overlap", Overlap.SKIP)),
        timing=timing,
    )


_READERS: Final[Mapping[str, Reader]] = {
    "startTime": lambda value, field: read_moment(value, field).text,
    "action": read_action,
    "recurrence": read_recurrence,
    "catchUp": choice(CatchUp),
    "overlap": choice(Overlap),
}


def _check_size(whole: Json) -> None:
    size = len(jsontext.written(whole))
    if size > JOB_BYTES_MAX:
        raise InvalidJob(
            "the job",
            f"is {size:,} bytes of JSON; a job may have {JOB_BYTES_MAX:,} (16 K):"
            " keep the content elsewhere and write where",
        )


def _state(value: Any, field: str) -> JobState:
    state = JobState(choice(JobState)(value, field))
    if state in FINISHED:
        raise InvalidJob(field, f"is {state}, which only a run can make of it; write Enabled or Disabled")
    return state


# Secrets


def split(definition: Mapping[str, Any]) -> tuple[Json, dict[str, str]]:
    """The definition without its secrets, and the secrets by their places."""
    public, secrets = _copied(definition), {}
    for place in SECRETS:
        holder, name = _holder(public, place)
        if holder is not None and name in holder:
            secrets[place] = holder.pop(name)
    return public, secrets


def joined(definition: Mapping[str, Any], secrets: Mapping[str, str]) -> Json:
    """The definition with its secrets; those whose place is gone are gone with it."""
    whole: Json = _copied(definition)
    for place, secret in secrets.items():
        holder, name = _holder(whole, place)
        if holder is not None:
            holder[name] = secret
    return whole


def missing_secrets(body: object) -> list[str]:
    """The places of secrets that a document, such as one that was answered, would need and has not.

    Raises InvalidJob for what is no document of a job.
    """
    sent = _sent(body, may_be_empty=False)
    return [place for place in SECRETS if _is_missing(*_holder(sent, place))]


def with_secrets(body: object, secrets: Mapping[str, str]) -> Json:
    """The document with secrets by their places. Raises InvalidJob for a place where there can be none."""
    sent = _sent(body, may_be_empty=False)
    for place in secrets:
        if place not in SECRETS or _holder(sent, place)[0] is None:
            raise InvalidJob(place, "has no place for a secret in this job; leave it out")
    return {_PROPERTIES: joined(sent, secrets)}


@dataclass(frozen=True, slots=True)
class CertificateFile:
    """A file that a document brings; ``member`` is where it stands."""

    member: str
    pfx: str = field(repr=False)
    password: str = field(repr=False)


def certificates_in(body: object) -> list[CertificateFile]:
    """Those of a document, of which nothing but the form was looked at. Raises InvalidJob.

    One comes with its password: with another, or without, nobody could tell how long it takes to open.
    """
    sent = _sent(body, may_be_empty=True)
    places = [f"{action}.request.authentication" for action in _ACTIONS]
    found = [_certificate(_at(sent, place), f"{_PROPERTIES}.{place}") for place in places]
    return [one for one in found if one is not None]


def _certificate(shown: Json, where: str) -> CertificateFile | None:
    if str(shown.get("type") or _CERTIFICATE).casefold() != _CERTIFICATE:
        return None
    pfx, password = shown.get("pfx"), shown.get("password", "")
    # What is no text is refused with everything else.
    if not isinstance(pfx, str) or not isinstance(password, str):
        return None
    if "password" not in shown:
        raise InvalidJob(f"{where}.password", "is missing; write it beside the pfx that it opens")
    return CertificateFile(f"{where}.pfx", pfx, password)


def _is_missing(holder: Json | None, name: str) -> bool:
    if holder is None or holder.get(name) is not None:
        return False
    # Only the message to a queue is a secret's holder without a type.
    kind = str(holder.get("type", "queueMessage")).casefold()
    return name in SECRETS_OF.get(kind, ())


def _holder(document: Json, place: str) -> tuple[Json | None, str]:
    *way, name = place.split(".")
    here: Any = document
    for part in way:
        here = here.get(part)
        if here is None:
            return None, name
    return here, name


def _copied(value: Any) -> Any:
    return {name: _copied(one) for name, one in value.items()} if isinstance(value, Mapping) else value


# What a PATCH changes beside what it says


def _forget_other_types(kept: Json, sent: Json) -> None:
    """What belongs to a type goes with it: another action's message, another authentication's user."""
    for place in _ACTIONS:
        action, change = _at(kept, place), _at(sent, place)
        if _is_other_type(action, change):
            new = MESSAGES[read_type(change["type"], f"{_PROPERTIES}.{place}.type")]
            for message in set(MESSAGES.values()) - {new}:
                action.pop(message, None)
        for message in _AUTHENTICATED:
            inner = f"{message}.authentication"
            if _is_other_type(_at(action, inner), _at(change, inner)):
                action[message].pop("authentication")


def _is_other_type(kept: Json, sent: Json) -> bool:
    new, old = sent.get("type"), kept.get("type")
    return isinstance(new, str) and isinstance(old, str) and new.casefold() != old.casefold()


def _at(document: Json, place: str) -> Json:
    """The object at this place; an empty one where there is none."""
    here: Any = document
    for part in place.split("."):
        here = here.get(part) or {}
    assert isinstance(here, dict)
    return here


def _write_alike(whole: Json, sent: Json) -> None:
    """Durations that were kept are written as those that were sent: a client reads one notation only."""
    written = {span.notation for _, _, span in _spans(sent)}
    if len(written) != 1:
        return
    [notation] = written
    for holder, name, span in _spans(whole):
        holder[name] = Span(span.length, notation).text


def _spans(document: Json) -> Iterator[tuple[Json, str, Span]]:
    """Every duration that there is, and the object that holds it."""
    for place in _SPANS:
        holder, name = _holder(document, place)
        if holder is not None and holder.get(name) is not None:
            yield holder, name, read_span(holder[name], f"{_PROPERTIES}.{place}")
