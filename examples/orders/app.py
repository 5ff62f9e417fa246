"""``backstay serve orders.app:app``: the workflow, and the routes for customers on the same port."""

from __future__ import annotations

from orders.web import customers
from orders.workflow import app

app.mount("/orders", customers)

__all__ = ["app"]
