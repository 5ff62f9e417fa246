"""How tests open a log on a file."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from backstay.messaging.embedded import EmbeddedLog

OpenLog = Callable[..., Awaitable[EmbeddedLog]]
