"""What is kept of groups as rows, and back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import structs

from backstay.domain.ownership import Claim, Member
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
        stream, name, partition, slot, epoch, checkpoint = row
        group = Group(stream, name)
        return Holding(group=group, partition=partition, slot=slot, epoch=epoch, checkpoint=checkpoint)

    def member(self, row: Row) -> Member:
        """From the columns of ``list_members``."""
        name, started_at, ordinal, members = row
        claim = None if ordinal is None else Claim(ordinal, members)
        return Member(id=name, started_at=self._instant(started_at), claim=claim)

    def standing(self, row: Row) -> GroupStanding:
        """From the columns of ``list_standings`` or ``list_units``."""
        stream, name, partition, slot, checkpoint, holder, epoch, updated_at = row
        return GroupStanding(
            group=Group(stream, name),
            partition=partition,
            slot=slot,
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


def unit_columns(one: Holding | GroupStanding) -> tuple[str, str, int, int]:
    return one.group.stream, one.group.name, one.partition, one.slot


def claim_columns(claim: Claim | None) -> dict[str, int | None]:
    return {"ordinal": None, "members": None} if claim is None else structs.asdict(claim)
