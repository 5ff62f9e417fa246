"""What a sink is: whom alerts are told (``webhook``, ``command``)."""

from __future__ import annotations

from typing import Final, Protocol

from backstay.domain.alert import Alert

#: So many alerts a sink is told at once.
AT_ONCE: Final = 4


class NotTold(Exception):
    """Why a sink was not told, in words that hold nothing of its address or its answer."""


class Sink(Protocol):
    @property
    def name(self) -> str: ...

    async def tell(self, alert: Alert) -> None:
        """Returns once the sink has said that it knows. Raises NotTold."""

    async def close(self) -> None: ...
