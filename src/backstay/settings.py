"""Every setting, its default and its limits. Frozen, validated once, from options, environment and TOML.

An option given in code wins over ``BACKSTAY_X`` in the environment, which wins over ``x`` in
``backstay.toml``. An unknown key is an error: a typo must not silently mean the default.
"""

from __future__ import annotations

import dataclasses
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Self

from backstay.domain.bound import MESSAGES_MOST, MESSAGES_USUAL
from backstay.domain.durations import describe, duration
from backstay.domain.ids import KEYS_KEPT
from backstay.domain.jobs.brokered import namespaces_of
from backstay.domain.message import DELIVERIES_MOST, LOCK_LEAST, LOCK_MOST
from backstay.domain.outbound import read_outbound
from backstay.domain.ownership import MEMBERS_MOST, ordinal_of
from backstay.domain.recurrence import IMMEDIATELY
from backstay.domain.sealing import keys_in
from backstay.domain.sinks import read_sinks
from backstay.errors import InvalidRequest, InvalidSetting

PREFIX: Final = "BACKSTAY_"
FILE: Final = "backstay.toml"
LOG_FORMATS: Final = ("text", "json")
LOG_LEVELS: Final = ("debug", "info", "warning", "error")
ASSIGNMENTS: Final = ("balanced", "static")

# Read by the command line, not settings of the engine.
_NOT_SETTINGS: Final = frozenset({"BACKSTAY_URL", "BACKSTAY_TOKEN"})
_TESTS: Final = "BACKSTAY_TEST"


