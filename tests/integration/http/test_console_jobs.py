"""The pages of jobs, as a browser without scripts would ask for them, and as strangers would."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest

from backstay.domain.access import Role
from backstay.domain.jobs.records import ActionName, CollectionId, EntryStatus, HistoryEntry, Occurrence
from backstay.errors import UnknownJob
from backstay.store.base import TaskFilter
from backstay.store.jobs import Attempt
from backstay.store.records import AuditFilter
from tests.support.job_documents import BASIC, http, laborious_pfx, pfx
from tests.support.serving import Served
from tests.support.visiting import Browser, text_of

HOSTILE = "</pre></textarea><script>alert(1)</script><img src=x onerror=alert(2)>\"'{{ 7 * 7 }}"

NIGHT = CollectionId("default", "default", "night")
ELSEWHERE = CollectionId("sub-2", "Gruppe(ü)", "night")
JOB = "/jobs/night/health"
EDIT = f"{JOB}/edit"
NEW = "/jobs/night/-/new"
SECRET = "hunter2"

#: What the page for a new job holds once somebody has filled in the least.
TYPED = {"name": "orders", "what": "request", "url": "http://example.org/orders", "method": "POST"}


@pytest.fixture
async def night(served: Served) -> Served:
    """A collection with a job that runs each day, and holds a secret."""
    room = served.client.jobroom
    await room.put_collection(NIGHT, {"location": "West US", "properties": {"quota": {"maxJobCount": 20}}})
    daily = {"frequency": "day", "schedule": {"hours": [5], "minutes": [0]}}
    document = http(authentication=BASIC)
    document["properties"] |= {"startTime": "2031-01-01", "recurrence": daily}
    await room.put_job(NIGHT, "health", document)
    return served


async def page_at(browser: Browser, path: str) -> str:
    answer = await browser.get(path)
    assert answer.status == 200, text_of(answer)
    return unescape(text_of(answer))


async def job(served: Served, name: str = "health") -> dict[str, Any]:
    properties: dict[str, Any] = (await served.client.jobroom.job(NIGHT, name))["properties"]
    return properties


async def fields(browser: Browser, path: str) -> dict[str, str]:
    """What a browser would send of a form that nobody touched."""
    text = text_of(await browser.get(path))
    found = {}
    for tag in re.findall(r"<input[^>]*>", text):
        name, value = re.search(r'name="([^"]*)"', tag), re.search(r'value="([^"]*)"', tag)
        if name is not None and ("checkbox" not in tag or " checked" in tag):
            found[name[1]] = unescape(value[1]) if value else "on"
    for name, options in re.findall(r'<select name="([^"]*)".*?>(.*?)</select>', text, re.DOTALL):
        chosen = re.search(r'<option(?: value="([^"]*)")? selected>([^<]*)', options)
        first = re.search(r'<option(?: value="([^"]*)")?>([^<]*)', options)
        one = chosen or first
        assert one is not None
        found[name] = unescape(one[2] if one[1] is None else one[1])
    for name, value in re.findall(r'<textarea name="([^"]*)"[^>]*>\n(.*?)</textarea>', text, re.DOTALL):
        found[name] = unescape(value).replace("\n", "\r\n")
    return found


async def tried(served: Served, **entry: Any) -> None:
    """An attempt in the history of the job, as if it had been made."""
    room, now = served.client.jobroom, served.clock.now()
    there = await room.record(NIGHT, "health")
    began = entry.pop("started_at", now)
    occurrence = Occurrence(
        job_key=there.key, uid=there.uid, generation=there.generation, at=began, number=1, by_hand=False
    )
    usual = {"expected_at": began, "started_at": began, "ended_at": began, "status": EntryStatus.COMPLETED}
    one = HistoryEntry(**{**usual, "message": "said", **entry})
    await served.store.jobs.record([Attempt(occurrence=occurrence, entry=one, final=True)], now=now)


# Looking


async def test_collections_are_shown_with_what_they_may_hold(night: Served, browser: Browser):
    page = await page_at(browser, "/jobs")

    assert 'href="/jobs/night"' in page
    assert "1 of 20" in page
    assert "every minute" in page


async def test_a_collection_elsewhere_has_a_path_of_its_own(night: Served, browser: Browser):
    room = night.client.jobroom
    await room.put_collection(ELSEWHERE, {"location": "West US"})
    await room.put_job(ELSEWHERE, "other", http())
    here, there = await page_at(browser, "/jobs"), await page_at(browser, "/jobs?subscription=sub-2")

    path = "/jobs/sub-2:Gruppe(%C3%BC):night"
    assert path not in here
    assert f'href="{path}"' in there
    assert f'href="{path}/other"' in await page_at(browser, path)
    assert ">other<" in await page_at(browser, f"{path}/other")
    assert (await browser.send(f"{path}/other/do/delete")).headers["Location"] == path
    assert f'href="{path}"' in await page_at(browser, "/jobs?subscription=sub-2&group=GRUPPE(Ü)")


@pytest.mark.parametrize(
    "path",
    [
        "/jobs/none",
        "/jobs/a:b",
        "/jobs/a:b:c:d",
        "/jobs/1",
        "/jobs/night/none",
        "/jobs/night/1",
        "/jobs/x%00y",
    ],
)
@pytest.mark.usefixtures("night")
async def test_what_is_not_there_is_said_as_a_page(browser: Browser, path: str):
    answer = await browser.get(path)
    watched = await browser.get(path, Accept="text/event-stream")

    assert (answer.status, watched.status) == (404, 404)
    assert "<h1>" in text_of(answer)


async def test_the_jobs_of_a_collection_are_found_by_their_state(night: Served, browser: Browser):
    await night.client.jobroom.put_job(
        NIGHT, "off", {"properties": {**http()["properties"], "state": "Disabled"}}
    )

    everything, off = (
        await page_at(browser, "/jobs/night"),
        await page_at(browser, "/jobs/night?state=disabled"),
    )

    assert re.findall(r'<th scope="row"><a href="([^"]+)"', everything) == [JOB, "/jobs/night/off"]
    assert re.findall(r'<th scope="row"><a href="([^"]+)"', off) == ["/jobs/night/off"]
    assert "at 05:00 every day, from 2031-01-01 00:00 UTC" in everything
    assert (await browser.get("/jobs/night?state=asleep")).status == 422


async def test_long_lists_come_in_pages(night: Served, browser: Browser):
    room = night.client.jobroom
    await room.put_collection(NIGHT, {"properties": {"sku": {"name": "P20Premium"}}})
    for number in range(60):
        await room.put_job(NIGHT, f"j{number:02}", http())

    first = await page_at(browser, "/jobs/night")
    [after] = re.findall(r'<a href="([^"]+)" rel="next"', first)
    second = await page_at(browser, after)

    rows = [re.findall(r'<th scope="row">', page) for page in (first, second)]
    assert [len(some) for some in rows] == [50, 11]
    assert 'rel="next"' not in second


async def test_a_job_is_told_in_a_sentence_with_what_comes_next(night: Served, browser: Browser):
    page = await page_at(browser, JOB)

    assert "Runs at 05:00 every day, from 2031-01-01 00:00 UTC." in page
    assert len(re.findall(r'<li><time datetime="2031-01-', page)) == 20
    assert "2031-01-20 05:00:00Z" in page
    assert "GET http://example.org" in page


async def test_a_job_that_is_disabled_shows_what_would_come(night: Served, browser: Browser):
    await night.client.jobroom.disable(NIGHT, "health")

    page = await page_at(browser, JOB)

    assert "if it were enabled now" in page
    assert len(re.findall(r'<li><time datetime="2031-01-', page)) == 20


async def test_a_watcher_sees_a_job_change_and_hears_when_it_is_gone(night: Served, browser: Browser):
    watched = re.search(r'sse-connect="([^"]+)"', await page_at(browser, JOB))
    assert watched is not None

    async with night.session.get(
        f"{night.url}{watched[1]}", headers={"Accept": "text/event-stream"}
    ) as stream:
        await night.client.jobroom.disable(NIGHT, "health")
        async for line in stream.content:
            if b"if it were enabled now" in line:
                break
        await night.client.jobroom.delete_job(NIGHT, "health")
        rest = "".join([line.decode() async for line in stream.content])

    assert rest.endswith("event: end\ndata: \n\n")


# What became of it


async def test_each_entry_of_the_history_leads_to_its_task(night: Served, browser: Browser):
    task_id = await night.client.jobroom.run(NIGHT, "health")
    at = (await night.client.task(task_id)).created_at
    room = night.client.jobroom
    there = await room.record(NIGHT, "health")
    occurrence = Occurrence(
        job_key=there.key, uid=there.uid, generation=1, at=night.clock.now(), number=0, by_hand=True
    )
    entry = HistoryEntry(
        status=EntryStatus.COMPLETED, expected_at=at, started_at=at, ended_at=at, message="done"
    )
    await night.store.jobs.record([Attempt(occurrence=occurrence, entry=entry)], now=at)

    for path in (JOB, f"{JOB}/history"):
        [link] = re.findall(r'<a href="(/tasks/job%3A[^"]+)"', await page_at(browser, path))
        assert task_id in await page_at(browser, link)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("", ["late", "error", "failed", "early"]),
        ("status=failed", ["error", "failed"]),
        ("action=error", ["error"]),
        ("action=main&status=failed", ["failed"]),
        ("after=90m", ["late", "error", "failed"]),
        ("after=90m&before=30m", ["error", "failed"]),
        ("before=2h", ["early"]),
        ("status=postponed", []),
    ],
)
async def test_the_history_is_found_by_what_is_known_of_it(
    night: Served, browser: Browser, asked: str, found: list[str]
):
    now = night.clock.now()
    hour = timedelta(hours=1)
    await tried(night, started_at=now - 3 * hour, message="early")
    await tried(night, started_at=now - hour, message="failed", status=EntryStatus.FAILED)
    await tried(
        night, started_at=now - hour, message="error", status=EntryStatus.FAILED, action=ActionName.ERROR
    )
    await tried(night, message="late")

    page = await page_at(browser, f"{JOB}/history?{asked}")

    assert re.findall(r'<td class="said">(\w+)</td>', page) == found


async def test_a_long_history_comes_in_pages_and_keeps_its_filters(night: Served, browser: Browser):
    now = night.clock.now()
    for number in range(55):
        await tried(night, started_at=now - timedelta(seconds=number), message=f"m{number}")

    first = await page_at(browser, f"{JOB}/history?status=completed")
    [after] = re.findall(r'<a href="([^"]+)" rel="next"', first)
    second = await page_at(browser, after)

    assert "status=completed" in after
    assert re.findall(r'<td class="said">(\w+)</td>', first + second) == [f"m{n}" for n in range(55)]


@pytest.mark.parametrize(
    "asked", ["status=odd", "action=odd", "after=soon", "cursor=-1", "before=" + "9" * 90]
)
@pytest.mark.usefixtures("night")
async def test_a_filter_that_means_nothing_is_said_and_answered(browser: Browser, asked: str):
    page = await page_at(browser, f"{JOB}/history?{asked}")

    assert 'role="alert"' in page
    assert asked.partition("=")[0] in page


# What an operator does


@pytest.mark.parametrize(
    ("act", "says", "entry"),
    [
        ("run", "Its action is done once, now", "run"),
        ("disable", "None of its occurrences starts any more", "disable"),
        ("delete", "its secrets and its history", "delete"),
    ],
)
async def test_each_question_says_what_happens_and_why_is_in_the_trail(
    night: Served, browser: Browser, act: str, says: str, entry: str
):
    asked = await page_at(browser, f"{JOB}/do/{act}")
    answer = await browser.send(f"{JOB}/do/{act}", reason=f"because of {act}")

    assert says in asked
    assert (answer.status, answer.headers["Location"]) == (303, "/jobs/night" if act == "delete" else JOB)
    trail = (await night.client.audit(AuditFilter(target="job:night/health"))).items
    assert [(one.action, one.reason) for one in trail[:1]] == [(entry, f"because of {act}")]


async def test_a_job_is_disabled_enabled_run_and_deleted(night: Served, browser: Browser):
    await browser.send(f"{JOB}/do/disable")
    assert (await job(night))["state"] == "disabled"
    assert "It runs next at 2031-01-01T05:00:00Z" in await page_at(browser, f"{JOB}/do/enable")
    refused = await browser.send(f"{JOB}/do/run")
    await browser.send(f"{JOB}/do/enable")
    assert (await job(night))["state"] == "enabled"
    await browser.send(f"{JOB}/do/run")
    await browser.send(f"{JOB}/do/delete")

    assert refused.status == 409
    assert "Enable it to run it" in unescape(text_of(refused))
    with pytest.raises(UnknownJob):
        await job(night)
    started = await night.client.tasks(TaskFilter(attribute=("job", "health")))
    assert len(started.items) == 1


async def test_buttons_are_those_that_would_not_be_refused(night: Served, browser: Browser):
    async def offered() -> list[str]:
        page = await page_at(browser, JOB)
        return re.findall(rf'href="{JOB}/(?:do/)?(run|enable|disable|delete|edit)"', page)

    assert await offered() == ["run", "disable", "edit", "delete"]
    await night.client.jobroom.disable_collection(NIGHT)
    assert await offered() == ["disable", "edit", "delete"]
    await night.client.jobroom.disable(NIGHT, "health")
    assert await offered() == ["enable", "edit", "delete"]


async def test_a_job_that_is_over_can_be_copied_and_deleted(night: Served, browser: Browser):
    over = http()["properties"] | {
        "startTime": "2001-01-01",
        "recurrence": {"frequency": "day", "endTime": "2002-01-01"},
    }
    await night.client.jobroom.put_job(NIGHT, "over", {"properties": over})

    page = await page_at(browser, "/jobs/night/over")
    copy = await fields(browser, "/jobs/night/-/new?like=over")

    assert "completed" in page
    assert "/jobs/night/over/edit" not in page
    assert "/jobs/night/over/do/enable" not in page
    assert (await browser.get("/jobs/night/over/edit")).status == 409
    assert (copy["url"], copy["until"]) == ("http://example.org", "2002-01-01T00:00:00Z")


async def test_a_collection_is_disabled_enabled_and_deleted(night: Served, browser: Browser):
    async def state() -> str:
        return str((await night.client.jobroom.collection(NIGHT))["properties"]["state"])

    await browser.send("/jobs/night/-/do/disable", reason="maintenance")
    assert await state() == "Disabled"
    assert "its collection is disabled" in await page_at(browser, JOB)
    await browser.send("/jobs/night/-/do/enable")
    assert await state() == "Enabled"
    assert "It has 1 job." in await page_at(browser, "/jobs/night/-/do/delete")
    gone = await browser.send("/jobs/night/-/do/delete")

    assert gone.headers["Location"] == "/jobs"
    assert (await browser.get("/jobs/night")).status == 404
    trail = (await night.client.audit(AuditFilter(target="collection:night"))).items
    assert [one.action for one in trail] == ["delete", "enable", "disable", "put"]


async def test_a_job_may_be_called_as_pages_are(night: Served, browser: Browser):
    for name in ("do", "new", "history", "edit"):
        await night.client.jobroom.put_job(NIGHT, name, http())
        for page in ("", "/history", "/edit", "/do/run"):
            assert name in await page_at(browser, f"/jobs/night/{name}{page}")


# Writing one


async def test_a_job_is_made_of_what_was_typed(night: Served, browser: Browser):
    document = {"action": {"retryPolicy": {"retryType": "None"}}, "overlap": "allow"}
    times = {"frequency": "week", "interval": "1", "day-monday": "on", "hours": "5", "minutes": "0"}

    answer = await browser.send(NEW, **TYPED, **times, document=json.dumps(document), reason="new")

    assert (answer.status, answer.headers["Location"]) == (303, "/jobs/night/orders")
    made = await job(night, "orders")
    assert made["action"] == {
        "type": "Http",
        "request": {"uri": "http://example.org/orders", "method": "POST"},
        "retryPolicy": {"retryType": "none"},
    }
    assert made["overlap"] == "allow"
    assert made["recurrence"]["schedule"] == {"weekDays": ["monday"], "hours": [5], "minutes": [0]}
    [entry] = (await night.client.audit(AuditFilter(target="job:night/orders"))).items
    assert (entry.action, entry.reason) == ("put", "new")


async def test_a_preview_tells_what_would_come_and_makes_nothing(night: Served, browser: Browser):
    times = {"frequency": "day", "hours": "5", "minutes": "0", "start": "2031-01-01"}
    proof = await browser.proof(NEW)
    sent = {**TYPED, **times, "name": "", "wanted": "preview", "proof": proof}

    part = await browser.post(NEW, {"HX-Request": "true"}, **sent)
    page = await browser.post(NEW, **sent)

    for answer in (part, page):
        assert answer.status == 200
        assert "Runs at 05:00 every day, from 2031-01-01 00:00 UTC." in text_of(answer)
        assert len(re.findall("<li><time", text_of(answer))) == 20
    assert "<form" not in text_of(part)
    assert 'value="http://example.org/orders"' in text_of(page), "what was typed is still there"
    assert len(await night.client.jobroom.jobs(NIGHT)) == 1


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ({"url": ""}, "properties.action.request.uri is missing"),
        (
            {"hours": "25"},
            "properties.recurrence.schedule.hours[0] is 25; write a whole number between 0 and 24",
        ),
        ({"document": "{"}, "the document must be one JSON value"),
        ({"document": '{"overlap": "perhaps"}'}, "properties.overlap is none of skip, queue, allow"),
        ({"name": "1st"}, "the name of the job is '1st'; write a letter"),
        ({"name": "health"}, "there is a job health already"),
        (
            {"document": '{"action": {"request": {"authentication": {"type": "Basic", "username": "u"}}}}'},
            "password is missing",
        ),
    ],
)
async def test_what_is_wrong_names_the_field_and_what_to_write(
    night: Served, browser: Browser, typed: dict[str, str], says: str
):
    answer = await browser.send(NEW, **{**TYPED, "frequency": "day", "reason": "why not", **typed})

    page = unescape(text_of(answer))
    assert answer.status in (409, 422)
    assert says in page
    assert "why not" in page, "what was typed is still there"
    assert len(await night.client.jobroom.jobs(NIGHT)) == 1
    assert (await job(night))["recurrence"]["frequency"] == "day"


async def test_a_preview_says_that_the_collection_allows_no_such_thing(night: Served, browser: Browser):
    quota = {"properties": {"quota": {"maxRecurrence": {"frequency": "hour"}}}}
    await night.client.jobroom.patch_collection(NIGHT, quota)

    answer = await browser.send(NEW, **TYPED, frequency="minute", wanted="preview")

    assert "more frequent than the maxRecurrence" in unescape(text_of(answer))


@pytest.mark.parametrize("path", [NEW, EDIT])
async def test_a_preview_opens_no_file_that_is_laborious_to_open(night: Served, browser: Browser, path: str):
    authentication = {"type": "ClientCertificate", "pfx": laborious_pfx(400_000_000), "password": "p"}
    document = json.dumps({"action": {"request": {"authentication": authentication}}})
    sent = {**await fields(browser, path), **TYPED, "document": document, "wanted": "preview"}

    answer = await browser.post(path, **sent)

    assert "takes too long to open" in unescape(text_of(answer))


async def test_a_page_that_is_sent_as_it_came_changes_nothing(night: Served, browser: Browser):
    await night.client.jobroom.patch_job(
        NIGHT,
        "health",
        {
            "properties": {
                "action": {"request": {"body": "\n one\ntwo", "headers": {"A": '"</textarea>'}}},
                "recurrence": {"frequency": "month", "schedule": {"monthDays": [-1], "months": [2]}},
            }
        },
    )
    before = await night.client.jobroom.record(NIGHT, "health")

    answer = await browser.post(EDIT, **await fields(browser, EDIT))

    assert answer.status == 303, text_of(answer)
    assert await night.client.jobroom.record(NIGHT, "health") == before


async def test_a_change_says_only_what_became_another_and_keeps_secrets(night: Served, browser: Browser):
    there = await night.client.jobroom.record(NIGHT, "health")
    sent = await fields(browser, EDIT)

    answer = await browser.post(
        EDIT, **{**sent, "url": "http://example.org/new", "hours": "6", "reason": "moved"}
    )

    assert answer.status == 303, text_of(answer)
    after = await night.client.jobroom.record(NIGHT, "health")
    assert after.definition["action"]["request"]["uri"] == "http://example.org/new"
    assert after.definition["recurrence"]["schedule"]["hours"] == [6]
    assert after.generation == there.generation, "counts go on"
    kept = await night.store.jobs.secrets(after.key, uid=after.uid)
    assert kept["action.request.authentication.password"] == SECRET
    [entry, *_] = (await night.client.audit(AuditFilter(target="job:night/health"))).items
    assert (entry.action, entry.reason) == ("patch", "moved")


async def test_a_secret_is_replaced_by_a_new_one_and_goes_with_what_it_belongs_to(
    night: Served, browser: Browser
):
    sent = await fields(browser, EDIT)
    document = json.loads(sent["document"])
    document["action"]["request"]["authentication"]["password"] = "new one"
    await browser.post(EDIT, **{**sent, "document": json.dumps(document)})
    there = await night.client.jobroom.record(NIGHT, "health")
    replaced = dict(await night.store.jobs.secrets(there.key, uid=there.uid))
    sent = await fields(browser, EDIT)
    await browser.post(EDIT, **{**sent, "document": ""})

    assert list(replaced.values()) == ["new one"]
    assert dict(await night.store.jobs.secrets(there.key, uid=there.uid)) == {}
    assert "authentication" not in (await job(night))["action"]["request"]


async def test_who_changes_what_somebody_else_changed_meanwhile_is_told(night: Served, browser: Browser):
    sent = await fields(browser, EDIT)
    night.clock.pass_time(timedelta(seconds=1))
    await night.client.jobroom.patch_job(NIGHT, "health", {"properties": {"overlap": "allow"}})

    answer = await browser.post(EDIT, **{**sent, "url": "http://example.org/mine"})

    assert answer.status == 409
    assert "somebody else changed job health meanwhile" in unescape(text_of(answer))
    assert "http://example.org/mine" in text_of(answer)
    assert (await job(night))["action"]["request"]["uri"] == "http://example.org"


@pytest.mark.usefixtures("night")
async def test_a_form_that_was_tampered_with_is_refused(browser: Browser):
    sent = await fields(browser, EDIT)

    for as_of in ("", "x", "9" * 40):
        assert (await browser.post(EDIT, **{**sent, "as-of": as_of, "url": "http://a"})).status == 422
    assert (await browser.post(NEW, **{**sent, **{f"f{n}": "" for n in range(60)}})).status == 422
    assert (await browser.get("/jobs/night/-/new?like=none")).status == 404


# Secrets, hostile text, and other people


async def test_no_page_shows_a_secret(night: Served, browser: Browser):
    certificate = {"type": "ClientCertificate", "pfx": pfx(SECRET), "password": SECRET}
    await night.client.jobroom.put_job(NIGHT, "sealed", http(authentication=certificate))
    paths = ["/jobs", "/jobs/night", "/audit"]
    for name in ("health", "sealed"):
        of_job = ("", "/history", "/edit", "/do/disable", "/do/delete")
        paths += [f"/jobs/night/{name}{path}" for path in of_job]
        paths.append(f"/jobs/night/-/new?like={name}")

    for path in paths:
        page = await page_at(browser, path)
        assert SECRET not in page, path
        assert pfx(SECRET) not in page, path
    for name in ("health", "sealed"):
        sent = await fields(browser, f"/jobs/night/{name}/edit")
        preview = await browser.post(f"/jobs/night/{name}/edit", **{**sent, "wanted": "preview"})
        assert "Runs" in text_of(preview)
        assert SECRET not in text_of(preview)


async def test_whatever_others_wrote_is_shown_as_text(night: Served, browser: Browser):
    hostile = http(
        body=HOSTILE, headers={"X": HOSTILE.replace("\n", "")}, uri=f"http://a/{HOSTILE.replace(' ', '')}"
    )
    hostile["properties"]["action"]["errorAction"] = {
        "type": "Workflow",
        "workflow": {"name": "w", "input": HOSTILE},
    }
    await night.client.acting_as(HOSTILE).jobroom.put_job(NIGHT, "health", hostile, reason=HOSTILE)
    tags = {"location": HOSTILE, "tags": {HOSTILE: HOSTILE}}
    await night.client.jobroom.put_collection(CollectionId("default", "default", "other"), tags)
    await tried(night, message=HOSTILE * 5)

    paths = (
        "/jobs", "/jobs/night", "/jobs/other", JOB, f"{JOB}/history", EDIT, f"{JOB}/do/disable",
        "/jobs/night/-/new?like=health",
    )  # fmt: skip
    for path in paths:
        page = text_of(await browser.get(path))
        assert "<script>alert" not in page, path
        assert "<img src=x" not in page, path
        assert "49" not in re.findall(r"[>\"' ](49)[<\"' ]", page), path
    for path in paths[2:]:
        assert "alert(1)" in unescape(text_of(await browser.get(path))), path


@pytest.mark.usefixtures("night")
async def test_what_a_visitor_asks_for_is_shown_as_text_as_well(browser: Browser):
    asked = "%3C%2Ftextarea%3E%3Cscript%3Ealert(1)%3C%2Fscript%3E"
    for path in ("/jobs?group=", "/jobs?subscription=", f"{JOB}/history?status=", f"{JOB}/history?after="):
        assert "<script>alert" not in text_of(await browser.get(path + asked))
    for name in (
        "name",
        "url",
        "body",
        "document",
        "hours",
        "start",
        "reason",
        "what",
        "frequency",
        "method",
    ):
        answer = await browser.send(NEW, **{**TYPED, "frequency": "day", name: HOSTILE, "wanted": "preview"})
        assert "<script>alert" not in text_of(answer), name


@pytest.mark.parametrize("path", [f"{JOB}/do/delete", EDIT, NEW, "/jobs/night/-/do/delete"])
async def test_nobody_but_who_may_operate_changes_a_job(night: Served, browser: Browser, path: str):
    await browser.sign_in(await night.token("reader", Role.READ))
    proof = await browser.proof("/jobs")

    looked = await page_at(browser, JOB)
    answers = [await browser.get(path), await browser.post(path, proof=proof, **TYPED)]

    assert [answer.status for answer in answers] == [403, 403]
    assert 'role="button"' not in looked
    assert "/edit" not in looked
    assert "/-/new" not in await page_at(browser, "/jobs") + await page_at(browser, "/jobs/night")
    assert [one["name"] for one in await night.client.jobroom.jobs(NIGHT)] == ["night/health"]


@pytest.mark.parametrize("path", [f"{JOB}/do/delete", EDIT, NEW, "/jobs/night/-/do/delete"])
async def test_no_page_of_another_site_changes_a_job(night: Served, browser: Browser, path: str):
    proof = await browser.proof(path)
    sent = {**TYPED, "as-of": "1"}

    tries = [
        await browser.post(path, **sent),
        await browser.post(path, proof="wrong", **sent),
        await browser.post(path, {"Origin": "https://evil.example"}, proof=proof, **sent),
        await browser.post(path, {"Sec_Fetch_Site": "cross-site"}, proof=proof, **sent),
        await browser.post(path, {"Origin": "https://evil.example"}, proof=proof, wanted="preview", **sent),
    ]
    typed = await browser.ask("POST", path, body={"proof": proof, **sent})

    assert [answer.status for answer in tries] == [403] * len(tries)
    assert typed.status == 415
    assert [one["name"] for one in await night.client.jobroom.jobs(NIGHT)] == ["night/health"]
