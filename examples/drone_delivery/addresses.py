"""The services by name, and where each is found."""

from __future__ import annotations

import os
from typing import Final

#: The port that each has when nobody says otherwise.
DEFAULT_PORTS: Final = {
    "account": 8081,
    "package": 8082,
    "third-party": 8083,
    "drone": 8084,
    "delivery": 8085,
    "history": 8086,
}


def url_of(service: str) -> str:
    """Raises ValueError where somebody meant to say it, and did not."""
    variable = url_variable(service)
    url = os.environ.get(variable, f"http://127.0.0.1:{DEFAULT_PORTS[service]}")
    if not url.strip():
        raise ValueError(f"{variable} is empty; give the address of the {service} service, or leave it out")
    return url


def url_variable(service: str) -> str:
    """The environment variable with its address: ``THIRD_PARTY_URL``, for example."""
    return service.upper().replace("-", "_") + "_URL"
