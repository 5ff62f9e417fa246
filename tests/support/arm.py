"""The REST API of Azure Scheduler, as a client sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from tests.support.serving import Answer, Served

ROOT = "/subscriptions/S/resourceGroups/RG/providers/Microsoft.Scheduler/jobCollections"
VERSION = "2016-03-01"


@dataclass
class Arm:
    """Asks a server for what is in one resource group."""

    served: Served
    token: str | None = None

    async def ask(
        self,
        method: str,
        path: str = "",
        body: Any = msgspec.UNSET,
        *,
        query: str = "",
        version: str = VERSION,
        root: str = ROOT,
        **options: Any,
    ) -> Answer:
        """``path`` is below the collections of the group; ``query`` comes behind the api-version."""
        return await self.served.ask(
            method,
            f"{root}{path}?api-version={version}{query and f'&{query}'}",
            body,
            token=self.token,
            **options,
        )

    async def get(self, path: str = "", query: str = "", **options: Any) -> Answer:
        return await self.ask("GET", path, query=query, **options)

    async def put(self, path: str, body: Any, **options: Any) -> Answer:
        return await self.ask("PUT", path, body, **options)

    async def patch(self, path: str, body: Any, **options: Any) -> Answer:
        return await self.ask("PATCH", path, body, **options)

    async def post(self, path: str, **options: Any) -> Answer:
        return await self.ask("POST", path, **options)

    async def delete(self, path: str) -> Answer:
        return await self.ask("DELETE", path)

    async def made(self, name: str, sku: str = "Standard", **properties: Any) -> None:
        """A collection that was not there before."""
        document = {"location": "westus", "properties": {"sku": {"name": sku}, **properties}}
        answer = await self.put(f"/{name}", document)
        assert answer.status == 201, answer

    async def names(self, path: str = "", query: str = "") -> list[str]:
        """What a list gives, by name."""
        answer = await self.get(path, query)
        assert answer.status == 200, answer
        assert set(answer.json) == {"value", "nextLink"}
        assert answer.json["nextLink"] is None
        return [one["name"] for one in answer.json["value"]]


def error(answer: Answer) -> tuple[int, str, str]:
    """Status, code and message of an error, which has the form that Azure Resource Manager gives it."""
    assert answer.headers["Content-Type"] == "application/json; charset=utf-8", answer
    assert set(answer.json) == {"error"}, answer
    assert set(answer.json["error"]) == {"code", "message"}, answer
    return answer.status, answer.json["error"]["code"], answer.json["error"]["message"]


def is_empty(answer: Answer) -> bool:
    """Whether an answer says nothing but that it is done."""
    return (
        answer.status == 200
        and answer.body == b""
        and answer.headers["Content-Length"] == "0"
        and "Content-Type" not in answer.headers
    )
