"""What a group cannot process is set aside, with the reason, until a person has seen to it."""

from __future__ import annotations

import pytest

from backstay.domain.alert import Alert, AlertKind
from backstay.domain.audit import Act
from backstay.domain.stream import REASON_LENGTH_MAX, Group, NewQuarantined, Quarantined
from backstay.errors import Conflict, QuarantineFull, UnknownEvent, UnknownGroup
from backstay.store.base import Store
from backstay.store.groups import Advance, Advanced
from backstay.store.records import AlertFilter, AuditFilter
from backstay.testing.clock import ManualClock
from backstay.testing.promises.holder import MANY, SECOND, submitted
from backstay.testing.promises.listing import listed
from backstay.testing.promises.readers import (
    ARCHIVE,
    Reader,
    ReadingPromises,
    a_start,
    an_event,
    set_aside,
)

ANN = Act(who="ann", action="resubmit", target="stream:telemetry")


async def alerts(store: Store) -> list[Alert]:
    return await store.records.alerts(AlertFilter(open_only=True))


class QuarantinePromises(ReadingPromises):
    async def test_an_event_is_set_aside_whole_with_the_reason(
        self, clock: ManualClock, reader: Reader
    ) -> None:
        event = an_event(7, key="drone-1", id="e7", headers={"a": "b"}, body=b'"\\u0000\xc3\xa9"')

        answer = await reader.advance(
            await reader.held(), to=8, quarantined=[NewQuarantined(event=event, reason="why")]
        )

        [quarantined] = await reader.quarantine()
        assert answer == Advanced()
        assert quarantined == Quarantined(
            id=quarantined.id, group=ARCHIVE, event=event, reason="why", at=clock.now()
        )
        assert await reader.checkpoint() == 8

    async def test_an_event_is_set_aside_once_however_often_that_is_said(
        self, clock: ManualClock, reader: Reader
    ) -> None:
        held = await reader.held()
        await reader.advance(held, quarantined=[set_aside(7, reason="first")])
        [before] = await reader.quarantine()
        clock.pass_time(SECOND)

        again = [set_aside(7, reason="second"), set_aside(7, reason="third")]
        assert await reader.advance(held, quarantined=again) == Advanced()

        assert await reader.quarantine() == [before]

    async def test_a_reason_is_kept_as_far_as_it_can_be(self, reader: Reader) -> None:
        reason = "\0\ud800" + "x" * REASON_LENGTH_MAX

        await reader.advance(await reader.held(), quarantined=[set_aside(reason=reason)])

        [quarantined] = await reader.quarantine()
        assert quarantined.reason == "\ufffd?" + "x" * (REASON_LENGTH_MAX - 2)

    # The limit

    async def test_as_many_are_set_aside_as_there_may_be_and_not_one_more(
        self, store: Store, reader: Reader
    ) -> None:
        held = await reader.held()
        assert (
            await reader.advance(held, to=2, quarantined=[set_aside(0), set_aside(1)], quarantine_max=2)
            == Advanced()
        )

        answer = await reader.advance(
            held, to=4, starts=[a_start("a", 2)], quarantined=[set_aside(3)], quarantine_max=2
        )

        assert isinstance(answer, QuarantineFull)
        assert await listed(store) == []
        assert await reader.checkpoint() == 2
        assert len(await reader.quarantine()) == 2

    async def test_a_full_quarantine_does_not_hold_up_what_has_nothing_to_set_aside(
        self, reader: Reader
    ) -> None:
        first, second = await reader.hold(0, 1)
        aside = set_aside(0)
        await reader.advance(first, to=1, quarantined=[aside], quarantine_max=1)

        answers = await reader.advance_all(
            [
                Advance(holding=first, to=2, quarantined=[aside], starts=[a_start("a", 1)]),
                Advance(holding=second, to=1, quarantined=[set_aside(0, partition=1)]),
                Advance(holding=second, starts=[a_start("b")]),
            ],
            quarantine_max=1,
        )

        assert answers[0] == answers[2] == Advanced(started=1)
        assert isinstance(answers[1], QuarantineFull)

    async def test_an_event_whose_task_is_another_needs_room_as_well(
        self, store: Store, clock: ManualClock, reader: Reader
    ) -> None:
        await submitted(store, clock, "a")
        held = await reader.held()
        await reader.advance(held, quarantined=[set_aside(0)], quarantine_max=1)

        starts = [a_start("b", 1), a_start("a", 2, input=b"[1]")]
        answer = await reader.advance(held, to=3, starts=starts, quarantine_max=1)

        assert isinstance(answer, QuarantineFull)
        assert await listed(store) == ["a"]
        assert await reader.checkpoint() is None

    async def test_every_group_has_room_of_its_own(
        self, store: Store, clock: ManualClock, reader: Reader
    ) -> None:
        other = Reader(store, clock, reader.owner, Group("telemetry", "scheduler"))

        for one in (reader, other):
            answer = await one.advance(await one.held(), quarantined=[set_aside()], quarantine_max=1)
            assert answer == Advanced()

        assert await store.groups.quarantine_sizes("telemetry", counted=MANY) == {
            "archive": 1,
            "scheduler": 1,
        }

    # The alert

    async def test_a_person_is_called_once_for_what_a_group_sets_aside(
        self, store: Store, reader: Reader
    ) -> None:
        held = await reader.held()
        for offset in (3, 4):
            await reader.advance(held, quarantined=[set_aside(offset, reason="no such drone")])

        [alert] = await alerts(store)

        assert (alert.kind, alert.target) == (AlertKind.QUARANTINE, "group:telemetry/archive")
        assert "offset 3" in alert.message
        assert "no such drone" in alert.message

    async def test_a_person_is_called_again_once_the_first_call_was_heard(
        self, store: Store, clock: ManualClock, reader: Reader
    ) -> None:
        held = await reader.held()
        await reader.advance(held, quarantined=[set_aside(1)])
        [first] = await alerts(store)
        act = Act(who="ann", action="acknowledge", target="alert:1")
        await store.records.acknowledge(first.id, act, now=clock.now())
        await reader.advance(held, quarantined=[set_aside(1)])
        assert await alerts(store) == [], "nothing new was set aside"

        await reader.advance(held, quarantined=[set_aside(2)])

        [second] = await alerts(store)
        assert second.id != first.id

    async def test_each_group_calls_for_itself(
        self, store: Store, clock: ManualClock, reader: Reader
    ) -> None:
        other = Reader(store, clock, reader.owner, Group("telemetry", "scheduler"))
        for one in (reader, other):
            await one.advance(await one.held(), quarantined=[set_aside()])

        assert len(await alerts(store)) == 2

    # Looking

    async def test_pages_follow_each_other_in_the_order_of_ids(
        self, store: Store, clock: ManualClock, reader: Reader
    ) -> None:
        other = Reader(store, clock, reader.owner, Group("telemetry", "scheduler"))
        await reader.advance(await reader.held(), quarantined=[set_aside(offset) for offset in range(3)])
        await other.advance(await other.held(), quarantined=[set_aside(9)])
        await reader.advance(await reader.held(), quarantined=[set_aside(3)])

        first = await store.groups.quarantine("telemetry", limit=3)
        second = await store.groups.quarantine("telemetry", after=first[-1].id, limit=3)
        archive = await store.groups.quarantine("telemetry", group="archive", after=first[0].id, limit=2)

        assert [one.event.offset for one in first + second] == [0, 1, 2, 9, 3]
        assert [one.event.offset for one in archive] == [1, 2]
        assert await store.groups.quarantine("orders", limit=3) == []

    async def test_sizes_are_counted_no_further_than_asked(
        self, store: Store, clock: ManualClock, reader: Reader
    ) -> None:
        await reader.advance(await reader.held(), quarantined=[set_aside(offset) for offset in range(3)])
        await Reader(store, clock, reader.owner, Group("telemetry", "scheduler")).hold(0)

        assert await store.groups.quarantine_sizes("telemetry", counted=2) == {"archive": 2, "scheduler": 0}
        assert await store.groups.quarantine_sizes("telemetry", counted=9) == {"archive": 3, "scheduler": 0}
        assert await store.groups.quarantine_sizes("orders", counted=9) == {}

    # Again

    async def test_what_a_person_resubmits_is_found_by_the_group_it_belongs_to(
        self, store: Store, clock: ManualClock, reader: Reader
    ) -> None:
        first, second = await reader.hold(0, 1)
        await reader.advance(first, quarantined=[set_aside(offset) for offset in range(3)])
        await reader.advance(second, quarantined=[set_aside(0, partition=1)])
        a, b, _, d = await reader.quarantine()

        resubmitted = await store.groups.resubmit(
            "telemetry", [d.id, b.id, a.id], limit=MANY, act=ANN, now=clock.now()
        )

        assert sorted(resubmitted) == [a.id, b.id, d.id]
        found = await store.groups.resubmitted(ARCHIVE, [0], limit=MANY)
        assert [one.id for one in found] == [a.id, b.id]
        assert all(one.resubmitted for one in found)
        assert [one.id for one in await store.groups.resubmitted(ARCHIVE, [0, 1, 2], limit=2)] == [a.id, b.id]
        assert [one.id for one in await store.groups.resubmitted(ARCHIVE, [1], limit=2)] == [d.id]
        assert await store.groups.resubmitted(Group("telemetry", "other"), [0], limit=MANY) == []

    async def test_all_of_a_stream_are_resubmitted_up_to_the_limit(
        self, store: Store, clock: ManualClock, reader: Reader
    ) -> None:
        other = Reader(store, clock, reader.owner, Group("orders", "archive"))
        for one in (reader, other):
            await one.advance(await one.held(), quarantined=[set_aside(offset) for offset in range(3)])
        ids = [one.id for one in await reader.quarantine()]

        rounds = [
            await store.groups.resubmit("telemetry", None, limit=2, act=ANN, now=clock.now()) for _ in "abc"
        ]

        assert rounds == [ids[:2], ids[2:], []]
        assert not any(one.resubmitted for one in await other.quarantine())

    @pytest.mark.parametrize("wrong", [999_999, 0, -1, 2**63, 2**80])
    async def test_an_event_that_is_not_there_is_named_and_nothing_is_resubmitted(
        self, store: Store, clock: ManualClock, reader: Reader, wrong: int
    ) -> None:
        await reader.advance(await reader.held(), quarantined=[set_aside()])
        [there] = await reader.quarantine()

        with pytest.raises(UnknownEvent, match=str(wrong)):
            await store.groups.resubmit("telemetry", [there.id, wrong], limit=MANY, act=ANN, now=clock.now())
        with pytest.raises(UnknownEvent):
            await store.groups.resubmit("orders", [there.id], limit=MANY, act=ANN, now=clock.now())

        assert await reader.quarantine() == [there]
        assert await store.records.audit(AuditFilter()) == []

    async def test_what_is_resubmitted_stands_in_the_audit_trail_and_was_heard(
        self, store: Store, clock: ManualClock, reader: Reader
    ) -> None:
        await reader.advance(await reader.held(), quarantined=[set_aside()])

        await store.groups.resubmit("telemetry", None, limit=MANY, act=ANN, now=clock.now())

        [entry] = await store.records.audit(AuditFilter(target="stream:telemetry"))
        assert (entry.who, entry.action, entry.after) == ("ann", "resubmit", {"resubmitted": 1})
        assert await alerts(store) == []

    async def test_what_was_processed_at_last_leaves_the_quarantine(
        self, store: Store, clock: ManualClock, reader: Reader
    ) -> None:
        held = await reader.held()
        await reader.advance(held, quarantined=[set_aside(0), set_aside(1)])
        first, second = await reader.quarantine()
        await store.groups.resubmit("telemetry", [first.id], limit=MANY, act=ANN, now=clock.now())

        answer = await reader.advance(held, starts=[a_start("a", 0)], settled=[first.id])

        assert answer == Advanced(started=1)
        assert await reader.quarantine() == [second]
        assert await store.groups.resubmitted(ARCHIVE, [0], limit=MANY) == []

    async def test_what_fails_again_is_set_aside_again_with_the_new_reason(
        self, store: Store, clock: ManualClock, reader: Reader
    ) -> None:
        held = await reader.held()
        await reader.advance(held, quarantined=[set_aside(0, reason="first")], quarantine_max=1)
        [before] = await reader.quarantine()
        await store.groups.resubmit("telemetry", None, limit=MANY, act=ANN, now=clock.now())
        again = Advance(holding=held, settled=[before.id], quarantined=[set_aside(0, reason="second")])

        for _ in range(2):
            assert await reader.advance_all([again], quarantine_max=1) == [Advanced()]

        [after] = await reader.quarantine()
        assert (after.reason, after.resubmitted) == ("second", False)
        assert after.id > before.id

    async def test_nobody_settles_what_is_in_another_partition_or_group(
        self, store: Store, clock: ManualClock, reader: Reader
    ) -> None:
        first, second = await reader.hold(0, 1)
        other = Reader(store, clock, reader.owner, Group("telemetry", "scheduler"))
        await reader.advance(first, quarantined=[set_aside()])
        [there] = await reader.quarantine()

        for one, held in ((reader, second), (other, await other.held())):
            assert await one.advance(held, settled=[there.id, 999_999]) == Advanced()

        assert await reader.quarantine() == [there]

    # Forgetting

    async def test_a_group_that_is_forgotten_begins_anew_and_others_stay(
        self, store: Store, clock: ManualClock, reader: Reader
    ) -> None:
        other = Reader(store, clock, reader.owner, Group("telemetry", "scheduler"))
        for one in (reader, other):
            held = await one.held()
            await one.advance(held, to=7, quarantined=[set_aside()])
            await one.release(held)
            await one.leave()
        act = Act(who="ann", action="forget", target="group:telemetry/archive")

        await store.groups.forget(ARCHIVE, act=act, now=clock.now())

        assert await reader.quarantine() == []
        assert len(await other.quarantine()) == 1
        assert [one.group for one in await store.groups.standings("telemetry")] == [other.group]
        await reader.join(1)
        assert (await reader.held()).checkpoint is None
        [entry] = await store.records.audit(AuditFilter(target="group:telemetry/archive"))
        assert (entry.action, entry.before) == ("forget", {"partitions": 1, "quarantined": 1})
        assert [one.target for one in await alerts(store)] == ["group:telemetry/scheduler"]

    async def test_a_group_that_somebody_reads_for_is_not_forgotten(
        self, store: Store, clock: ManualClock, reader: Reader
    ) -> None:
        await reader.hold(0)

        with pytest.raises(Conflict, match="alice"):
            await store.groups.forget(ARCHIVE, act=ANN, now=clock.now())

        await store.retire(reader.owner, now=clock.now())
        await store.groups.forget(ARCHIVE, act=ANN, now=clock.now())

    async def test_a_group_that_nobody_ever_read_for_cannot_be_forgotten(
        self, store: Store, clock: ManualClock
    ) -> None:
        with pytest.raises(UnknownGroup):
            await store.groups.forget(ARCHIVE, act=ANN, now=clock.now())

        assert await store.records.audit(AuditFilter()) == []
