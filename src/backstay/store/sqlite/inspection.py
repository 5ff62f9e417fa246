"""What a file says of itself."""

from __future__ import annotations

from collections.abc import Callable

from backstay.store.inspection import Reached
from backstay.store.sqlite.session import Session
from backstay.store.sqlite.tables import Tables


class SqliteInspection:
    """The verbs of ``store.checking`` on one file."""

    def __init__(self, session: Callable[[], Session]) -> None:
        self._session = session

    async def page_of_keys(self, *, after: int, size: int) -> tuple[int, int]:
        def look(tables: Tables) -> tuple[int, int]:
            [through] = tables.run("page_of_keys", after=after, page=size).fetchone()
            [last] = tables.run("last_key").fetchone()
            return through or 0, last

        return await self._session().read(look)

    async def broken(self, query: str, *, after: int, through: int, limit: int) -> list[tuple[str, str]]:
        return await self._session().read(
            lambda tables: tables.run(query, after=after, through=through, limit=limit).fetchall()
        )

    async def reached(self, *, after: tuple[str, str, int, int], limit: int) -> list[Reached]:
        stream, group, partition, slot = after

        def look(tables: Tables) -> list[Reached]:
            found = tables.run(
                "reached", stream=stream, grp=group, partition=partition, slot=slot, limit=limit
            )
            return [Reached(*row) for row in found]

        return await self._session().read(look)

    async def integrity(self, *, limit: int) -> list[str]:
        def look(tables: Tables) -> list[str]:
            said = tables.connection.execute(f"PRAGMA integrity_check({int(limit)})").fetchall()
            foreign = tables.connection.execute("PRAGMA foreign_key_check").fetchmany(limit)
            return [
                *(line for (line,) in said if line != "ok"),
                *(
                    f"a row of {table} refers to one of {parent} that is not there"
                    for table, _, parent, _ in foreign
                ),
            ]

        return await self._session().read(look)
