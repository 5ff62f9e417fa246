"""``backstay serve drone_delivery.app:app``: the workflow, and the routes for customers on the same port."""

from __future__ import annotations

from drone_delivery.customers import customers
from drone_delivery.workflow import app

app.mount("/api", customers)

__all__ = ["app"]
