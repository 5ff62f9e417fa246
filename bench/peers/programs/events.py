"""An event as others are given it: as long as one of ours."""

from __future__ import annotations

import json
from typing import Final

BODY: Final = json.dumps(
    {"n": "0" * 9, "line": 0, "customer": "c9", "lines": [{"sku": "a-1", "count": 2}], "note": "x" * 80},
    separators=(",", ":"),
)
