"""What this process counted and what the live processes of its store report, as Prometheus reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from backstay.api.calls import Call, Nothing, Text
from backstay.api.exposition import family, histogram, label
from backstay.api.job_metrics import job_lines
from backstay.api.queue_gauges import queue_lines
from backstay.api.stream_metrics import stream_exposition
from backstay.api.task_gauges import task_lines
from backstay.domain.alert import AlertKind
from backstay.domain.breaker import BreakerState
from backstay.observe import (
    EVENTS,
    LATE_REPLY,
    MESSAGE_DUPLICATE,
    OCCURRENCE_SKIPPED,
    OCCURRENCE_STARTED,
    RECOVERED,
    STATUS_LOST,
    appended,
    claim_seconds,
    commit_seconds,
    counters,
    lateness,
    processed,
    raised,
)
from backstay.views import AgentView, CallsView

MEDIA_TYPE: Final = "text/plain; version=0.0.4"

#: Events whose plural is not their name with ``_total``; they are there before the first of them, too.
_NAMES: Final = {
    LATE_REPLY: "late_replies",
    RECOVERED: "recoveries",
    MESSAGE_DUPLICATE: "message_duplicates",
    STATUS_LOST: "status_lost",
    OCCURRENCE_STARTED: "occurrences_started",
    OCCURRENCE_SKIPPED: "occurrences_skipped",
}


async def get_metrics(call: Call[Nothing, Nothing, Nothing]) -> Text:
    waiting = await call.service.admission.waiting()
    now = call.service.ports.clock.now()
    of_streams = stream_exposition(
        await call.service.stream_standings.get(), appended=appended, processed=processed, now=now
    )
    lines = [
        *exposition(counters, waiting=waiting, agents=await call.client.agents()),
        *queue_lines(await call.service.queue_gauges.get(), now=now),
        *of_streams,
        *job_lines(lateness),
        *task_lines(await call.service.task_gauges.get(), raised=raised, now=now),
        *histogram("backstay_commit_seconds", "How long commits of this process took.", commit_seconds),
        *histogram(
            "backstay_claim_seconds",
            "How long new tasks waited until this process claimed them.",
            claim_seconds,
        ),
    ]
    return Text("".join(f"{line}\n" for line in lines), media_type=MEDIA_TYPE)


def exposition(counted: Mapping[str, int], *, waiting: int, agents: Sequence[AgentView]) -> Iterator[str]:
    """The lines of the page."""
    yield from family(
        "backstay_backlog", "gauge", "Tasks that wait to be claimed, counted no further than the limit."
    )
    yield f"backstay_backlog {waiting}"
    # Alerts are counted by their kinds.
    for event in sorted({*EVENTS, *counted} - {*AlertKind}):
        name = f"backstay_{_NAMES.get(event, event)}_total"
        yield from family(name, "counter", f"How often {event} happened in this process.")
        yield f"{name} {counted.get(event, 0)}"
    yield from family(
        "backstay_breaker_open", "gauge", "Live processes in which the breaker of the agent is open."
    )
    for agent in agents:
        number = sum(one.breaker == BreakerState.OPEN for one in agent.instances)
        yield f"backstay_breaker_open{{agent={label(agent.name)}}} {number}"
    yield from family(
        "backstay_agent_concurrency",
        "gauge",
        "Steps of the agent that may run at once now, in all live processes.",
    )
    for agent in agents:
        limits = [one.concurrency for one in agent.instances if one.concurrency is not None]
        if limits:
            yield f"backstay_agent_concurrency{{agent={label(agent.name)}}} {sum(limits)}"
    yield from family(
        "backstay_agent_call_seconds",
        "gauge",
        "Within how many seconds such a share of the agent's calls ended lately, in all live processes.",
    )
    for agent in agents:
        for quantile, seconds in _quantiles(agent.calls):
            labels = f'agent={label(agent.name)},quantile="{quantile}"'
            yield f"backstay_agent_call_seconds{{{labels}}} {seconds:.6f}"
    yield from family(
        "backstay_agent_failing_ratio",
        "gauge",
        "The share of the agent's calls that failed lately, in all live processes.",
    )
    for agent in agents:
        if agent.calls.number:
            ratio = agent.calls.failed / agent.calls.number
            yield f"backstay_agent_failing_ratio{{agent={label(agent.name)}}} {ratio:.6f}"


def _quantiles(calls: CallsView) -> Iterator[tuple[str, float]]:
    """None of them while there are no calls: 0 would be a lie."""
    for quantile, seconds in (
        ("0.5", calls.p50_seconds),
        ("0.95", calls.p95_seconds),
        ("0.99", calls.p99_seconds),
    ):
        if seconds is not None:
            yield quantile, seconds
