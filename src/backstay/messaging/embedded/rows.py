"""Events and streams as rows, and back."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

import msgspec

from backstay.domain.instants import instant, micros_in
from backstay.domain.stream import EventRecord, NewEvent, Stream

#: The place of an event is the key of its partition, shifted by so many bits, plus its offset.
OFFSET_BITS: Final = 40
_OFFSET: Final = (1 << OFFSET_BITS) - 1

# What a row takes beside what the event brings.
EVENT_BYTES: Final = 32

_DIGEST_BYTES: Final = 8

_encode: Final = msgspec.json.Encoder().encode
_decode_events: Final = msgspec.json.Decoder(
    list[tuple[int, int, int, str | None, str | None, dict[str, str] | None, int]]
).decode
_decode_headers: Final = msgspec.json.Decoder(dict[str, str]).decode


def as_json(value: Any) -> str:
    return _encode(value).decode()


def base_of(partition_key: int) -> int:
    """The place that offset 0 of a partition has."""
    return partition_key << OFFSET_BITS


def offset_of(place: int) -> int:
    return place & _OFFSET


def size_of(event: NewEvent, headers: str | None) -> int:
    """What an event counts for in the size of its stream. SQL says the same in event_bytes."""
    size = len(event.body) + EVENT_BYTES
    if event.key is not None:
        size += len(event.key)
    if event.id is not None:
        size += len(event.id)
    return size if headers is None else size + len(headers)


def headers_of(event: NewEvent) -> str | None:
    return as_json(event.headers) if event.headers else None


def digest_of(event: NewEvent) -> int:
    """What tells an event from another one of the same id: its key and its body."""
    digest = hashlib.blake2b((event.key or "").encode(), digest_size=_DIGEST_BYTES)
    digest.update(b"\0")
    digest.update(event.body)
    return int.from_bytes(digest.digest(), "big", signed=True)


def event_records(partitions: Sequence[int], rows: str, bodies: bytes) -> list[list[EventRecord]]:
    """Events of some partitions out of one text of JSON and all their bodies, one behind the other."""
    records: list[list[EventRecord]] = [[] for _ in partitions]
    begin = 0
    at, seen = instant(0), 0
    for number, place, enqueued_at, key, event_id, headers, length in _decode_events(rows):
        if enqueued_at != seen:  # Those of one commit mostly share it.
            at, seen = instant(enqueued_at), enqueued_at
        records[number].append(
            EventRecord(
                partition=partitions[number],
                offset=place & _OFFSET,
                body=bodies[begin : begin + length],
                key=key,
                id=event_id,
                headers=headers,
                enqueued_at=at,
            )
        )
        begin += length
    return records


def event_record(row: tuple[Any, ...]) -> EventRecord:
    partition, place, enqueued_at, key, event_id, headers, body = row
    return EventRecord(
        partition=partition,
        offset=offset_of(place),
        body=body,
        key=key,
        id=event_id,
        headers=None if headers is None else _decode_headers(headers),
        enqueued_at=instant(enqueued_at),
    )


def stream_of(row: Iterable[Any]) -> Stream:
    name, partitions, retention, bytes_max, dedup = row
    return Stream(
        name=name,
        partitions=partitions,
        retention=timedelta(microseconds=retention),
        bytes_max=bytes_max,
        dedup=timedelta(microseconds=dedup),
    )


def terms_of(stream: Stream) -> Mapping[str, int]:
    """What of a stream may be declared anew."""
    return {
        "retention": micros_in(stream.retention),
        "bytes_max": stream.bytes_max,
        "dedup": micros_in(stream.dedup),
    }
