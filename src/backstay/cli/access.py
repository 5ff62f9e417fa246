"""Which store a command works on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import typer

from backstay.client import Client
from backstay.definitions.registry import Registry
from backstay.runtime import connected
from backstay.settings import Settings

StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store", metavar="URL", help="The state store, as in sqlite:///orders.db.", show_default=False
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, as the HTTP interface would.")]


@asynccontextmanager
async def looking(url: str | None) -> AsyncIterator[Client]:
    """A client to look around with. A store that is not there is an error, and is not created."""
    async with connected(Registry(), Settings.load({"store": url}), must_exist=True) as client:
        yield client
