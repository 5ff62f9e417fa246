"""What a database says of itself."""

from __future__ import annotations

from collections.abc import Callable

from backstay.store.inspection import Reached
from backstay.store.postgres.session import Session
from backstay.store.postgres.tables import Tables


class PostgresInspection:
    """The verbs of ``store.checking`` on a schema of a server."""

    def __init__(self, session: Callable[[], Session]) -> None:
        self._session = session

    async def page_of_keys(self, *, after: int, size: int) -> tuple[int, int]:
        async def look(tables: Tables) -> tuple[int, int]:
            [[through]] = await tables.run("page_of_keys", after=after, page=size)
            [[last]] = await tables.run("last_key")
            return through or 0, last

        return await self._session().read(look)

    async def broken(self, query: str, *, after: int, through: int, limit: int) -> list[tuple[str, str]]:
        async def look(tables: Tables) -> list[tuple[str, str]]:
            rows = await tables.run(query, after=after, through=through, limit=limit)
            return [(row[0], row[1]) for row in rows]

        return await self._session().read(look)

    async def reached(self, *, after: tuple[str, str, int, int], limit: int) -> list[Reached]:
        stream, group, partition, slot = after

        async def look(tables: Tables) -> list[Reached]:
            found = await tables.run(
                "reached", stream=stream, grp=group, partition=partition, slot=slot, limit=limit
            )
            return [Reached(*row) for row in found]

        return await self._session().read(look)

    async def integrity(self, *, limit: int) -> list[str]:  # noqa: ARG002  The server looks after its pages.
        return []
