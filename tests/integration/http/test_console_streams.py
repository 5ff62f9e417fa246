"""The pages of streams and queues, as a browser without scripts would ask for them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from html import unescape
from typing import Any

import pytest

from backstay.domain.access import Role
from backstay.domain.lease import Owner
from backstay.domain.stream import Group, NewQuarantined
from backstay.store.groups import Advance
from backstay.testing.promises.holder import Holder
from backstay.testing.promises.readers import Reader
from tests.support.http_queues import received, sent, settled
from tests.support.http_streams import sent_lines
from tests.support.serving import Served
from tests.support.visiting import Browser, text_of

HOSTILE = "</pre><script>alert(1)</script><img src=x onerror=alert(2)>\"'{{ 7 * 7 }}"

EVENT = "/streams/orders/quarantine/1"
LETTER = "/queues/orders/dead/1"
QUESTIONS = (
    f"{EVENT}/resubmit",
    "/streams/orders/do/resubmit",
    f"{LETTER}/do/resubmit",
    f"{LETTER}/do/discard",
    "/queues/orders/do/resubmit",
    "/queues/orders/do/discard",
)


@pytest.fixture
async def owner(served: Served) -> Owner:
    return (await Holder.joined(served.store, served.clock, "reader", runs=())).owner


@pytest.fixture
async def read(served: Served, owner: Owner) -> Served:
    """Sixty events in one of two partitions, of which a group has passed forty and set thirty aside."""
    await served.put("/v1/streams/orders", {"partitions": 2})
    line = {"body": {"note": HOSTILE}, "key": HOSTILE, "headers": {HOSTILE: HOSTILE}}
    told = (await sent_lines(served, *[{**line, "id": f"e{n}"} for n in range(60)])).json
    [partition] = {one["partition"] for one in told["ranges"]}
    group = Reader(served.store, served.clock, owner, Group("orders", "billing"))
    holding = await group.held(partition)
    events = (await served.client.streams.read("orders", partition, limit=30)).events
    bad = [NewQuarantined(event=event, reason=f"map: ValueError: {HOSTILE}") for event in events]
    await served.store.groups.advance(
        [Advance(holding=holding, to=40, quarantined=bad)],
        owner=owner,
        quarantine_max=100,
        now=served.clock.now(),
    )
    return served


@pytest.fixture
async def dead(orders: Served) -> Served:
    """A queue with thirty dead letters."""
    for number in range(30):
        await sent(orders, {"note": HOSTILE}, id=f"m{number}", properties={HOSTILE: HOSTILE})
    for message in await received(orders, "?max=100"):
        await settled(orders, message, "dead-letter", reason=HOSTILE)
    return orders


def rows(page: str) -> list[str]:
    """The rows of all tables, as text on one line each."""
    found = re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL)
    return [" ".join(unescape(re.sub(r"<[^>]+>", " ", row)).split()) for row in found]


def link(page: str, name: str) -> str:
    found = re.search(rf'href="([^"]+)"[^>]*>{name}</a>', page)
    assert found is not None, f"no link {name}"
    return unescape(found[1]).partition("#")[0]


# Streams


async def test_streams_show_how_far_their_groups_have_got(read: Served, browser: Browser):
    await read.put("/v1/streams/unread", {"partitions": 1})
    read.clock.pass_time(timedelta(seconds=90))

    of_all = text_of(await browser.get("/streams"))
    of_one = text_of(await browser.get("/streams/orders"))

    [orders] = [row for row in rows(of_all) if row.startswith("orders")]
    assert orders.startswith("orders 2 60")
    assert "billing ▶" not in orders, "signs are of the style"
    assert "reading 20 20 in" in orders
    assert "1m \N{EN DASH} 1m ago 30" in orders, "waits; nobody knows how fast; moved; set aside"
    assert any(row.startswith("unread 1 0") and "no group reads it" in row for row in rows(of_all))
    [partition] = [row for row in rows(of_one) if "reader" in row]
    assert "billing reader 40 20" in partition
    assert 'aria-label="20 events behind"' in of_one


async def test_who_has_gone_reads_no_more(read: Served, browser: Browser, owner: Owner):
    await read.store.retire(owner, now=read.clock.now())

    page = text_of(await browser.get("/streams/orders"))

    assert any(row.startswith("billing nobody reads 20") for row in rows(page))
    assert any("billing nobody 40 20" in row for row in rows(page))


async def test_many_partitions_are_shown_a_part_at_a_time(served: Served, browser: Browser):
    await served.put("/v1/streams/wide", {"partitions": 130})

    first = text_of(await browser.get("/streams/wide"))
    last = text_of(await browser.get(link(first, "128\N{EN DASH}129")))
    again = text_of(await browser.get(link(last, "0\N{EN DASH}63")))

    assert sum("no group reads it" in row for row in rows(first)) == 64
    assert [row.split()[0] for row in rows(last) if "no group reads it" in row] == ["128", "129"]
    assert "from=128&amp;seen=" in last, "what is live is the same part"
    assert rows(again) == rows(first)


async def test_a_page_of_streams_ends_somewhere_and_leads_on(
    served: Served, browser: Browser, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("backstay.web.standings.STREAMS_MAX", 2)
    monkeypatch.setattr("backstay.console.streams.STREAMS_MAX", 2)
    for name in ("a", "b", "c"):
        await served.put(f"/v1/streams/{name}", {"partitions": 1})

    first = text_of(await browser.get("/streams"))
    second = text_of(await browser.get(link(first, "More")))

    assert [row.split()[0] for row in rows(first)[1:]] == ["a", "b"]
    assert [row.split()[0] for row in rows(second)[1:]] == ["c"]


async def test_events_that_were_set_aside_are_paged_and_kept_to_a_group(read: Served, browser: Browser):
    first = text_of(await browser.get("/streams/orders?group=billing"))
    second = text_of(await browser.get(link(first, "Newer")))
    other = text_of(await browser.get("/streams/orders?group=other"))

    pattern = r'id="event-(\d+)"'
    assert re.findall(pattern, first) == [str(number) for number in range(1, 26)]
    assert re.findall(pattern, second) == [str(number) for number in range(26, 31)]
    assert "group=billing" in link(second, "Oldest")
    assert re.findall(pattern, other) == []
    assert "other never read it" in other


async def test_an_event_is_shown_with_all_that_is_known_of_it(read: Served, browser: Browser):
    whole = text_of(await browser.get(EVENT))
    part = text_of(await browser.get(EVENT, HX_Request="true"))

    for page in (whole, part):
        assert "<script>alert" not in page
        assert "<img src=x" not in page
        told = unescape(page)
        assert "ValueError" in told
        assert "e0" in told
        assert told.count("alert(1)") >= 4, "key, reason, headers and body"
    assert part.startswith("<h2")


@pytest.mark.usefixtures("dead")
async def test_what_was_set_aside_is_put_back_under_the_name_of_the_token(read: Served, browser: Browser):
    await browser.sign_in(await read.token("ann", Role.OPERATE))

    one = await browser.send(f"{EVENT}/resubmit", reason="mended")
    every = await browser.send("/streams/orders/do/resubmit", reason="all of it")

    assert (one.status, one.headers["Location"]) == (303, "/streams/orders#quarantine")
    assert every.status == 303
    found = (await read.client.streamroom.quarantine("orders")).items
    assert all(event.resubmitted for event in found)
    page = text_of(await browser.get("/streams/orders"))
    assert page.count("to be processed again") == 25
    assert ">Resubmit<" not in page, "nothing is left to be put back"
    trail = text_of(await browser.get("/audit?target=stream:orders"))
    assert "token:ann" in trail
    assert "mended" in trail
    assert 'href="/streams/orders"' in trail


# Queues


async def test_queues_and_topics_show_what_is_in_them(orders: Served, browser: Browser):
    await sent(orders, 1)
    await sent(orders, 2, at="1h")
    await received(orders, "?max=1")
    await orders.put("/v1/queues/small", {"max_messages": 4})
    await orders.post("/v1/queues/small/messages", {"body": 1})
    await orders.put("/v1/topics/prices")
    await orders.put("/v1/topics/nobody")
    await orders.put("/v1/topics/prices/subscriptions/euros", {"where": {"currency": HOSTILE}})
    orders.clock.pass_time(timedelta(seconds=42))

    page = text_of(await browser.get("/queues"))

    assert "<script>alert" not in page
    told = rows(page)
    assert any(row.startswith("orders 0 1 1 0 0 \N{EN DASH}") for row in told)
    assert any(row.startswith("small 1 0 0 0 0 42s ago 4") for row in told)
    assert 'width="25.0%"' in page
    assert any(row.startswith("prices euros currency:") for row in told)
    assert any("nobody subscribes" in row for row in told)
    assert "/queues/prices%3Aeuros" in page


async def test_of_many_subscriptions_the_first_are_shown(served: Served, browser: Browser):
    await served.put("/v1/topics/prices")
    for number in range(22):
        await served.put(f"/v1/topics/prices/subscriptions/s{number:02}")

    told = rows(text_of(await browser.get("/queues")))

    assert sum("everything" in row for row in told) == 20
    assert told[-1] == "2 more"


async def test_a_queue_shows_its_settings_and_its_messages_as_far_as_one_may_look(
    served: Served, browser: Browser
):
    await served.put("/v1/queues/orders", {"ttl": "7d", "dead_letter_expired": True, "max_deliveries": 3})
    for number in range(120):
        await sent(served, {"n": number, "note": HOSTILE}, id=f"m{number}")

    pages = [text_of(await browser.get(f"/queues/orders?peek={number}")) for number in (1, 2, 3, 4)]

    assert "for 7d, then it is set aside" in pages[0]
    assert "3 at most" in pages[0]
    found = [re.findall(r'id="message-(\d+)"', page) for page in pages]
    assert [len(one) for one in found] == [25] * 4
    assert len({number for one in found for number in one}) == 100
    assert "What comes after the first 100 is not shown" in pages[3]
    assert (await browser.get("/queues/orders?peek=5")).status == 422
    one = text_of(await browser.get(f"/queues/orders/messages/{found[1][0]}"))
    assert "&#34;n&#34;: 25" in one
    assert "<script>alert" not in one
    assert (await browser.get("/queues/orders/messages/119")).status == 404, "beyond what is shown"


async def test_dead_letters_are_paged_looked_at_put_back_and_dropped(dead: Served, browser: Browser):
    first = text_of(await browser.get("/queues/orders"))
    second = text_of(await browser.get(link(first, "Newer")))
    one = text_of(await browser.get(LETTER))
    back = await browser.send(f"{LETTER}/do/resubmit", reason="there is a ferry now")
    late = await browser.get(f"{LETTER}/do/resubmit")
    gone = await browser.send("/queues/orders/dead/2/do/discard", reason="nonsense")

    numbers = re.findall(r'id="letter-(\d+)"', first + second)
    assert numbers == [str(number) for number in range(1, 31)]
    assert "<script>alert" not in first + second + one
    assert unescape(one).count("alert(1)") >= 3, "reason, properties and body"
    assert (back.status, back.headers["Location"]) == (303, "/queues/orders#dead")
    assert (gone.status, late.status) == (303, 404)
    queue = await dead.client.mailroom.queue("orders")
    assert (queue.ready, queue.dead) == (1, 28)


async def test_dead_letters_go_all_at_once(dead: Served, browser: Browser):
    asked = text_of(await browser.get("/queues/orders/do/discard"))
    await browser.send("/queues/orders/do/resubmit", reason="all of it")

    assert "5,000" in asked
    assert "gone for good" in asked
    queue = await dead.client.mailroom.queue("orders")
    assert (queue.ready, queue.dead) == (30, 0)


# Who may, and what is not there


@pytest.mark.usefixtures("read")
async def test_who_may_only_look_sees_values_and_changes_nothing(dead: Served, browser: Browser):
    await browser.sign_in(await dead.token("reader", Role.READ))
    proof = await browser.proof("/streams")

    for path in ("/streams/orders", "/queues/orders", EVENT, LETTER):
        page = text_of(await browser.get(path))
        assert "alert(1)" in page
        assert 'role="button"' not in page
    for path in QUESTIONS:
        assert (await browser.get(path)).status == 403
        assert (await browser.post(path, proof=proof)).status == 403
    assert not any(one.resubmitted for one in (await dead.client.streamroom.quarantine("orders")).items)
    assert (await dead.client.mailroom.queue("orders")).dead == 30


@pytest.mark.usefixtures("read")
@pytest.mark.parametrize("path", QUESTIONS)
async def test_no_page_of_another_site_changes_anything(dead: Served, browser: Browser, path: str):
    proof = await browser.proof(path)

    tries = [
        await browser.post(path),
        await browser.post(path, proof="wrong"),
        await browser.post(path, {"Origin": "https://evil.example"}, proof=proof),
        await browser.post(path, {"Sec_Fetch_Site": "cross-site"}, proof=proof),
    ]

    assert [answer.status for answer in tries] == [403] * len(tries)
    assert not any(one.resubmitted for one in (await dead.client.streamroom.quarantine("orders")).items)
    assert (await dead.client.mailroom.queue("orders")).dead == 30


@pytest.mark.usefixtures("read", "orders")
@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/streams/nobody", 404),
        ("/streams/orders/quarantine/999", 404),
        ("/streams/nobody/do/resubmit", 404),
        ("/queues/nobody", 404),
        ("/queues/nobody/do/discard", 404),
        ("/queues/orders/dead/999", 404),
        ("/queues/orders/do/nothing", 404),
        ("/streams/orders/quarantine/x", 422),
        ("/streams/orders?from=x", 422),
        ("/streams?cursor=%3Cscript%3E", 422),
        ("/queues?cursor=%3Cscript%3E", 422),
    ],
)
async def test_what_is_not_there_is_said_as_a_page(browser: Browser, path: str, status: int):
    answer = await browser.get(path)

    assert answer.status == status
    assert "<h1>" in text_of(answer)
    assert "<script>" not in text_of(answer)


# Live


@asynccontextmanager
async def watching(served: Served, page: str) -> AsyncIterator[Any]:
    """What comes after ``page`` was loaded, line by line."""
    found = re.search(r'sse-connect="([^"]+)"', page)
    assert found is not None
    headers = {"Accept": "text/event-stream"}
    async with served.session.get(f"{served.url}{unescape(found[1])}", headers=headers) as stream:
        yield stream.content


async def test_a_watcher_of_a_stream_sees_what_comes_in(read: Served, browser: Browser):
    page = text_of(await browser.get("/streams/orders?group=billing"))

    async with watching(read, page) as lines:
        await sent_lines(read, {"body": 1, "key": "k"})
        part = (await lines.readuntil(b"\n\n")).decode()

    assert part.startswith("event: part\n")
    assert '<span class="big">61</span>' in part


async def test_a_watcher_of_a_queue_that_is_deleted_is_told_that_nothing_comes_any_more(
    orders: Served, browser: Browser
):
    page = text_of(await browser.get("/queues/orders"))

    async with watching(orders, page) as lines:
        await orders.ask("DELETE", "/v1/queues/orders")
        told = (await lines.read()).decode()

    assert told.endswith("event: end\ndata: \n\n")


@pytest.mark.usefixtures("dead", "read")
async def test_alerts_lead_to_the_stream_and_the_queue_that_they_tell_of(browser: Browser):
    page = text_of(await browser.get("/"))

    assert '<a class="id" href="/queues/orders">queue:orders</a>' in page
    assert '<a class="id" href="/streams/orders?group=billing">group:orders/billing</a>' in page
