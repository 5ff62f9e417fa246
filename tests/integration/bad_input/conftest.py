"""Workflows that take all kinds of input, and a door at which nothing bad gets in."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pydantic
import pytest

from backstay import App, Client
from tests.support.databases import Database

LIMIT = 2048


class Package(msgspec.Struct):
    size: int
    label: str = "plain"


@dataclass
class Address:
    street: str
    zip: int = 0


class Account(pydantic.BaseModel):
    owner: str
    limit: float = 1.0


class Opaque:
    pass


@pytest.fixture
def app() -> App:
    app = App("bad-input")
    agent = app.agent("echo")

    @agent.step
    async def echo(value: int) -> int:
        return value

    @app.workflow
    async def ship(package: Package) -> None: ...

    @app.workflow
    async def bill(account: Account) -> None: ...

    @app.workflow
    async def move(address: Address) -> None: ...

    @app.workflow
    async def add(first: int, second: int = 2) -> None: ...

    @app.workflow
    async def store(anything: Any) -> None: ...

    @app.workflow
    async def measure(value: float | None) -> None: ...

    @app.workflow
    async def idle() -> None: ...

    @app.workflow(plan=[echo])
    async def planned() -> None: ...

    return app


@pytest.fixture
async def client(app: App, database: Database) -> AsyncIterator[Client]:
    """No role runs: what is in the store is what was written at the door."""
    async with app.client(database.url, payload_bytes_max=LIMIT, inline_bytes_max=512) as client:
        yield client


@pytest.fixture
def refused(client: Client, database: Database) -> Callable[..., Any]:
    """Await something that must raise; whatever it was, the store is as it was before."""

    async def refused(kind: type[Exception], match: str, awaitable: Any) -> Exception:
        before = database.content()
        with pytest.raises(kind, match=match) as raised:
            await awaitable
        assert database.content() == before
        return raised.value

    return refused
