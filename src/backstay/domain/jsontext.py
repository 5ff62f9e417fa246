"""JSON in the strictest sense: what two readers could understand differently is refused.

Keys that come twice, NaN, half of a surrogate pair. So is NUL, which not every database can keep, and
what is nested so deeply that some reader would give up.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from backstay.errors import InvalidInput, NotJson

NESTING_MAX: Final = 100

_TEXT: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')

# NUL and the colon as escapes.
_HIDING: Final = (b"\\u0000", b"\\u003a", b"\\u003A")

_decode: Final = msgspec.json.Decoder().decode
#: A value as JSON. The same value is always the same text, whoever wrote it: content is compared by that.
written: Final = msgspec.json.Encoder(order="deterministic").encode


def value_of(text: bytes, what: str = "the body", *, levels: int = NESTING_MAX) -> Any:
    """The value that ``text`` is the JSON of. Raises NotJson, or InvalidInput; both name ``what``."""
    value = _decoded(text, what)
    # Outside of texts each key has its colon: fewer keys mean that one came twice.
    if _checked_keys(value, what, levels=levels) != _TEXT.sub(b"", text).count(b":"):
        raise _twice(what)
    return value


def canonical(text: bytes, what: str = "the body") -> bytes:
    """The one text that stands for the value of ``text``; raises what ``value_of`` does, but sooner."""
    if not is_plain(text):
        return written(value_of(text, what))
    anew = written(_decoded(text, what))
    if text.count(b":") != anew.count(b":"):
        raise _twice(what)
    return anew


def is_plain(text: bytes) -> bool:
    """Whether a key that comes twice is all that can be wrong with ``text``, if it is JSON.

    That is so when nothing is nested too deeply even if every bracket opened one level more, and no NUL
    and no colon is written as an escape. Then such a key shows in the number of colons: as many are left
    when the value is written anew, unless something was lost.
    """
    # What is short has no room for so many brackets, and as many to close them.
    if len(text) > 2 * NESTING_MAX and text.count(b"[") + text.count(b"{") > NESTING_MAX:
        return False
    return b"\\u00" not in text or not any(escape in text for escape in _HIDING)


def _decoded(text: bytes, what: str) -> Any:
    try:
        return _decode(text)
    except RecursionError as error:
        raise _too_deep(what) from error
    except msgspec.ValidationError as error:  # Only a number can be invalid where any value is.
        raise InvalidInput(f"{what} has a number that cannot be kept: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotJson(f"{what} must be one JSON value: {error}") from error


def _checked_keys(value: Any, what: str, *, levels: int) -> int:
    """How many keys there are in ``value``. Raises for what is nested too deeply, and for NUL."""
    if isinstance(value, str):
        _check_text(value)
        return 0
    if not isinstance(value, (dict, list)):
        return 0
    if levels == 0:
        raise _too_deep(what)
    if isinstance(value, list):
        return sum(_checked_keys(item, what, levels=levels - 1) for item in value)
    for key in value:
        _check_text(key)
    return len(value) + sum(_checked_keys(item, what, levels=levels - 1) for item in value.values())


def _check_text(text: str) -> None:
    if "\0" in text:
        raise InvalidInput(f"the text {text[:40]!r} holds NUL (\\u0000), which not every store can keep")


def _too_deep(what: str) -> InvalidInput:
    return InvalidInput(f"{what} is nested more than {NESTING_MAX} levels deep")


def _twice(what: str) -> InvalidInput:
    return InvalidInput(f"{what} has an object in which a key comes twice; which one counts?")
