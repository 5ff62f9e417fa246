"""What streams look like to people."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from rich.table import Table
from rich.text import Text

from backstay.cli.cells import LOUD, QUIET, columns, cut, keep_whole, words
from backstay.cli.render import value_text, visible
from backstay.domain.wording import age, instant, span
from backstay.streamroom import EventView, GroupView, QuarantinedEvent, StreamSummary


def stream_table(streams: Iterable[StreamSummary]) -> Table:
    table = columns("stream", "partitions", "events", "bytes", "groups")
    for stream in streams:
        groups = ", ".join(f"{one.group} {one.lag:,} behind" for one in stream.groups)
        table.add_row(
            words(stream.name),
            str(stream.partitions),
            f"{stream.events:,}",
            f"{stream.bytes:,}",
            words(groups),
        )
    return table


def lag_table(groups: Iterable[GroupView], *, now: datetime) -> Table:
    table = columns("group", "partition", "checkpoint", "lag", "waiting", "checkpoint written", "owner")
    for one in groups:
        table.add_row(
            words(one.group),
            f"{one.partition}/{one.slot}" if one.slot else str(one.partition),
            "" if one.checkpoint is None else f"{one.checkpoint:,}",
            f"{one.lag:,}",
            span(timedelta(seconds=one.lag_seconds)) if one.lag else "",
            age(one.checkpoint_at, now=now),
            words(one.owner) if one.owner else Text("nobody", style=LOUD if one.lag else QUIET),
        )
    keep_whole(table, "checkpoint written")
    return table


def quarantine_table(events: Iterable[QuarantinedEvent], *, now: datetime) -> Table:
    table = columns("id", "group", "partition", "offset", "set aside", "reason", "body")
    for one in events:
        table.add_row(
            str(one.id),
            words(one.group),
            str(one.partition),
            f"{one.offset:,}",
            Text("to be processed again", style="yellow") if one.resubmitted else age(one.at, now=now),
            words(one.reason, style="red"),
            cut(value_text(one.body)),
        )
    keep_whole(table, "id", "set aside")
    return table


def event_line(partition: int, event: EventView) -> str:
    """An event on one line: where and when it is, its key if it has one, and its body."""
    key = f" {event.key}" if event.key is not None else ""
    return visible(f"{partition}/{event.offset} {instant(event.enqueued_at)}{key} {value_text(event.body)}")
