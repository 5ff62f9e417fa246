"""The application as the demo serves it: with the fault dials of the services on the console."""

from __future__ import annotations

from drone_delivery.addresses import DEFAULT_PORTS, url_of
from drone_delivery.app import app
from drone_delivery.demo.dials import FaultDial

for service in DEFAULT_PORTS:
    app.dial(service, FaultDial(url_of(service)))

__all__ = ["app"]
