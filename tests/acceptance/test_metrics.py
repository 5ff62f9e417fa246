"""What /metrics says while there is work: strictly read, and every name that we ship or document is there."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import aiohttp
import pytest
import yaml

from tests.support.prometheus import Family, parse
from tests.support.promql import uses
from tests.support.serve_command import Served, serving

ROOT = Path(__file__).resolve().parents[2]
DASHBOARD = (ROOT / "deploy" / "grafana" / "backstay.json").read_text("utf-8")
RULES = (ROOT / "deploy" / "prometheus" / "alerts.rules.yml").read_text("utf-8")
PAGE = (ROOT / "docs" / "monitoring.md").read_text("utf-8")

APPLICATION = """
from backstay import App

app = App("shop")
bank = app.agent("bank", concurrency=10)
orders = app.stream("orders", partitions=2)
app.queue("mail")


@bank.step
async def charge(amount: int) -> int:
    return amount


@app.workflow
async def order(amount: int) -> int:
    if amount % 10 == 0:
        raise ValueError("no such amount")
    return await charge(amount)


def amount_of(event):
    return int(event.body["amount"])


orders.source(group="billing").map(amount_of).start(order, id=lambda amount: f"order-{amount}")
"""

SUFFIX = re.compile(r"_(bucket|sum|count)$")


@pytest.fixture
async def families(tmp_path: Path) -> dict[str, Family]:
    """What a server says of itself, asked again and again while it works."""
    (tmp_path / "metrics_shop.py").write_text(APPLICATION)
    with serving(tmp_path, "metrics_shop:app", "--store", "sqlite:///metrics.db") as served:
        work = asyncio.gather(*(_submit(served, number) for number in range(40)))
        while not work.done():
            parse(await _page(served))
        await work
        for body in ({"amount": 1001}, {"amount": "none"}):
            assert (await served.ask("POST", "/v1/streams/orders/events?key=a", json=body))[0] == 202
        assert (await served.ask("POST", "/v1/queues/mail/messages", json={"body": 1}))[0] == 201
        async with asyncio.timeout(40):
            while True:
                found = parse(await _page(served))
                if _is_complete(found):
                    return found
                await asyncio.sleep(0.5)


async def _submit(served: Served, number: int) -> None:
    told = {"workflow": "order", "input": number, "id": f"o{number}"}
    status, _ = await served.ask("POST", "/v1/tasks", json=told)
    assert status == 202


async def _page(served: Served) -> str:
    async with aiohttp.ClientSession() as session, session.get(f"{served.url}/metrics") as answer:
        assert (answer.status, answer.content_type) == (200, "text/plain")
        return await answer.text()


def _is_complete(found: dict[str, Family]) -> bool:
    states = found["backstay_tasks"].samples
    quarantined = found.get("backstay_stream_quarantined", Family()).samples
    ready = found["backstay_queue_ready"].samples
    processed = states["backstay_tasks", (("state", "processed"),)]
    return processed == 37 and sum(quarantined.values()) == 1 and sum(ready.values()) == 1


async def test_the_page_is_right_under_load_and_has_every_name_that_is_shipped_or_documented(
    families: dict[str, Family],
):
    rows = re.findall(r"^\| `(backstay_\w+?)(?:\{.*?\})?` \| (\w+) \|", PAGE, re.MULTILINE)
    documented = dict(rows)
    assert documented == {name: family.kind for name, family in families.items()}

    for expression in [*expressions_of_rules(), *expressions_of_panels()]:
        for use in uses(expression):
            assert use.labels <= labels_of(families, use.metric), f"{use} in {expression}"

    errors = families["backstay_tasks"].samples["backstay_tasks", (("state", "error"),)]
    alerts = families["backstay_alerts_open"].samples["backstay_alerts_open", (("kind", "task_error"),)]
    assert (errors, alerts) == (4, 4)
    assert families["backstay_commit_seconds"].samples["backstay_commit_seconds_count", ()] > 0
    assert families["backstay_claim_seconds"].samples["backstay_claim_seconds_count", ()] >= 41


def labels_of(families: dict[str, Family], series: str) -> set[str]:
    """Those that a series has that is there; one that has none is there all the same."""
    family = families[SUFFIX.sub("", series)]
    found = [labels for name, labels in family.samples if name == series]
    assert found or not family.samples, f"{series} is no series of its metric"
    # What nothing has happened to yet has no series: then the page says which labels it will have.
    [documented] = re.findall(rf"^\| `{SUFFIX.sub('', series)}(?:\{{(.*?)\}})?` ", PAGE, re.MULTILINE)
    return {name for labels in found for name, _ in labels} | {*documented.replace(" ", "").split(",")} - {""}


def expressions_of_rules() -> list[str]:
    [group] = yaml.safe_load(RULES)["groups"]
    return [rule["expr"] for rule in group["rules"]]


def expressions_of_panels() -> list[str]:
    return [target["expr"] for panel in json.loads(DASHBOARD)["panels"] for target in panel["targets"]]


def test_the_rules_and_the_dashboard_can_be_read():
    [group] = yaml.safe_load(RULES)["groups"]
    for rule in group["rules"]:
        assert rule.keys() - {"for"} == {"alert", "expr", "labels", "annotations"}
        assert re.fullmatch(r"\d+[smh]", rule.get("for", "0s"))
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert uses(rule["expr"])
    assert len({rule["alert"] for rule in group["rules"]}) == len(group["rules"])
    panels = json.loads(DASHBOARD)["panels"]
    assert [panel["title"] for panel in panels if not panel["targets"]] == []
    assert all(uses(expression) for expression in expressions_of_panels())


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "max(backstay_backlog",
        "max(backstay_backlog))",
        "maximum(backstay_backlog)",
        "max by kind (backstay_tasks)",
        "max(backstay_tasks{state=error}) > 0",
        "rate(backstay_recoveries_total)",
        "absent(backstay_backlog[5m])",
        "backstay_backlog >",
    ],
)
def test_an_expression_that_prometheus_would_refuse_is_no_expression(expression: str):
    with pytest.raises(AssertionError):
        uses(expression)


@pytest.mark.parametrize(
    "page",
    [
        "backstay_x 1\n",
        "# HELP x a\n# TYPE x counter\nx 1\n",
        '# HELP x a\n# TYPE x gauge\nx{a="b} 1\n',
        '# HELP x a\n# TYPE x gauge\nx{a="1"} 1\nx{a="1"} 2\n',
        "# HELP x a\n# TYPE x gauge\n# HELP x a\n# TYPE x gauge\n",
        '# HELP x a\n# TYPE x histogram\nx_bucket{le="1"} 2\nx_bucket{le="+Inf"} 1\nx_sum 1\nx_count 1\n',
    ],
)
def test_the_reader_refuses_what_prometheus_would(page: str):
    with pytest.raises((AssertionError, KeyError)):
        parse(page)
