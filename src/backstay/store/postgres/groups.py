"""What a database that many processes share keeps of groups: its clock judges who reads no more."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from backstay.domain.audit import Act
from backstay.domain.lease import Owner
from backstay.domain.ownership import Claim, Ownership
from backstay.domain.stream import Group, GroupStanding, Holding, Quarantined
from backstay.domain.target import group_target
from backstay.errors import BackstayError, Conflict, OtherLog
from backstay.store.advancing import Asked, weight
from backstay.store.base import Changes
from backstay.store.decisions import check_event_ids, check_forgettable
from backstay.store.gathering import Gathering
from backstay.store.group_rows import claim_columns, unit_columns
from backstay.store.groups import Advance, Advanced
from backstay.store.joining import NewUnit, units_to_make
from backstay.store.postgres.advancing import SHAPE, Advances, Answers, Refused
from backstay.store.postgres.forgetting import forget_ids
from backstay.store.postgres.messages import Messages
from backstay.store.postgres.session import Session
from backstay.store.postgres.statuses import Statuses
from backstay.store.postgres.supervision import PostgresSupervision
from backstay.store.postgres.tables import Judged, Tables
from backstay.store.queue_news import called

# By this nobody is late.
_NO_LEASE: Final = timedelta(days=365_000)
# The parameters of take_units.
_TAKEN: Final = ("stream", "grp", "partition", "slot", "epoch")


class PostgresGroups:
    """The verbs of groups in one schema."""

    def __init__(
        self,
        session: Callable[[], Session],
        supervision: PostgresSupervision,
        *,
        schema: str,
        messages: Messages,
        statuses: Statuses,
        judged: Judged,
    ) -> None:
        self._session = session
        self._supervision = supervision
        self._judged = judged
        self._group = f"backstay {schema} group"
        self._messages = messages
        self._write = Advances(schema=schema, messages=messages, statuses=statuses, judged=judged).write
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

        async def operation(tables: Tables, changes: Changes) -> None:
            await tables.check_epoch(owner)
            await self._alone(tables, group)
            seen = await self._seen(tables, group, log=log, owner=owner, lease=lease, now=now)
            new = units_to_make(group, seen, partitions=partitions, readers=readers, me=owner.id)
            await tables.run("forget_members", all=new.anew, **of)
            if new.anew:
                await tables.run("forget_checkpoints", **of)
            if new.units:
                columns = dict(zip(NewUnit._fields, zip(*new.units, strict=True), strict=True))
                await tables.run("insert_units", log=log, now=self._judged(now), **columns, **of)
            await tables.run("enter_member", instance=owner.id, **claim_columns(claim), **of)
            changes.ownership = True

        await self._session().write(operation)

    async def leave(self, group: Group, *, owner: Owner) -> None:
        async def operation(tables: Tables, changes: Changes) -> None:
            await tables.run("leave_group", instance=owner.id, **_of(group))
            changes.ownership = True

        await self._session().write(operation)

    async def ownership(
        self, group: Group, *, log: str, owner: Owner, lease: timedelta, now: datetime
    ) -> Ownership:
        return await self._session().read(
            lambda tables: self._seen(tables, group, log=log, owner=owner, lease=lease, now=now)
        )

    async def _seen(
        self, tables: Tables, group: Group, *, log: str, owner: Owner, lease: timedelta, now: datetime
    ) -> Ownership:
        [[elsewhere]] = await tables.run("is_in_another_log", log=log, **_of(group))
        if elsewhere:
            raise OtherLog(group.stream, group.name)
        # After an outage everybody is late: then only who was declared dead reads no more.
        judged_by = lease if self._supervision.may_judge(lease) else _NO_LEASE
        late = self._supervision.late(lease=judged_by, now=now, spare=owner)
        members = await tables.run("list_members", **_of(group), **late)
        units = await tables.run("list_units", **_of(group), **late)
        return Ownership([*map(SHAPE.member, members)], [*map(SHAPE.standing, units)])

    async def take(
        self, units: Sequence[GroupStanding], *, log: str, owner: Owner, now: datetime
    ) -> list[Holding]:
        wanted = [(*unit_columns(one), one.epoch) for one in units]

        async def operation(tables: Tables, changes: Changes) -> list[Holding]:
            await tables.check_epoch(owner)
            columns = dict(zip(_TAKEN, zip(*wanted, strict=True), strict=True))
            rows = await tables.run("take_units", log=log, owner=owner.id, now=self._judged(now), **columns)
            changes.ownership = changes.ownership or bool(rows)
            return sorted(map(SHAPE.holding, rows), key=lambda one: one.unit)

        return await self._session().write(operation) if wanted else []

    async def release(
        self,
        holdings: Sequence[Holding],
        *,
        owner: Owner,
        now: datetime,  # noqa: ARG002  A holder may stop at any time.
    ) -> None:
        held = [(*unit_columns(one), one.epoch, owner.id) for one in holdings]

        async def operation(tables: Tables, changes: Changes) -> None:
            await tables.run_rows("release_units", held)
            changes.ownership = True

        await self._session().write(operation)

    async def _alone(self, tables: Tables, group: Group) -> None:
        """Others who join or forget the group wait for our commit."""
        await tables.run("one_at_a_time", name=f"{self._group} {group.stream}/{group.name}")

    # How far

    async def advance(
        self, advances: Sequence[Advance], *, owner: Owner, quarantine_max: int, now: datetime
    ) -> list[Advanced | BackstayError]:
        return await self._advances.add([Asked(one, owner, quarantine_max) for one in advances], now=now)

    async def _advance(self, asked: list[tuple[Asked, datetime]], *, one_by_one: bool = False) -> Answers:
        """All at once; each by itself when one of them is refused: the others must not suffer."""
        refused: BackstayError
        try:
            answers, alerts = await self._session().write(
                lambda tables, changes: self._write(tables, changes, asked, one_by_one=one_by_one)
            )
            called(alerts)
            await forget_ids(self._session(), self._messages, now=self._judged(asked[0][1]))
            return answers  # noqa: TRY300  What comes below is about those that were refused.
        except Refused as error:
            refused = error.error
        except Conflict as error:  # Something breaks a rule of the schema; perhaps it is a task.
            if len(asked) == 1 and not one_by_one:
                return await self._advance(asked, one_by_one=True)
            refused = error
        if len(asked) == 1:
            return [refused]
        return [answer for one in asked for answer in await self._advance([one])]

    async def standings(self, stream: str) -> list[GroupStanding]:
        async def look(tables: Tables) -> list[GroupStanding]:
            return [SHAPE.standing(row) for row in await tables.run("list_standings", stream=stream)]

        return await self._session().read(look)

    async def forget(self, group: Group, *, act: Act, now: datetime) -> None:
        of = _of(group)

        async def operation(tables: Tables, _changes: Changes) -> None:
            await self._alone(tables, group)
            partitions = [partition for (partition,) in await tables.run("partitions_of", **of)]
            readers = [reader for (reader,) in await tables.run("readers_of", **of)]
            check_forgettable(group, partitions, readers)
            quarantined = await tables.run("forget_quarantine", **of)
            await tables.run("forget_checkpoints", **of)
            await tables.run("forget_members", all=True, **of)
            before = {"partitions": len({*partitions}), "quarantined": len(quarantined)}
            await tables.record(act, now, before=before, after=None)
            await _take_up(tables, {group}, act, now)

        await self._session().write(operation)

    # What was set aside

    async def quarantine(
        self, stream: str, *, group: str | None = None, after: int = 0, limit: int
    ) -> list[Quarantined]:
        query = "list_quarantined" if group is None else "list_quarantined_of"

        async def look(tables: Tables) -> list[Quarantined]:
            rows = await tables.run(query, stream=stream, grp=group, after=after, limit=limit)
            return [SHAPE.quarantined(row) for row in rows]

        return await self._session().read(look)

    async def quarantine_sizes(self, stream: str, *, counted: int) -> Mapping[str, int]:
        async def look(tables: Tables) -> Mapping[str, int]:
            rows = await tables.run("quarantine_sizes", stream=stream, counted=counted)
            return {row[0]: row[1] for row in rows}

        return await self._session().read(look)

    async def resubmit(
        self, stream: str, ids: Sequence[int] | None, *, limit: int, act: Act, now: datetime
    ) -> list[int]:
        check_event_ids(stream, ids)

        async def operation(tables: Tables, _changes: Changes) -> list[int]:
            if ids is None:
                rows = await tables.run("quarantined_to_resubmit", stream=stream, limit=limit)
            else:
                rows = await tables.run("quarantined_by_id", stream=stream, quarantined=ids)
            found = {row[0]: row[1] for row in rows}
            check_event_ids(stream, ids, found)
            await tables.run("resubmit_quarantined", quarantined=[*found])
            await tables.record(act, now, before=None, after={"resubmitted": len(found)})
            await _take_up(tables, {Group(stream, name) for name in found.values()}, act, now)
            return [*found]

        return await self._session().write(operation)

    async def resubmitted(self, group: Group, partitions: Sequence[int], *, limit: int) -> list[Quarantined]:
        async def look(tables: Tables) -> list[Quarantined]:
            rows = await tables.run("list_resubmitted", partitions=[*partitions], limit=limit, **_of(group))
            return [SHAPE.quarantined(row) for row in rows]

        return await self._session().read(look)


def _of(group: Group) -> dict[str, str]:
    return {"stream": group.stream, "grp": group.name}


async def _take_up(tables: Tables, groups: set[Group], act: Act, now: datetime) -> None:
    """Whoever acts on what groups set aside has seen the alerts that tell of it."""
    for group in sorted(groups):
        target = group_target(group.stream, group.name)
        await tables.run("take_up", target=target, step=None, by=act.who, now=now)
