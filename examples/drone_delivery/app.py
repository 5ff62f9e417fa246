"""``backstay serve drone_delivery.app:app``: the workflows, who reads, and the routes for customers."""

from __future__ import annotations

from drone_delivery import carrier, history
from drone_delivery.customers import customers, health
from drone_delivery.workflow import app

app.mount("/api", customers)
app.mount("/health", health)

__all__ = ["app", "carrier", "history"]
