"""What is kept of groups as rows, and back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

import msgspec

from backstay.domain.stream import (
    REASON_LENGTH_MAX,
    EventRecord,
    Group,
    GroupStanding,
    Holding,
    NewQuarantined,
    Quarantined,
)
from backstay.store.rows import Row, as_json, storable

_decode_headers: Final = msgspec.json.Decoder(dict[str, str]).decode


class GroupShape:
    """How one database keeps an instant."""

    def __init__(self, *, stored: Callable[[datetime], Any], instant: Callable[[Any], datetime]) -> None:
        self._stored = stored
        self._instant = instant

    def holding(self, row: Row) -> Holding:
        """From the columns of ``holding_columns``."""
        stream, name, partition, epoch, checkpoint = row
        return Holding(group=Group(stream, name), partition=partition, epoch=epoch, checkpoint=checkpoint)

    def standing(self, row: Row) -> GroupStanding:
        """From the columns of ``list_standings``."""
        stream, name, partition, checkpoint, holder, epoch, updated_at = row
        return GroupStanding(
            group=Group(stream, name),
            partition=partition,
            checkpoint=checkpoint,
            holder=holder,
            epoch=epoch,
            updated_at=self._instant(updated_at),
        )

    def quarantined_row(self, group: Group, new: NewQuarantined, at: datetime) -> Row:
        """The parameters of ``set_aside``."""
        event = new.event
        return (
            group.stream,
            group.name,
            event.partition,
            event.offset,
            event.key,
            event.id,
            None if event.headers is None else as_json(event.headers),
            self._stored(event.enqueued_at),
            storable(new.reason, length_max=REASON_LENGTH_MAX),
            self._stored(at),
            event.body,
        )

    def quarantined(self, row: Row) -> Quarantined:
        """From the columns of ``quarantine_columns``."""
        event = EventRecord(
            partition=row[3],
            offset=row[4],
            body=row[12],
            key=row[5],
            id=row[6],
            headers=None if row[7] is None else _decode_headers(row[7]),
            enqueued_at=self._instant(row[8]),
        )
        return Quarantined(
            id=row[0],
            group=Group(row[1], row[2]),
            event=event,
            reason=row[9],
            at=self._instant(row[10]),
            resubmitted=bool(row[11]),
        )
