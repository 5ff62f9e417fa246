"""``backstay serve orders.app:app``: everybody who fulfils orders, in as many processes as you like."""

from __future__ import annotations

from orders.desk import staff
from orders.submission import accept
from orders.workflow import app

app.mount("/records", staff)

__all__ = ["accept", "app"]
