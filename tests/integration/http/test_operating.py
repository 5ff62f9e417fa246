"""Stepping in over HTTP: tasks, agents, workflows, the supervisor."""

from __future__ import annotations

from typing import Any

import pytest

from backstay.domain.breaker import BreakerState
from backstay.domain.states import StepState, TaskState
from backstay.domain.step import Failure
from backstay.store.base import AgentReport, Report
from backstay.testing.promises.holder import Holder
from backstay.testing.records import a_step
from tests.integration.http.conftest import held
from tests.support.serving import Served

FAILED = Failure("Permanent", "sold out", step="charge:1", permanent=True)


async def stopped(served: Served, alice: Holder) -> None:
    """A task that stopped at a step that failed."""
    task = await held(served, alice)
    step = a_step(StepState.FAILED, position=1, error=FAILED)
    await alice.leave(task, TaskState.ERROR, steps=[step], error=FAILED)


async def trail(served: Served, target: str) -> list[tuple[str, str, str | None]]:
    items = (await served.get(f"/v1/audit?target={target}")).json["items"]
    return [(entry["who"], entry["action"], entry["reason"]) for entry in items]


# Tasks


async def test_a_task_is_cancelled_and_the_trail_says_why(served: Served):
    await served.put("/v1/tasks/t", {"workflow": "anything"})

    answer = await served.post("/v1/tasks/t/cancel", {"undo": False, "reason": "by mistake"})

    assert (answer.status, answer.json["state"]) == (200, "cancelled")
    assert await trail(served, "task:t") == [("loopback", "cancel", "by mistake")]


async def test_a_stopped_task_goes_on(served: Served, alice: Holder):
    await stopped(served, alice)

    answer = await served.post("/v1/tasks/t/resubmit", {"from": "failed", "reason": "in stock again"})

    assert (answer.status, answer.json["state"]) == (200, "pending")
    assert await trail(served, "task:t") == [("loopback", "resubmit from failed", "in stock again")]


async def test_a_stopped_task_begins_anew(served: Served, alice: Holder):
    await stopped(served, alice)

    answer = await served.post("/v1/tasks/t/resubmit", {"from": "start"})

    assert (answer.status, answer.json["state"]) == (200, "pending")
    assert (await served.get("/v1/tasks/t/steps")).json["items"] == []


async def test_a_stopped_task_is_undone(served: Served, alice: Holder):
    await stopped(served, alice)

    answer = await served.post("/v1/tasks/t/undo", {"reason": "never mind"})

    assert (answer.status, answer.json["state"]) == (200, "undoing")


async def test_a_step_is_completed_by_hand(served: Served, alice: Holder):
    await stopped(served, alice)

    answer = await served.post("/v1/tasks/t/steps/charge:1/complete", {"output": 7, "reason": "by phone"})

    assert (answer.status, answer.json["state"]) == (200, "pending")
    [step] = (await served.get("/v1/tasks/t/steps")).json["items"]
    assert (step["state"], step["output"]) == ("completed", 7)


@pytest.mark.parametrize("move", ["cancel", "undo", "resubmit"])
@pytest.mark.parametrize("said", [{}, {"data": b""}, {"body": {}}])
async def test_a_body_in_which_all_may_be_left_out_may_be_left_out(
    served: Served, alice: Holder, move: str, said: dict[str, Any]
):
    await stopped(served, alice)

    assert (await served.post(f"/v1/tasks/t/{move}", **said)).status == 200


@pytest.mark.parametrize(
    ("move", "body"),
    [
        ("cancel", {}),
        ("undo", {}),
        ("resubmit", {"from": "start"}),
        ("resubmit", {}),
        ("signal/word", {}),
        ("steps/charge:1/complete", {"output": 1}),
    ],
)
async def test_a_move_that_the_state_forbids_names_the_state(
    served: Served, alice: Holder, move: str, body: Any
):
    await stopped(served, alice)
    await served.post("/v1/tasks/t/cancel", {"undo": False})

    answer = await served.post(f"/v1/tasks/t/{move}", body)

    assert (answer.status, answer.problem, answer.json["state"]) == (409, "illegal-move", "cancelled")
    assert "cancelled" in answer.detail


