"""How often an action is tried again, and how long after the last try."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from backstay.domain.durations import describe
from backstay.domain.jobs.merging import Json
from backstay.domain.jobs.readers import choice, members
from backstay.domain.recurrence import read_span
from backstay.domain.recurrence.members import whole
from backstay.errors import InvalidJob

COUNT_USUAL: Final = 4
COUNT_MAX: Final = 20
INTERVAL_USUAL: Final = timedelta(seconds=30)
INTERVAL_LEAST: Final = timedelta(seconds=15)
#: Eighteen months, as Azure Scheduler counted them.
INTERVAL_MAX: Final = timedelta(days=548)

_NONE: Final = "none"


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """So many tries beside the first, each so long after the one before it."""

    count: int = COUNT_USUAL
    interval: timedelta = INTERVAL_USUAL


def policy_of(*given: Mapping[str, Any] | None) -> RetryPolicy:
    """What the first policy that is given says: for an errorAction its own, then that of its action."""
    policy = next((one for one in given if one is not None), {})
    if policy.get("retryType") == _NONE:
        return RetryPolicy(count=0)
    interval = policy.get("retryInterval")
    return RetryPolicy(
        count=policy.get("retryCount", COUNT_USUAL),
        interval=INTERVAL_USUAL if interval is None else read_span(interval, "retryInterval").length,
    )


def read_retry_policy(value: Mapping[str, Any], field: str) -> Json:
    """Only what was given is answered. Limits are those of tries: where there are none, anything goes."""
    policy = members(
        value,
        field,
        {
            "retryType": choice((_NONE, "fixed")),
            "retryInterval": lambda span, path: read_span(span, path).text,
            "retryCount": whole(0, COUNT_MAX),
        },
    )
    if policy.get("retryType") != _NONE:
        _check_limits(policy, field)
    return policy


def _check_limits(policy: Mapping[str, Any], field: str) -> None:
    if "retryCount" in policy:
        whole(1, COUNT_MAX)(policy["retryCount"], f"{field}.retryCount")
    if "retryInterval" not in policy:
        return
    length = read_span(policy["retryInterval"], field).length
    if not INTERVAL_LEAST <= length <= INTERVAL_MAX:
        raise InvalidJob(
            f"{field}.retryInterval",
            f"is {policy['retryInterval']}; write at least {describe(INTERVAL_LEAST)}"
            f" and at most {describe(INTERVAL_MAX)} (18 months)",
        )
