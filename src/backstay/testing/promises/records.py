"""What is kept for operators: the audit trail, tokens, idempotency keys."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from typing import Final

import pytest

from backstay.domain import operate
from backstay.domain.access import TOKENS_MAX, Role, Token
from backstay.domain.audit import Act, facts
from backstay.domain.states import TaskState
from backstay.domain.task import TaskRecord
from backstay.errors import Conflict, IllegalMove, InvalidRequest, UnknownToken
from backstay.store.base import Store
from backstay.store.records import AuditFilter, Remembered
from backstay.testing.clock import ManualClock
from backstay.testing.promises.holder import (
    CANCEL,
    SECOND,
    Holder,
    Promises,
    batches,
    submitted,
)
from backstay.testing.records import replace

HOUR: Final = timedelta(hours=1)
ACT: Final = Act(who="ann", action="cancel", target="task:t", reason="the customer called")


def a_token(clock: ManualClock, name: str = "ci", role: Role = Role.SUBMIT) -> Token:
    return Token(name=name, role=role, digest=f"digest of {name}", created_at=clock.now())


def about(target: str, *, who: str = "ann", action: str = "do") -> Act:
    return Act(who=who, action=action, target=target)


class RecordPromises(Promises):
    # The audit trail

    async def test_a_move_by_hand_is_in_the_trail_with_what_it_changed(
        self, store: Store, clock: ManualClock
    ) -> None:
        [before] = await submitted(store, clock, "t")
        clock.pass_time(SECOND)

        after = await store.amend("t", CANCEL, now=clock.now(), act=ACT)

        [entry] = await store.records.audit(AuditFilter())
        assert (entry.who, entry.action, entry.target, entry.reason) == (
            "ann",
            "cancel",
            "task:t",
            "the customer called",
        )
        assert (entry.at, entry.before, entry.after) == (clock.now(), facts(before), facts(after))

    async def test_a_signal_is_in_the_trail(self, store: Store, clock: ManualClock, alice: Holder) -> None:
        task = await alice.hold("t")

        await store.signal("t", "go", b'"a secret"', dedup=None, now=clock.now(), act=about("task:t"))

        [entry] = await store.records.audit(AuditFilter())
        assert (entry.before, entry.after) == (facts(task), facts(task))
        assert "secret" not in str(entry)

    async def test_what_nobody_answers_for_is_not_in_the_trail(
        self, store: Store, clock: ManualClock
    ) -> None:
        await submitted(store, clock, "t")
        await store.signal("t", "go", b"1", dedup=None, now=clock.now())
        await store.amend("t", CANCEL, now=clock.now())

        assert await store.records.audit(AuditFilter()) == []

    async def test_what_is_refused_leaves_no_line(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        await alice.leave(await alice.hold("t"), TaskState.PROCESSED)

        with pytest.raises(IllegalMove):
            await store.amend("t", CANCEL, now=clock.now(), act=ACT)
        with pytest.raises(Conflict):
            await store.signal("t", "go", b"1", dedup=None, now=clock.now(), act=ACT)
        with pytest.raises(Conflict):  # The database itself refuses this one, once the row is written.
            await store.amend("t", _contradicting, now=clock.now(), act=ACT)

        assert await store.records.audit(AuditFilter()) == []

    async def test_the_trail_is_listed_newest_first_page_by_page_and_by_what_it_is_about(
        self, store: Store, clock: ManualClock
    ) -> None:
        for name in "abc":
            await submitted(store, clock, name)
            for action in ("first", "second"):
                act = Act(who="ann", action=f"{action} {name}", target=f"task:{name}")
                await store.signal(name, "go", b"1", dedup=None, now=clock.now(), act=act)

        first = await store.records.audit(AuditFilter(limit=4))
        second = await store.records.audit(AuditFilter(limit=4, before=first[-1].id))
        of_b = await store.records.audit(AuditFilter(target="task:b"))

        assert [one.action for one in first] == ["second c", "first c", "second b", "first b"]
        assert [one.action for one in second] == ["second a", "first a"]
        assert [one.action for one in of_b] == ["second b", "first b"]
        assert await store.records.audit(AuditFilter(target="task:b", before=of_b[-1].id)) == []

    # Tokens

    async def test_tokens_are_listed_by_name(self, store: Store, clock: ManualClock) -> None:
        tokens = [a_token(clock, name, role) for name, role in zip("bDac", Role, strict=True)]

        for token in tokens:
            await store.records.add_token(token, about(f"token:{token.name}"), now=clock.now())

        assert await store.records.tokens() == sorted(tokens, key=lambda token: token.name)

    async def test_a_name_belongs_to_one_token_even_after_that_was_revoked(
        self, store: Store, clock: ManualClock
    ) -> None:
        token = a_token(clock)
        await store.records.add_token(token, about("token:ci"), now=clock.now())
        revoked = await store.records.revoke_token("ci", about("token:ci"), now=clock.now())

        with pytest.raises(Conflict, match="'ci'"):
            await store.records.add_token(replace(token, digest="other"), about("token:ci"), now=clock.now())

        assert await store.records.tokens() == [revoked]
        assert len(await store.records.audit(AuditFilter())) == 2

    async def test_there_is_a_limit_to_tokens_which_nobody_gets_around(
        self, store: Store, clock: ManualClock
    ) -> None:
        tokens = [a_token(clock, f"t{number:04}") for number in range(TOKENS_MAX + 1)]

        answers: list[BaseException | None] = []
        for few in batches(tokens):
            adding = [store.records.add_token(one, about("token"), now=clock.now()) for one in few]
            answers += await asyncio.gather(*adding, return_exceptions=True)

        assert [type(answer) for answer in answers if answer is not None] == [InvalidRequest]
        assert len(await store.records.tokens()) == TOKENS_MAX

    async def test_a_token_is_revoked_once_and_stays_so(self, store: Store, clock: ManualClock) -> None:
        token = a_token(clock)
        await store.records.add_token(token, about("token:ci", action="create"), now=clock.now())
        clock.pass_time(SECOND)

        revoked = await store.records.revoke_token("ci", about("token:ci", action="revoke"), now=clock.now())
        clock.pass_time(SECOND)
        again = await store.records.revoke_token("ci", about("token:ci"), now=clock.now())

        assert revoked == again == replace(token, revoked_at=clock.now() - SECOND)
        trail = await store.records.audit(AuditFilter(target="token:ci"))
        assert [(one.action, one.before, one.after) for one in trail] == [
            ("revoke", {"role": "submit", "revoked": False}, {"role": "submit", "revoked": True}),
            ("create", None, {"role": "submit", "revoked": False}),
        ]

    async def test_a_token_that_is_not_there_cannot_be_revoked(
        self, store: Store, clock: ManualClock
    ) -> None:
        with pytest.raises(UnknownToken, match="'ci'"):
            await store.records.revoke_token("ci", about("token:ci"), now=clock.now())

        assert await store.records.audit(AuditFilter()) == []

    # Idempotency keys

    async def test_a_key_stands_for_what_it_was_first_used_for(
        self, store: Store, clock: ManualClock
    ) -> None:
        remember = partial(store.records.remember, keep=HOUR)
        first, second = Remembered(digest="d1", task_id="t1"), Remembered(digest="d2", task_id="t2")

        assert await remember("k", first, now=clock.now()) == first
        clock.pass_time(HOUR)

        assert await remember("k", second, now=clock.now()) == first
        assert await remember("another", second, now=clock.now()) == second

    async def test_a_key_that_has_expired_may_be_used_anew(self, store: Store, clock: ManualClock) -> None:
        remember = partial(store.records.remember, keep=HOUR)
        first, second = Remembered(digest="d1", task_id="t1"), Remembered(digest="d2", task_id="t2")
        await remember("k", first, now=clock.now())
        clock.pass_time(HOUR + SECOND)

        assert await remember("k", second, now=clock.now()) == second

        clock.pass_time(HOUR)
        assert await remember("k", first, now=clock.now()) == second, "its time began anew as well"

    async def test_of_many_expired_keys_each_may_be_used_anew(self, store: Store, clock: ManualClock) -> None:
        remember = partial(store.records.remember, keep=HOUR)
        keys = [f"k{number}" for number in range(50)]
        for key in keys:
            await remember(key, Remembered(digest="old", task_id=key), now=clock.now())
        clock.pass_time(HOUR + SECOND)
        new = Remembered(digest="new", task_id="t")

        assert [await remember(key, new, now=clock.now()) for key in reversed(keys)] == [new] * 50

    async def test_a_key_that_is_forgotten_may_be_used_anew_unless_it_stands_for_something_else(
        self, store: Store, clock: ManualClock
    ) -> None:
        remember = partial(store.records.remember, keep=HOUR)
        first, second = Remembered(digest="d1", task_id="t1"), Remembered(digest="d2", task_id="t2")
        await remember("k", first, now=clock.now())
        await remember("another", first, now=clock.now())

        for other in (second, replace(first, digest="d2"), replace(first, task_id="t2")):
            await store.records.forget("k", other)
            assert await remember("k", second, now=clock.now()) == first

        await store.records.forget("k", first)
        await store.records.forget("never used", first)

        assert await remember("k", second, now=clock.now()) == second
        assert await remember("another", second, now=clock.now()) == first

    async def test_those_who_use_a_key_at_once_are_all_told_the_same(
        self, store: Store, clock: ManualClock
    ) -> None:
        meant = [Remembered(digest=f"d{number}", task_id=f"t{number}") for number in range(10)]

        answers = await asyncio.gather(
            *(store.records.remember("k", one, keep=HOUR, now=clock.now()) for one in meant)
        )

        assert len(set(answers)) == 1


def _contradicting(task: TaskRecord, _steps: object) -> operate.Amendment:
    """A processed task does not become cancelled."""
    return operate.Amendment(replace(task, state=TaskState.CANCELLED))