@pytest.mark.parametrize(
    ("move", "body"),
    [
        ("cancel", {}),
        ("undo", {}),
        ("resubmit", {}),
        ("signal/word", {}),
        ("steps/charge:1/complete", {"output": 1}),
    ],
)
async def test_nothing_happens_to_a_task_that_does_not_exist(served: Served, move: str, body: Any):
    answer = await served.post(f"/v1/tasks/none/{move}", body)

    assert (answer.status, answer.problem) == (404, "unknown-task")
    assert (await served.get("/v1/audit")).json["items"] == []


async def test_a_step_that_does_not_exist_cannot_be_completed(served: Served, alice: Holder):
    await stopped(served, alice)

    answer = await served.post("/v1/tasks/t/steps/no%2Fstep%00/complete", {"output": 1})
    unknown = await served.post("/v1/tasks/t/steps/charge:2/complete", {"output": 1})

    assert answer.status == 422
    assert (unknown.status, unknown.problem) == (404, "unknown-step")


@pytest.mark.parametrize(
    ("move", "body", "said"),
    [
        ("cancel", {"undo": "yes"}, "$.undo"),
        ("cancel", {"undone": True}, "undone"),
        ("cancel", {"reason": "x" * 1_001}, "reason"),
        ("undo", {"reason": 7}, "$.reason"),
        ("resubmit", {"from": "middle"}, "$.from"),
        ("steps/charge:1/complete", {}, "output"),
        ("signal/no%20name", None, "$.name"),
        ("signal/a:b", None, "colon"),
        ("signal/word?key=a%20b", None, "signal key"),
        ("signal/word?clef=a", None, "clef"),
    ],
)
async def test_a_move_that_does_not_fit_is_refused(
    served: Served, alice: Holder, move: str, body: Any, said: str
):
    await stopped(served, alice)

    answer = await served.post(f"/v1/tasks/t/{move}", body)

    assert answer.status == 422, answer
    assert said in answer.detail
    assert (await served.get("/v1/audit")).json["items"] == []


# Signals


@pytest.mark.parametrize("payload", [None, True, 7, "text", [1, {"a": None}], {}])
async def test_any_json_is_a_payload(served: Served, alice: Holder, payload: Any):
    task = await held(served, alice)

    answer = await served.post("/v1/tasks/t/signal/word", payload)

    assert (answer.status, answer.json["id"]) == (200, "t")
    [standing] = await served.store.standing([task.key])
    assert [signal.name for signal in standing.signals] == ["word"]


async def test_a_signal_with_a_key_counts_once(served: Served, alice: Holder):
    task = await held(served, alice)

    for _ in range(2):
        await served.post("/v1/tasks/t/signal/word", 1, Backstay_Signal_Key="k1")
        await served.post("/v1/tasks/t/signal/word?key=k2", 2)
        await served.post("/v1/tasks/t/signal/word", 3)

    [standing] = await served.store.standing([task.key])
    assert [signal.payload for signal in standing.signals] == [b"1", b"2", b"3", b"3"]


@pytest.mark.parametrize("key", ["a b", "a/b", "{}", "x" * 201])
async def test_a_signal_key_is_as_an_id(served: Served, alice: Holder, key: str):
    await held(served, alice)

    answer = await served.post("/v1/tasks/t/signal/word", Backstay_Signal_Key=key)

    assert (answer.status, answer.problem) == (422, "invalid-input")
    assert "header Backstay-Signal-Key" in answer.detail


async def test_a_signal_may_say_nothing(served: Served, alice: Holder):
    task = await held(served, alice)

    assert (await served.post("/v1/tasks/t/signal/word")).status == 200

    [standing] = await served.store.standing([task.key])
    assert [signal.payload for signal in standing.signals] == [b"null"]


# Agents and workflows


@pytest.fixture
async def reported(served: Served, alice: Holder) -> None:
    """A process that has an agent, and tells how it stands."""
    stands = AgentReport(in_flight=2, waiting=1, concurrency=4, breaker=BreakerState.CLOSED, open_until=None)
    report = Report(in_flight=1, agents={"bank": stands})
    await served.store.beat(alice.owner, now=served.clock.now(), report=report)


