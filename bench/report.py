"""How results are shown: an aligned table, or one JSON document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from bench.conditions import Conditions

#: What a bench gives: a frozen struct, whose fields are the columns.
Row = msgspec.Struct

_GAP = "  "


def table(title: str, rows: Sequence[Row]) -> str:
    """The rows below their fields' names; numbers to the right, words to the left."""
    records = [msgspec.structs.asdict(row) for row in rows]
    if not records:
        return f"{title}\n(nothing was measured)\n"
    lines = [""] * (len(records) + 1)
    for name in records[0]:
        values = [record[name] for record in records]
        cells = [_heading(name), *map(_cell, values)]
        width = max(map(len, cells))
        is_text = all(value is None or isinstance(value, str) for value in values)
        padded = [cell.ljust(width) if is_text else cell.rjust(width) for cell in cells]
        lines = [f"{line}{_GAP}{cell}" for line, cell in zip(lines, padded, strict=True)]
    return "\n".join([title, *(line.rstrip() for line in lines)]) + "\n"


def document(found: Conditions, results: Mapping[str, Sequence[Row]]) -> str:
    return msgspec.json.encode({"conditions": found, "results": results}).decode()


def _heading(field: str) -> str:
    return field.replace("_per_second", "/s").replace("_percent", " %").replace("_", " ")


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    # An error may have several lines; a row has one.
    return f"{value:,}" if isinstance(value, int | float) else " ".join(str(value).split())
