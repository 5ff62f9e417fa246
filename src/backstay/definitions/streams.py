"""The declaration behind ``app.stream``."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from backstay.domain.durations import Duration, duration
from backstay.domain.stream import PARTITIONS_USUAL, Stream, checked_stream
from backstay.settings import Settings


class StreamDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """A stream as an application declares it; what is None is as the settings say.

    Without a number of partitions it has those that it has; a new one the usual number.
    """

    name: str
    partitions: int | None = None
    retention: timedelta | None = None
    dedup: timedelta | None = None

    @property
    def plain(self) -> bool:
        """Whether it is declared by its name alone."""
        return self == StreamDefinition(name=self.name)

    def terms(self, settings: Settings, *, partitions: int = PARTITIONS_USUAL) -> Stream:
        """``partitions``: how many it has, if nobody says."""
        return Stream(
            name=self.name,
            partitions=partitions if self.partitions is None else self.partitions,
            retention=settings.stream_retention if self.retention is None else self.retention,
            bytes_max=settings.stream_bytes_max,
            dedup=settings.stream_dedup_window if self.dedup is None else self.dedup,
        )


def stream_definition(
    name: str,
    *,
    partitions: int | None = None,
    retention: Duration | None = None,
    dedup: Duration | None = None,
) -> StreamDefinition:
    """What these options declare. Raises InvalidRequest, naming the one that is wrong."""
    declared = StreamDefinition(
        name=name,
        partitions=partitions,
        retention=None if retention is None else duration(retention, name="retention"),
        dedup=None if dedup is None else duration(dedup, name="dedup"),
    )
    checked_stream(declared.terms(Settings()))
    return declared
