"""What ``@app.submission`` declares, and what its function gives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from backstay.definitions.workflows import Workflow
from backstay.domain.durations import Instant


@dataclass(frozen=True, slots=True)
class Submission:
    """The task that a message asks for. Without an ``id`` it is called as the message is."""

    workflow: Workflow[..., Any] | str
    input: Any = None
    id: str | None = None
    complete_by: Instant | None = None
    reply_to: str | None = None
    attributes: Mapping[str, str] | None = None


#: Gets each message, and a connection with an open transaction.
Acceptor = Callable[[Any, Any], Awaitable[Submission]]
