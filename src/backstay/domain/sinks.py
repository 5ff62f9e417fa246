"""Where alerts are told, as the settings say; when a sink that could not be told is told again."""

from __future__ import annotations

import hashlib
import hmac
import re
import shlex
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from backstay.errors import InvalidSetting

#: After the first failure, twice as long after each that follows, and never longer than the last.
FIRST_PAUSE: Final = timedelta(seconds=1)
LONGEST_PAUSE: Final = timedelta(minutes=5)
_DOUBLED_MAX: Final = 10

SINKS_MAX: Final = 10

# As much of an address as is needed to see that it is one: neither user nor blank nor backslash in it.
_WEBHOOK: Final = re.compile(
    r"https?://(?P<host>[A-Za-z0-9.\-]+|\[[0-9A-Fa-f:.]+\])(:\d{1,5})?([/?][!-\[\]-~]*)?"
)


@dataclass(frozen=True, slots=True)
class Webhook:
    """An address that is posted to. It may hold a secret of the receiver's and is shown to nobody."""

    url: str = field(repr=False)
    secret: str = field(default="", repr=False)

    @property
    def name(self) -> str:
        """For the log and the store: whose it is, and which of theirs."""
        found = _WEBHOOK.fullmatch(self.url)
        assert found is not None
        return f"webhook:{found['host']}:{_digest(self.url)}"


@dataclass(frozen=True, slots=True)
class Command:
    """A program that gets the alert on its standard input."""

    argv: tuple[str, ...] = field(repr=False)

    @property
    def name(self) -> str:
        program = self.argv[0].rpartition("/")[2]
        return f"command:{program}:{_digest(shlex.join(self.argv))}"


SinkTarget = Webhook | Command


def read_sinks(*, webhooks: str, secret: str, command: str) -> tuple[SinkTarget, ...]:
    """From settings. Raises InvalidSetting, which repeats nothing of what may be secret."""
    urls = [one.strip() for one in webhooks.split(",") if one.strip()]
    if any(not _WEBHOOK.fullmatch(url) for url in urls):
        raise InvalidSetting(
            "alert_webhook holds something that is no address;"
            " write http:// or https:// and a host, with commas between several"
        )
    if len(urls) > SINKS_MAX:
        raise InvalidSetting(f"alert_webhook holds {len(urls)} addresses; there may be {SINKS_MAX}")
    found: list[SinkTarget] = [Webhook(url, secret) for url in dict.fromkeys(urls)]
    try:
        argv = tuple(shlex.split(command))
    except ValueError as error:
        raise InvalidSetting(f"alert_command cannot be read: {error}") from error
    return (*found, Command(argv)) if argv else tuple(found)


def pause_after(attempt: int) -> timedelta:
    """How long after its ``attempt``-th failure a sink is told again."""
    doubled: timedelta = FIRST_PAUSE * 2 ** min(attempt - 1, _DOUBLED_MAX)
    return min(doubled, LONGEST_PAUSE)


def signature(secret: str, body: bytes, at: datetime) -> str:
    """By which a receiver knows who speaks, and that it is not something that was said long ago."""
    seconds = str(int(at.timestamp()))
    digest = hmac.new(secret.encode(), f"{seconds}.".encode() + body, hashlib.sha256)
    return f"t={seconds},v1={digest.hexdigest()}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
