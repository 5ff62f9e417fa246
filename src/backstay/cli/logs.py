"""How a server logs: lines for people, or one JSON object a line for programs."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from backstay.settings import Settings

TEXT: Final = "%(asctime)s %(levelname)s %(message)s"


class JsonLines(logging.Formatter):
    """One object for each record: an event has its name and its fields by themselves.

    JSON has no line breaks inside of strings: one record is one line, whatever a value holds.
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC),
            "level": record.levelname,
            "logger": record.name,
        }
        event = getattr(record, "event", None)
        if event is None:
            line["message"] = record.getMessage()
        else:
            line["event"] = event
            line |= {name: _shown(value) for name, value in getattr(record, "fields", {}).items()}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


def set_up_logging(settings: Settings) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if settings.log_format == "json" else logging.Formatter(TEXT))
    logging.basicConfig(handlers=[handler], level=settings.log_level.upper())


def _shown(value: Any) -> Any:
    """Numbers as they are, everything else as text that can be written."""
    if value is None or isinstance(value, bool | int | float):
        return value
    return str(value).encode("utf-8", "backslashreplace").decode()