@pytest.mark.usefixtures("reported")
async def test_agents_are_listed_with_the_processes_that_have_them(served: Served):
    answer = await served.get("/v1/agents")

    [agent] = answer.json["items"]
    assert answer.json["next"] is None
    assert (agent["name"], agent["paused"], agent["forced_breaker"]) == ("bank", False, None)
    [instance] = agent["instances"]
    assert (instance["id"], instance["in_flight"], instance["breaker"]) == ("alice", 2, "closed")
    assert (instance["concurrency"], instance["concurrency_max"]) == (4, 4)


@pytest.mark.usefixtures("reported")
@pytest.mark.parametrize("agent", ["bank", "stock"])
async def test_an_agent_is_paused_and_let_go_on(served: Served, agent: str):
    paused = await served.post(f"/v1/agents/{agent}/pause", {"reason": "it is drowning"})
    resumed = await served.post(f"/v1/agents/{agent}/resume")

    assert (paused.status, paused.json["name"], paused.json["paused"]) == (200, agent, True)
    assert (paused.json["held_by"], paused.json["reason"]) == ("loopback", "it is drowning")
    assert (resumed.status, resumed.json["name"], resumed.json["paused"]) == (200, agent, False)
    assert [action for _, action, _ in await trail(served, f"agent:{agent}")] == ["resume", "pause"]


@pytest.mark.parametrize("position", ["open", "closed", "auto"])
async def test_a_breaker_is_held_in_place(served: Served, position: str):
    answer = await served.post("/v1/agents/stock/breaker", {"position": position})

    assert (answer.status, answer.json["name"]) == (200, "stock")
    assert answer.json["forced_breaker"] == (None if position == "auto" else position)


async def test_a_workflow_is_paused_and_let_go_on(served: Served, alice: Holder):
    paused = await served.post("/v1/workflows/order/pause", {"reason": "stocktaking"})
    listed = await served.get("/v1/workflows")
    resumed = await served.post("/v1/workflows/order/resume")
    elsewhere = await served.post("/v1/workflows/anything/resume")

    assert (paused.status, paused.json["paused"], paused.json["versions"]) == (200, True, [1])
    assert listed.json == {"items": [paused.json], "next": None}
    assert (resumed.status, resumed.json["paused"]) == (200, False)
    assert (elsewhere.status, elsewhere.json["instances"]) == (200, [])


@pytest.mark.parametrize(
    ("path", "body", "status", "problem"),
    [
        ("/v1/agents/none/pause", {}, 404, "unknown-agent"),
        ("/v1/agents/none/resume", {}, 404, "unknown-agent"),
        ("/v1/agents/none/breaker", {"position": "open"}, 404, "unknown-agent"),
        ("/v1/workflows/none/pause", {}, 404, "unknown-workflow"),
        ("/v1/workflows/none/resume", {}, 404, "unknown-workflow"),
        ("/v1/agents/a%20b/pause", {}, 422, "invalid-input"),
        ("/v1/agents/stock/breaker", {"position": "ajar"}, 422, "invalid-input"),
        ("/v1/agents/stock/breaker", {}, 422, "invalid-input"),
        ("/v1/agents/stock/pause", {"why": "x"}, 422, "invalid-input"),
        ("/v1/supervisor/run", {"now": True}, 422, "invalid-input"),
    ],
)
async def test_what_does_not_exist_cannot_be_held_back(
    served: Served, path: str, body: Any, status: int, problem: str
):
    answer = await served.post(path, body)

    assert (answer.status, answer.problem) == (status, problem)
    assert (await served.get("/v1/audit")).json["items"] == []


async def test_a_breaker_needs_a_position(served: Served):
    assert (await served.post("/v1/agents/stock/breaker")).status == 400


# The supervisor


async def test_the_supervisor_is_shown_and_run(served: Served):
    shown = await served.get("/v1/supervisor")
    ran = await served.post("/v1/supervisor/run")
    served.leads = False
    did_not = await served.post("/v1/supervisor/run", {})

    assert set(shown.json) == {"leader", "epoch", "lease_until", "last_round"}
    assert (ran.status, ran.json) == (200, {"ran": True, **shown.json})
    assert (did_not.status, did_not.json["ran"]) == (200, False)
    assert served.rounds == 2
