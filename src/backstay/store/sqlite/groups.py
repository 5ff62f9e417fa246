"""What one file keeps of groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from backstay.domain.alert import NewAlert
from backstay.domain.audit import Act
from backstay.domain.instants import micros
from backstay.domain.lease import Owner
from backstay.domain.ownership import Claim, Ownership
from backstay.domain.stream import Group, GroupStanding, Holding, Quarantined
from backstay.domain.target import group_target
from backstay.errors import BackstayError, OtherLog
from backstay.store.advancing import Asked, weight
from backstay.store.base import Changes, InstanceRecord
from backstay.store.decisions import check_event_ids, check_forgettable
from backstay.store.gathering import Gathering
from backstay.store.group_rows import claim_columns, unit_columns
from backstay.store.groups import Advance, Advanced
from backstay.store.joining import units_to_make
from backstay.store.queue_news import called
from backstay.store.rows import as_json
from backstay.store.sqlite.advancing import SHAPE, advance_all
from backstay.store.sqlite.session import Session
from backstay.store.sqlite.tables import Tables


class Dead(Protocol):
    """Tells who is to be declared dead."""

    def __call__(
        self, tables: Tables, *, lease: timedelta, now: datetime, spare: Owner | None
    ) -> list[InstanceRecord]: ...


class SqliteGroups:
    """The verbs of groups on one file."""

    def __init__(self, session: Callable[[], Session], dead: Dead) -> None:
        self._session = session
        self._dead = dead
        self._advances: Gathering[Asked, Advanced | BackstayError] = Gathering(self._advance, weigh=weight)

    # Who reads

    async def join(
        self,
        group: Group,
        *,
        partitions: int,
        readers: int = 1,
        claim: Claim | None = None,
        log: str,
        owner: Owner,
        lease: timedelta,
        now: datetime,
    ) -> None:
        of = _of(group)

        def operation(tables: Tables, changes: Changes) -> None:
            tables.check_epoch(owner)
            seen = self._seen(tables, group, log=log, owner=owner, lease=lease, now=now)
            new = units_to_make(group, seen, partitions=partitions, readers=readers, me=owner.id)
            tables.run("forget_members", all=new.anew, **of)
            if new.anew:
                tables.run("forget_checkpoints", **of)
            tables.run("insert_units", units=as_json(new.units), log=log, now=micros(now), **of)
            tables.run("enter_member", instance=owner.id, **claim_columns(claim), **of)
            changes.ownership = True

        await self._session().write(operation)

    async def leave(self, group: Group, *, owner: Owner) -> None:
        def operation(tables: Tables, changes: Changes) -> None:
            tables.run("leave_group", instance=owner.id, **_of(group))
            changes.ownership = True

        await self._session().write(operation)

    async def ownership(
        self, group: Group, *, log: str, owner: Owner, lease: timedelta, now: datetime
    ) -> Ownership:
        return await self._session().read(
            lambda tables: self._seen(tables, group, log=log, owner=owner, lease=lease, now=now)
        )

    def _seen(
        self, tables: Tables, group: Group, *, log: str, owner: Owner, lease: timedelta, now: datetime
    ) -> Ownership:
        if tables.run("is_in_another_log", log=log, **_of(group)).fetchone()[0]:
            raise OtherLog(group.stream, group.name)
        gone = as_json([one.id for one in self._dead(tables, lease=lease, now=now, spare=owner)])
        members = tables.run("list_members", gone=gone, **_of(group)).fetchall()
        units = tables.run("list_units", gone=gone, **_of(group)).fetchall()
        return Ownership([*map(SHAPE.member, members)], [*map(SHAPE.standing, units)])

    async def take(
        self, units: Sequence[GroupStanding], *, log: str, owner: Owner, now: datetime
    ) -> list[Holding]:
        wanted = as_json([(*unit_columns(one), one.epoch) for one in units])

        def operation(tables: Tables, changes: Changes) -> list[Holding]:
            tables.check_epoch(owner)
            taken = {"units": wanted, "log": log, "owner": owner.id, "now": micros(now)}
            rows = tables.run("take_units", **taken).fetchall()
            changes.ownership = changes.ownership or bool(rows)
            return sorted(map(SHAPE.holding, rows), key=lambda one: one.unit)

        return await self._session().write(operation)

    async def release(
        self,
        holdings: Sequence[Holding],
        *,
        owner: Owner,
        now: datetime,  # noqa: ARG002  A holder may stop at any time.
    ) -> None:
        held = as_json([(*unit_columns(one), one.epoch) for one in holdings])

        def operation(tables: Tables, changes: Changes) -> None:
            tables.run("release_units", holdings=held, owner=owner.id)
            changes.ownership = True

        await self._session().write(operation)

    # How far

    async def advance(
        self, advances: Sequence[Advance], *, owner: Owner, quarantine_max: int, now: datetime
    ) -> list[Advanced | BackstayError]:
        return await self._advances.add([Asked(one, owner, quarantine_max) for one in advances], now=now)

    async def _advance(self, asked: list[tuple[Asked, datetime]]) -> list[Advanced | BackstayError]:
        alerts: list[NewAlert] = []
        answers = await self._session().write(
            lambda tables, changes: advance_all(tables, changes, asked, alerts)
        )
        called(alerts)
        return answers

    async def standings(self, stream: str) -> list[GroupStanding]:
        def look(tables: Tables) -> list[GroupStanding]:
            return [SHAPE.standing(row) for row in tables.run("list_standings", stream=stream).fetchall()]

        return await self._session().read(look)

    async def forget(self, group: Group, *, act: Act, now: datetime) -> None:
        of = _of(group)

        def operation(tables: Tables, _changes: Changes) -> None:
            partitions = [partition for (partition,) in tables.run("partitions_of", **of).fetchall()]
            readers = [reader for (reader,) in tables.run("readers_of", **of).fetchall()]
            check_forgettable(group, partitions, readers)
            quarantined = tables.run("forget_quarantine", **of).rowcount
            tables.run("forget_checkpoints", **of)
            tables.run("forget_members", all=True, **of)
            before = {"partitions": len({*partitions}), "quarantined": quarantined}
            tables.record(act, now, before=before, after=None)
            _take_up(tables, {group}, act, now)

        await self._session().write(operation)

    # What was set aside

    async def quarantine(
        self, stream: str, *, group: str | None = None, after: int = 0, limit: int
    ) -> list[Quarantined]:
        query = "list_quarantined" if group is None else "list_quarantined_of"

        def look(tables: Tables) -> list[Quarantined]:
            rows = tables.run(query, stream=stream, grp=group, after=after, limit=limit).fetchall()
            return [SHAPE.quarantined(row) for row in rows]

        return await self._session().read(look)

    async def quarantine_sizes(self, stream: str, *, counted: int) -> Mapping[str, int]:
        def look(tables: Tables) -> Mapping[str, int]:
            return dict(tables.run("quarantine_sizes", stream=stream, counted=counted).fetchall())

        return await self._session().read(look)

    async def resubmit(
        self, stream: str, ids: Sequence[int] | None, *, limit: int, act: Act, now: datetime
    ) -> list[int]:
        check_event_ids(stream, ids)

        def operation(tables: Tables, _changes: Changes) -> list[int]:
            if ids is None:
                rows = tables.run("quarantined_to_resubmit", stream=stream, limit=limit)
            else:
                rows = tables.run("quarantined_by_id", stream=stream, quarantined=as_json(ids))
            found = dict(rows.fetchall())
            check_event_ids(stream, ids, found)
            tables.run("resubmit_quarantined", quarantined=as_json([*found]))
            tables.record(act, now, before=None, after={"resubmitted": len(found)})
            _take_up(tables, {Group(stream, name) for name in found.values()}, act, now)
            return [*found]

        return await self._session().write(operation)

    async def resubmitted(self, group: Group, partitions: Sequence[int], *, limit: int) -> list[Quarantined]:
        wanted = as_json([*partitions])

        def look(tables: Tables) -> list[Quarantined]:
            rows = tables.run("list_resubmitted", partitions=wanted, limit=limit, **_of(group)).fetchall()
            return [SHAPE.quarantined(row) for row in rows]

        return await self._session().read(look)


def _of(group: Group) -> dict[str, str]:
    return {"stream": group.stream, "grp": group.name}


def _take_up(tables: Tables, groups: set[Group], act: Act, now: datetime) -> None:
    """Whoever acts on what groups set aside has seen the alerts that tell of it."""
    for group in sorted(groups):
        target = group_target(group.stream, group.name)
        tables.run("take_up", target=target, step=None, by=act.who, now=micros(now))
