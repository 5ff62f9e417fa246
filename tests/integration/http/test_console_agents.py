"""The pages of agents and dials, and what programs are told of the same."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from html import unescape

import pytest

from backstay import App, InvalidRequest, Knob, Unavailable
from backstay.domain.access import Role
from backstay.domain.breaker import BreakerState
from backstay.domain.latency import SIZES, Calls
from backstay.store.base import AgentReport, BreakerTurn, Report
from backstay.testing.promises.holder import Holder
from tests.integration.http.conftest import Serve
from tests.integration.http.test_console import HOSTILE
from tests.support.serving import Served
from tests.support.visiting import Browser, text_of

CALLS = Calls(sizes={20: 98, 30: 1, 41: 1}, failed=3)


@pytest.fixture
def browser(served: Served) -> Browser:
    return Browser(served)


async def beat(served: Served, holder: Holder, **agents: AgentReport) -> None:
    await served.store.beat(holder.owner, now=served.clock.now(), report=Report(agents=agents))


def stands(**changes: object) -> AgentReport:
    given = {"in_flight": 2, "waiting": 0, "concurrency": 4, "breaker": BreakerState.CLOSED}
    return AgentReport(**{**given, "open_until": None, **changes})  # type: ignore[arg-type]


@pytest.fixture
async def reported(served: Served, alice: Holder) -> None:
    """One agent that made calls lately, and whose breaker opened and closed; and one that made none."""
    now = served.clock.now()
    turns = [
        BreakerTurn(at=now - timedelta(seconds=90), state=BreakerState.OPEN, failures=5, error=HOSTILE),
        BreakerTurn(at=now - timedelta(seconds=60), state=BreakerState.HALF_OPEN),
        BreakerTurn(at=now - timedelta(seconds=59), state=BreakerState.OPEN, failures=1, error="still away"),
        BreakerTurn(at=now - timedelta(seconds=10), state=BreakerState.HALF_OPEN),
        BreakerTurn(at=now - timedelta(seconds=9), state=BreakerState.CLOSED),
    ]
    await beat(served, alice, bank=stands(calls=CALLS, breaker_turns=turns), stock=stands())


# How calls fare


@pytest.mark.usefixtures("reported")
async def test_programs_are_told_how_calls_fare_and_what_breakers_did(served: Served):
    bank, stock = (await served.get("/v1/agents")).json["items"]

    assert bank["calls"] == bank["instances"][0]["calls"]
    assert (bank["calls"]["number"], bank["calls"]["failed"]) == (100, 3)
    assert SIZES[19] < bank["calls"]["p50_seconds"] <= SIZES[20]
    assert SIZES[29] < bank["calls"]["p99_seconds"] <= SIZES[30]
    assert stock["calls"] == {"number": 0, "failed": 0, **dict.fromkeys(_percentiles(bank))}
    turns = bank["instances"][0]["breaker_turns"]
    assert [turn["state"] for turn in turns] == ["open", "half_open", "open", "half_open", "closed"]
    assert [turn["failures"] for turn in turns] == [5, 0, 1, 0, 0]


def _percentiles(agent: Mapping[str, Mapping[str, object]]) -> list[str]:
    return [name for name in agent["calls"] if name.endswith("_seconds")]


async def test_the_calls_of_several_processes_are_one_population(served: Served, alice: Holder):
    bob = await Holder.joined(served.store, served.clock, "bob")
    await beat(served, alice, bank=stands(calls=Calls(sizes={10: 60}, failed=6)))
    await beat(served, bob, bank=stands(calls=Calls(sizes={40: 40})))

    [bank] = (await served.get("/v1/agents")).json["items"]

    assert (bank["calls"]["number"], bank["calls"]["failed"]) == (100, 6)
    assert bank["calls"]["p50_seconds"] <= SIZES[10]
    assert bank["calls"]["p95_seconds"] > SIZES[39]


@pytest.mark.usefixtures("reported")
async def test_metrics_tell_how_calls_fare_and_nothing_of_agents_without_calls(served: Served):
    lines = (await served.get("/metrics")).body.decode().splitlines()

    told = {line.split()[0]: float(line.split()[1]) for line in lines if line.startswith("backstay_agent_")}
    p99 = told['backstay_agent_call_seconds{agent="bank",quantile="0.99"}']
    assert SIZES[29] < p99 <= SIZES[30]
    assert told['backstay_agent_failing_ratio{agent="bank"}'] == 0.03
    assert not [name for name in told if "stock" in name and "concurrency" not in name]


# The page of an agent


@pytest.mark.usefixtures("reported")
async def test_both_pages_show_percentiles_and_how_many_calls_failed(browser: Browser):
    for path in ("/agents", "/agents/bank"):
        page = text_of(await browser.get(path))
        assert "9.9ms" in page
        assert "3.0 %" in page


@pytest.mark.usefixtures("reported")
async def test_the_page_of_an_agent_tells_what_its_breaker_did_newest_first(browser: Browser):
    page = text_of(await browser.get("/agents/bank"))
    text = unescape(page)

    said = [
        "the probe succeeded",
        "its time was over",
        "the probe failed: still away",
        "its time was over",
        f"5 failures, the last: {HOSTILE}",
    ]
    places = [text.index(said[0])]
    for line in said[1:]:
        places.append(text.index(line, places[-1] + 1))
    assert page.count('<rect class="bar breaker-') == 5
    assert "<script>alert" not in page
    assert "It did not open" in text_of(await browser.get("/agents/stock"))


@pytest.mark.usefixtures("reported")
async def test_what_is_done_on_the_page_of_an_agent_leads_back_to_it(served: Served, browser: Browser):
    page = unescape(text_of(await browser.get("/agents/bank")))
    assert 'href="/agents/bank/do/pause?page=1"' in page

    done = await browser.send("/agents/bank/do/pause?page=1", reason="the bank called")
    elsewhere = await browser.send("/agents/bank/do/resume")

    assert (done.status, done.headers["Location"]) == (303, "/agents/bank")
    assert elsewhere.headers["Location"] == "/agents"
    assert "the bank called" in text_of(await browser.get("/agents/bank"))


async def test_an_agent_that_nobody_knows_has_no_page_and_one_that_is_held_back_has(
    served: Served, alice: Holder, browser: Browser
):
    await beat(served, alice, bank=stands())
    await served.client.pause_agent("bank", reason="a test")
    await beat(served, alice)

    assert (await browser.get("/agents/nobody")).status == 404
    page = text_of(await browser.get("/agents/bank"))
    assert "No live process has this agent" in page
    assert "paused" in page


# Dials


class Boiler:
    """Something with knobs; a test has it fall silent."""

    def __init__(self) -> None:
        self.values: dict[str, bool | float | None] = {"heats": True, "target": 60.0, HOSTILE: None}
        self.silent = False

    async def read(self) -> list[Knob]:
        if self.silent:
            raise Unavailable("the boiler does not answer")
        return [Knob(name=name, value=value, unit="°C", most=90) for name, value in self.values.items()]

    async def turn(self, values: Mapping[str, bool | float | None]) -> None:
        if values["heats"] and values["target"] is None:
            raise InvalidRequest("give a target, or switch it off")
        self.values = dict(values)


@pytest.fixture
def boiler(app: App) -> Boiler:
    boiler = Boiler()
    app.dial("boiler", boiler)
    return boiler


@pytest.fixture
async def house(boiler: Boiler, serve: Serve) -> AsyncIterator[Browser]:
    async with serve() as served:
        yield Browser(served)


async def test_without_dials_there_is_no_page_of_them(browser: Browser):
    assert (await browser.get("/dials")).status == 404
    assert (await browser.get("/dials/boiler/turn")).status == 404
    assert 'href="/dials"' not in text_of(await browser.get("/"))


async def test_dials_are_shown_as_they_stand_and_those_that_do_not_answer_as_such(
    boiler: Boiler, house: Browser
):
    page = text_of(await house.get("/dials"))
    boiler.silent = True
    silent = text_of(await house.get("/dials"))

    assert 'href="/dials"' in text_of(await house.get("/"))
    assert ">on</span>" in page
    assert "60 <span" in page
    assert "<script>alert" not in page
    assert HOSTILE in unescape(page)
    assert "does not answer" in silent
    assert (await house.get("/dials/boiler/turn")).status == 503


async def test_a_dial_is_turned_by_all_of_its_knobs(boiler: Boiler, house: Browser):
    off = await house.send("/dials/boiler/turn", target="")
    on = await house.send("/dials/boiler/turn", heats="on", target=" 72.5", more="1")

    assert (off.status, off.headers["Location"]) == (303, "/dials")
    assert on.status == 303
    assert boiler.values == {"heats": True, "target": 72.5, HOSTILE: None}


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("hot", "target is 'hot'; it must be a number from 0 to 90"),
        ("91", "from 0 to 90"),
        ("nan", "from 0 to 90"),
        ("-0.1", "from 0 to 90"),
        ("", "give a target, or switch it off"),
    ],
)
async def test_what_does_not_go_is_asked_for_again(boiler: Boiler, house: Browser, target: str, said: str):
    answer = await house.send("/dials/boiler/turn", heats="on", target=target)

    page = unescape(text_of(answer))
    assert answer.status == 422
    assert said in page
    assert f'value="{target}"' in page
    assert "checked" in page
    assert boiler.values["target"] == 60.0


async def test_who_may_only_look_turns_nothing(boiler: Boiler, house: Browser):
    await house.sign_in(await house.served.token("reader", Role.READ))

    page = await house.get("/dials")
    refused = await house.post("/dials/boiler/turn", proof=await house.proof("/"), target="")

    assert page.status == 200
    assert "Turn" not in text_of(page)
    assert refused.status == 403
    assert boiler.values["target"] == 60.0


async def test_a_dial_has_a_name_of_its_own(app: App, boiler: Boiler):
    with pytest.raises(InvalidRequest, match="dial 'boiler' is declared twice"):
        app.dial("boiler", boiler)
    with pytest.raises(InvalidRequest, match="name of the dial"):
        app.dial("a boiler", boiler)