_ADDRESSES: Final = ("https://", "http://")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How an instance behaves."""

    store: str = "sqlite:///backstay.db"
    store_connections: int = 4
    accept_data_loss: bool = False
    agent_complete_by: timedelta = timedelta(seconds=30)
    workflow_complete_by: timedelta = timedelta(minutes=10)
    undo_complete_by: timedelta = timedelta(minutes=5)
    lease: timedelta = timedelta(seconds=15)
    heartbeat: timedelta = timedelta(seconds=5)
    supervisor_period: timedelta = timedelta(seconds=1)
    # So long a task that ended is kept, and an alert that was taken up: until then an id means the same task.
    task_retention: timedelta = timedelta(days=14)
    recoveries_max: int = 300
    recoveries_within: timedelta = timedelta(seconds=60)
    backlog_limit: int = 100_000
    in_flight: int = 4_000
    requests_open: int = 1_000
    journal_max: int = 10_000
    inline_bytes_max: int = 16 * 1024
    payload_bytes_max: int = 1024 * 1024
    message_lock: timedelta = timedelta(seconds=60)
    max_deliveries: int = 10
    # Where streams are kept; empty: in a file beside the store, or in the working directory.
    streams: str = ""
    stream_retention: timedelta = timedelta(days=7)
    stream_bytes_max: int = 8 * 1024**3
    stream_dedup_window: timedelta = timedelta(minutes=10)
    max_pending: int = 10_000
    window: int = 10_000
    quarantine_max: int = 10_000
    # Who reads which partitions: "balanced" among all that do, or "static", each the share of its number.
    partition_assignment: str = "balanced"
    partition_members: int = 1
    # Which of the members this is, from 0; -1: as the name of the pod or host says, if it ends in a number.
    partition_ordinal: int = -1
    max_messages: int = MESSAGES_USUAL
    # Where the command line finds job collections, unless it is told otherwise.
    job_subscription: str = "default"
    job_resource_group: str = "default"
    # So long after it was written a job runs that is to run immediately.
    job_immediately: timedelta = IMMEDIATELY
    # An occurrence that is at most so late is on time; of missed ones so many are caught up.
    job_grace: timedelta = timedelta(minutes=1)
    job_catch_up_max: int = 100
    # So long a request of a job may take; so many attempts a process makes at once.
    job_http_timeout: timedelta = timedelta(seconds=60)
    job_concurrency: int = 200
    # What requests of jobs may reach beside the public Internet: networks, "loopback", "private".
    outbound_allow: str = ""
    # By which they go, if at all; what the environment says of proxies does not count.
    outbound_proxy: str = field(default="", repr=False)
    # Who gives tokens to jobs that authenticate themselves by Active Directory.
    job_oauth_authority: str = "https://login.microsoftonline.com"
    # Whose the namespaces of queues and topics are, as in "orders=backstay, legacy=azure".
    job_namespaces: str = ""
    # Where the queues of a storage account are; other clouds and emulators have them elsewhere.
    job_storage_endpoint: str = "https://{account}.queue.core.windows.net"
    # What seals secrets of jobs: keys with commas between, of which the first one seals; or a file of them.
    secret_key: str = field(default="", repr=False)
    secret_key_file: str = ""
    # How long jobs that are over are kept, and what became of occurrences; and how much of that.
    job_retention: timedelta = timedelta(days=60)
    job_history_retention: timedelta = timedelta(days=60)
    job_history_max: int = 1_000
    # Who is told of alerts: addresses, with commas between; and a program with its arguments.
    alert_webhook: str = field(default="", repr=False)
    # Requests to them are signed with it.
    alert_webhook_secret: str = field(default="", repr=False)
    alert_command: str = field(default="", repr=False)
    # So long telling one of them may take; so long after it was raised an alert is told again if that failed.
    alert_timeout: timedelta = timedelta(seconds=10)
    alert_tell_within: timedelta = timedelta(days=1)
    # So many alerts are kept; a group that is further behind than this raises one, 0: none does.
    alerts_max: int = 10_000
    alert_lag_events: int = 100_000
    # How `backstay serve` logs: "text" or "json", and from which level on.
    log_format: str = "text"
    log_level: str = "info"
    host: str = "127.0.0.1"
    port: int = 8080
    tls_cert: str = ""
    tls_key: str = ""
    connections_max: int = 1_000
    # Plain requests that append events go past the layers of the HTTP interface; false: none does.
    fast_lane: bool = True
    watchers_max: int = 200
    drain: timedelta = timedelta(seconds=20)

    def __post_init__(self) -> None:
        # One missed beat must not cost the lease.
        if self.heartbeat * 2 > self.lease:
            raise InvalidSetting(
                f"heartbeat {describe(self.heartbeat)} must fit twice into lease {describe(self.lease)}"
            )
        # A leader renews its lead in a round, when a heartbeat has passed since the last time.
        if self.heartbeat + self.supervisor_period >= self.lease:
            raise InvalidSetting(
                f"heartbeat {describe(self.heartbeat)} and supervisor_period"
                f" {describe(self.supervisor_period)} must together be shorter than"
                f" lease {describe(self.lease)}"
            )
        if not LOCK_LEAST <= self.message_lock <= LOCK_MOST:
            raise InvalidSetting(
                f"message_lock is {describe(self.message_lock)}; it must lie between"
                f" {describe(LOCK_LEAST)} and {describe(LOCK_MOST)}"
            )
        if bool(self.tls_cert) != bool(self.tls_key):
            raise InvalidSetting("tls_cert and tls_key belong together: give both, or neither")
        read_sinks(webhooks=self.alert_webhook, secret=self.alert_webhook_secret, command=self.alert_command)
        _check_choice("log_format", self.log_format, LOG_FORMATS)
        _check_choice("log_level", self.log_level, LOG_LEVELS)
        self._check_assignment()
        self._check_outbound()
        self._check_job_receivers()
        self._check_keys()
        self.check_outlives("stream_retention", self.stream_retention)
        self.check_outlives("stream_dedup_window", self.stream_dedup_window)
        self.check_outlives("the time for which an Idempotency-Key is kept,", KEYS_KEPT)
        if self.inline_bytes_max > self.payload_bytes_max:
            raise InvalidSetting(
                f"inline_bytes_max {self.inline_bytes_max:,} must not exceed"
                f" payload_bytes_max {self.payload_bytes_max:,}"
            )

    def _check_outbound(self) -> None:
        read_outbound(self.outbound_allow, name="outbound_allow")
        if self.outbound_proxy and not self.outbound_proxy.startswith(_ADDRESSES):
            raise InvalidSetting("outbound_proxy is no address; write http:// and a host")
        if not self.job_oauth_authority.startswith(_ADDRESSES):
            raise InvalidSetting("job_oauth_authority is no address; write https:// and a host")

    def _check_keys(self) -> None:
        try:
            keys_in(self.secret_key)
        except InvalidRequest as error:
            raise InvalidSetting(f"secret_key {error}") from None

    def check_outlives(self, name: str, length: timedelta) -> None:
        """Whether tasks are known for longer than whatever may ask for the same one again."""
        if self.task_retention <= length:
            raise InvalidSetting(
                f"task_retention {describe(self.task_retention)} must be longer than {name}"
                f" {describe(length)}: what comes again within that time must meet the task that it became"
            )

    def _check_job_receivers(self) -> None:
        try:
            namespaces_of(self.job_namespaces)
        except InvalidRequest as error:
            raise InvalidSetting(f"job_namespaces {error}") from error
        if "{account}" not in self.job_storage_endpoint:
            raise InvalidSetting(
                f"job_storage_endpoint is {self.job_storage_endpoint!r};"
                " write {account} where the name of the account belongs"
            )

    def _check_assignment(self) -> None:
        if self.partition_assignment not in ASSIGNMENTS:
            known = " or ".join(ASSIGNMENTS)
            raise InvalidSetting(f"partition_assignment is {self.partition_assignment!r}; it must be {known}")
        if self.partition_assignment == "balanced":
            return
        if self.partition_ordinal < 0:
            raise InvalidSetting(
                "partition_assignment is static, which needs the number of this member: run it as a pod of a"
                " StatefulSet (POD_NAME or HOSTNAME ends in -0, -1, …), or set partition_ordinal"
            )
        if self.partition_ordinal >= self.partition_members:
            raise InvalidSetting(
                f"partition_ordinal is {self.partition_ordinal}, counted from 0; with partition_members"
                f" {self.partition_members} it must be at most {self.partition_members - 1}"
            )

    @classmethod
    def load(
        cls,
        options: Mapping[str, Any] | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> Self:
        """The settings in force: options over environment over ``backstay.toml`` in ``folder``."""
        variables = os.environ if environment is None else environment
        values = {
            **_ordinal(variables),
            **_from_file((folder or Path.cwd()) / FILE),
            **_from_environment(variables),
        }
        for name, value in (options or {}).items():
            _check_known(name)
            if value is not None:
                values[name] = value
        return cls(**{name: _parsed(name, value) for name, value in values.items()})


_KINDS: Final = {one.name: type(one.default) for one in dataclasses.fields(Settings)}
_HIDDEN: Final = {one.name for one in dataclasses.fields(Settings) if not one.repr}
_LEAST: Final = {
    "store_connections": 1,
    "recoveries_max": 1,
    "backlog_limit": 1,
    "in_flight": 1,
    "requests_open": 1,
    "journal_max": 1,
    "inline_bytes_max": 0,
    "payload_bytes_max": 1024,
    "max_deliveries": 1,
    "stream_bytes_max": 1024 * 1024,
    "max_pending": 1,
    "window": 1,
    # What is read at once (ingest.flow.SLICE_MAX, twice over) is set aside together or not at all: were there
    # no room for all of it, nobody would see even one of the events that something is wrong with.
    "quarantine_max": 1_000,
    "partition_members": 1,
    "partition_ordinal": 0,
    "max_messages": 1,
    "job_catch_up_max": 1,
    "job_concurrency": 1,
    "job_history_max": 1,
    "alerts_max": 1,
    "alert_lag_events": 0,
    "port": 0,
    "connections_max": 1,
    "watchers_max": 1,
}
_MOST: Final = {
    "port": 65_535,
    "max_deliveries": DELIVERIES_MOST,
    "max_messages": MESSAGES_MOST,
    "partition_members": MEMBERS_MOST,
    "job_catch_up_max": 1_000,
    "job_concurrency": 10_000,
    "job_history_max": 100_000,
}
_TRUTH: Final = {"true": True, "false": False}


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InvalidSetting(f"{name} is {value!r}; it must be one of {', '.join(choices)}")


def _ordinal(variables: Mapping[str, str]) -> dict[str, int]:
    """The number of this pod in its StatefulSet, if it has one."""
    found = ordinal_of(variables.get("POD_NAME") or variables.get("HOSTNAME") or "")
    return {} if found is None else {"partition_ordinal": found}


def _from_file(path: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except tomllib.TOMLDecodeError as error:
        raise InvalidSetting(f'{path.name}: {error}; text stands in quotes, as in lease = "15s"') from error
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSetting(f"{path.name}: {error}") from error
    for name in values:
        _check_known(name, where=f" in {path.name}")
    return values


def _from_environment(variables: Mapping[str, str]) -> dict[str, Any]:
    values = {}
    for variable, value in variables.items():
        if variable.startswith(PREFIX) and variable not in _NOT_SETTINGS and not variable.startswith(_TESTS):
            name = variable.removeprefix(PREFIX).lower()
            _check_known(name, where=f" ({variable})")
            values[name] = value
    return values


def _check_known(name: str, *, where: str = "") -> None:
    if name not in _KINDS:
        near = get_close_matches(name, _KINDS, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(sorted(_KINDS))}"
        raise InvalidSetting(f"there is no setting {name!r}{where}; {hint}")


def _parsed(name: str, value: Any) -> Any:
    kind = _KINDS[name]
    try:
        if kind is timedelta:
            return duration(value, name=name, least=timedelta(milliseconds=1))
        if kind is int:
            return _whole_number(name, value)
        if kind is bool:
            return _truth(name, value)
    except InvalidRequest as error:
        raise InvalidSetting(str(error)) from error
    if not isinstance(value, str):
        shown = "something else" if name in _HIDDEN else repr(value)
        raise InvalidSetting(f"{name} is {shown}; it must be text")
    return value


def _whole_number(name: str, value: Any) -> int:
    try:
        # Nothing else: int() would cut off 1.5 and take True for one.
        number = int(value) if type(value) in (int, str) else None
    except ValueError:
        number = None
    if number is None:
        raise InvalidSetting(f"{name} is {value!r}; it must be a whole number")
    if number < _LEAST[name]:
        raise InvalidSetting(f"{name} is {number}; it must be at least {_LEAST[name]}")
    if number > _MOST.get(name, number):
        raise InvalidSetting(f"{name} is {number}; it must be at most {_MOST[name]}")
    return number


def _truth(name: str, value: Any) -> bool:
    truth = value if isinstance(value, bool) else _TRUTH.get(str(value).lower())
    if truth is None:
        raise InvalidSetting(f"{name} is {value!r}; it must be true or false")
    return truth
