"""Has the log forget what nobody needs any more: what is too old, or too much, and every group has passed."""

from __future__ import annotations

from typing import Final

from backstay.clock import Clock
from backstay.domain.stream import floors
from backstay.messaging.streams import Streams
from backstay.pulse import Pulse
from backstay.rounds import keep_rounds
from backstay.store.groups import Groups

PERIOD_SECONDS: Final = 10.0
# Of one trim, and of one look at the streams that there are.
TRIM_MAX: Final = 10_000
STREAMS_MAX: Final = 100


class Retention:
    """Goes by how far groups have got. A stream that no group reads goes by time and size alone."""

    def __init__(self, streams: Streams, groups: Groups, *, clock: Clock) -> None:
        self._streams = streams
        self._groups = groups
        self._clock = clock
        self.pulse = Pulse(clock)

    async def run(self) -> None:
        await keep_rounds(self.run_once, seconds=PERIOD_SECONDS, pulse=self.pulse)

    async def run_once(self) -> int:
        """One round over all streams; how many events were forgotten."""
        forgotten, after = 0, ""
        while standings := await self._streams.standings(after=after, limit=STREAMS_MAX):
            for standing in standings:
                after = standing.stream.name
                forgotten += await self._trim(after)
        return forgotten

    async def _trim(self, stream: str) -> int:
        forgotten = 0
        while True:
            self.pulse.felt()
            passed = floors(await self._groups.standings(stream))
            now = self._clock.now()
            trimmed = await self._streams.log.trim(stream, passed, now=now, limit=TRIM_MAX)
            forgotten += trimmed
            if trimmed < TRIM_MAX:
                return forgotten
