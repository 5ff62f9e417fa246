"""Templates: everything is escaped, and what a template names has to be there."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from backstay.clock import Clock
from backstay.domain.wording import age, brief, instant, span, took

#: Of a value, so much is shown.
VALUE_LENGTH_MAX: Final = 20_000
#: And so much of it where there is room for its beginning only.
LINE_LENGTH_MAX: Final = 120

_FOLDER: Final = Path(__file__).parent / "templates"


class Renderer:
    """Makes text of templates. What all of them may use is given once."""

    def __init__(self, clock: Clock, common: Mapping[str, Any]) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(_FOLDER),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.globals.update(common)
        self._environment.filters.update(
            ago=lambda then: age(then, now=clock.now()),
            instant=_instant,
            brief=brief,
            span=span,
            took=took,
            value=value_text,
            line=line_text,
            number=lambda number: f"{number:,}",
        )

    def text(self, template: str, values: Mapping[str, Any]) -> str:
        return self._environment.get_template(template).render(values)


def digest(text: str) -> str:
    """The same for the same text, and short."""
    return hashlib.blake2b(text.encode(), digest_size=9).hexdigest()


def value_text(value: Any) -> str:
    """A value as JSON in lines, its beginning if it is long."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    if len(text) <= VALUE_LENGTH_MAX:
        return text
    return f"{text[:VALUE_LENGTH_MAX]}\n… {len(text) - VALUE_LENGTH_MAX:,} characters more"


def line_text(value: Any) -> str:
    """A value as JSON on one line, its beginning if it is long."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= LINE_LENGTH_MAX else f"{text[:LINE_LENGTH_MAX]}…"


def _instant(value: datetime) -> str:
    """To the second, with a space where RFC 3339 has a T: it is to be read."""
    return instant(value).replace("T", " ")
