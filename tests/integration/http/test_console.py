"""The pages of the console, as a browser without scripts would ask for them, and as strangers would."""

from __future__ import annotations

import re
from html import unescape
from typing import Any
from urllib.parse import urlencode

import pytest

from backstay.console.pages import NAVIGATION, PAGES
from backstay.definitions.mounts import RESERVED
from backstay.domain.access import Role
from backstay.domain.alert import AlertKind, of_task
from backstay.domain.states import TaskState
from backstay.domain.step import Failure
from backstay.testing.promises.holder import Holder
from backstay.testing.records import let_go
from tests.integration.http.conftest import held
from tests.support.serving import Served
from tests.support.visiting import FORM, Browser, text_of

HOSTILE = "</pre><script>alert(1)</script><img src=x onerror=alert(2)>\"'{{ 7 * 7 }}"


@pytest.fixture
async def stopped(served: Served, alice: Holder) -> None:
    """A task in error, and an alert of it."""
    task = await held(served, alice)
    alert = of_task(AlertKind.TASK_ERROR, "t", message=HOSTILE)
    stopped = let_go(task, TaskState.ERROR, error=Failure("Broken", HOSTILE))
    await alice.write(task, task=stopped, alerts=[alert])


# What everybody gets


@pytest.mark.usefixtures("stopped")
@pytest.mark.parametrize("path", [*(door.path for door in NAVIGATION), "/tasks/t", "/tasks/t/do/undo", "/x"])
async def test_every_page_says_what_may_be_loaded_and_that_nobody_may_frame_it(browser: Browser, path: str):
    answer = await browser.get(path if path != "/x" else "/tasks/x")

    policy = answer.headers["Content-Security-Policy"]
    assert answer.status == (404 if path == "/x" else 200)
    assert "frame-ancestors 'none'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "no-store"
    assert not re.search(r"<style|style=|<script>|\son[a-z]+=\"|https?://", text_of(answer)), "nothing inline"


def test_an_application_can_be_mounted_nowhere_where_a_page_is():
    assert {page.path.split("/")[1] for page in PAGES} <= RESERVED | {""}


async def test_files_come_with_their_types_and_are_kept(browser: Browser):
    page = text_of(await browser.get("/"))
    addresses = re.findall(r'(?:href|src)="(/static/[^"]+)"', page)

    assert len(set(addresses)) >= 6
    for address in addresses:
        file = await browser.get(address)
        assert file.status == 200
        assert "immutable" in file.headers["Cache-Control"]
    assert (await browser.get("/static/nothing.js")).status == 404
    assert (await browser.get("/static/..%2Fapplication.py")).status == 404
    assert (await browser.ask("POST", "/static/console.js")).status == 405


async def test_a_page_that_is_not_there_is_said_as_a_page(browser: Browser):
    missing = await browser.get("/tasks/nobody")
    wrong = await browser.ask("POST", "/audit", data="", **FORM)

    assert (missing.status, wrong.status) == (404, 405)
    assert "There is no such task" in text_of(missing)
    assert wrong.headers["Allow"] == "GET, HEAD"


# Hostile text


@pytest.mark.parametrize(
    "path", ["/", "/tasks", "/tasks?state=error", "/tasks/hostile", "/supervisor", "/audit"]
)
async def test_whatever_others_wrote_is_shown_as_text(
    served: Served, alice: Holder, browser: Browser, path: str
):
    task = await held(
        served,
        alice,
        "hostile",
        attributes={HOSTILE: HOSTILE},
        input=b'"%s"' % HOSTILE.replace('"', "").encode(),
    )
    alert = of_task(AlertKind.TASK_ERROR, "hostile", message=HOSTILE)
    stopped = let_go(task, TaskState.ERROR, error=Failure(HOSTILE, HOSTILE, step=HOSTILE))
    await alice.write(task, task=stopped, alerts=[alert])
    await served.client.acting_as(HOSTILE).pause_workflow("order", reason=HOSTILE)

    page = text_of(await browser.get(path))

    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert "alert(1)" in unescape(page), "it is shown, as what it is"
    assert "49" not in re.findall(r"[>\"' ](49)[<\"' ]", page), "and is no template"


async def test_what_a_visitor_asks_for_is_shown_as_text_as_well(browser: Browser):
    for field in ("workflow", "attribute", "after", "error", "id", "state"):
        page = text_of(await browser.get(f"/tasks?{urlencode({field: HOSTILE})}"))
        assert "<script>alert" not in page
        assert "alert(1)" in unescape(page)
    assert "<script>alert" not in text_of(await browser.get(f"/audit?{urlencode({'target': HOSTILE})}"))


# Signing in


async def test_with_a_token_in_the_store_pages_ask_to_sign_in(served: Served, browser: Browser):
    await served.token("me", Role.ADMIN)

    front, deeper = await browser.get("/"), await browser.get("/tasks?state=error")
    script = await browser.get("/tasks", HX_Request="true")
    events = await browser.get("/", Accept="text/event-stream")

    assert (front.status, front.headers["Location"]) == (303, "/sign-in")
    assert (deeper.status, deeper.headers["Location"]) == (303, "/sign-in?to=%2Ftasks%3Fstate%3Derror")
    assert (script.status, events.status) == (401, 401)
    assert (await browser.get("/sign-in")).status == 200
    assert (await browser.get("/static/console.css")).status == 200


async def test_a_token_opens_a_session_that_holds_nothing_of_it(served: Served, browser: Browser):
    secret = await served.token("me", Role.OPERATE)

    answer = await browser.sign_in(secret, to="/tasks")

    cookie = answer.headers["Set-Cookie"]
    assert (answer.status, answer.headers["Location"]) == (303, "/tasks")
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= {part.strip() for part in cookie.split(";")}
    assert secret not in cookie
    assert "Secure" not in cookie, "over plain HTTP browsers would not keep it"
    assert "token:me · operate" in text_of(await browser.get("/"))


async def test_a_session_that_began_over_tls_is_kept_for_tls(served: Served, browser: Browser):
    secret = await served.token("me", Role.OPERATE)
    proof = await browser.proof("/sign-in")
    through_a_proxy = {"Origin": "https://console.example", "Sec_Fetch_Site": "same-origin"}

    answer = await browser.post("/sign-in", through_a_proxy, proof=proof, token=secret)

    assert answer.status == 303
    assert "Secure" in answer.headers["Set-Cookie"]


async def test_a_wrong_token_opens_nothing_and_guessing_is_stopped(served: Served, browser: Browser):
    await served.token("me", Role.ADMIN)
    proof = await browser.proof("/sign-in")

    answers = [await browser.post("/sign-in", proof=proof, token=f"guess-{n}") for n in range(21)]

    assert {answer.status for answer in answers[:20]} == {401}
    assert answers[20].status == 429
    assert (await browser.get("/")).status == 303
    assert (await browser.ask("GET", "/", token="another-guess")).status == 429


async def test_revoking_the_token_and_signing_out_end_the_session(served: Served, browser: Browser):
    await served.token("keeper", Role.ADMIN)
    await browser.sign_in(await served.token("me", Role.OPERATE))
    copied = Browser(served)
    copied.cookies = dict(browser.cookies)

    out = await browser.send("/sign-in/out", form_at="/")
    after = await browser.get("/")
    while_live = await copied.get("/")
    admin = await served.token("admin", Role.ADMIN)
    await served.ask("DELETE", "/v1/tokens/me", token=admin)
    revoked = await copied.get("/")

    assert (out.status, after.status) == (303, 303)
    assert (while_live.status, revoked.status) == (200, 303), "without waiting for anything"


@pytest.mark.parametrize(
    "to", ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:x", "/sign-in"]
)
async def test_signing_in_leads_to_pages_of_ours_only(served: Served, browser: Browser, to: str):
    answer = await browser.sign_in(await served.token("me", Role.READ), to=to)

    assert answer.headers["Location"] == "/"


async def test_a_header_with_a_token_opens_pages_too(served: Served, browser: Browser):
    secret = await served.token("me", Role.READ)

    assert (await browser.ask("GET", "/tasks", token=secret)).status == 200


# Who may


@pytest.mark.usefixtures("stopped")
async def test_who_may_only_look_is_offered_nothing_and_refused_everything(served: Served, browser: Browser):
    await browser.sign_in(await served.token("reader", Role.READ))
    proof = await browser.proof("/")

    for door in (*NAVIGATION, "/tasks/t"):
        page = text_of(await browser.get(door if isinstance(door, str) else door.path))
        assert 'role="button"' not in page
    for page_ in PAGES:
        if page_.role is Role.OPERATE:
            path = page_.path.format(
                id="t" if "tasks" in page_.path else "1",
                move="undo",
                name="stock",
                act="pause",
                workflow="order",
                collection="night",
                job="health",
            )
            answer = (
                await browser.get(path) if page_.method == "GET" else await browser.post(path, proof=proof)
            )
            assert answer.status == 403, path
    assert (await served.client.task("t")).state == "error"


@pytest.mark.usefixtures("stopped")
async def test_what_is_done_is_in_the_trail_under_the_name_of_the_token(served: Served, browser: Browser):
    await browser.sign_in(await served.token("ann", Role.OPERATE))

    asked = text_of(await browser.get("/tasks/t/do/resubmit"))
    done = await browser.send("/tasks/t/do/resubmit", reason="the carrier is back")

    assert "what is completed stays" in asked
    assert (done.status, done.headers["Location"]) == (303, "/tasks/t")
    assert (await served.client.task("t")).state == "pending"
    page = text_of(await browser.get("/audit"))
    assert "token:ann" in page
    assert "the carrier is back" in page


@pytest.mark.usefixtures("stopped")
async def test_a_move_that_somebody_else_made_first_is_refused_and_said(served: Served, browser: Browser):
    proof = await browser.proof("/tasks/t/do/resubmit")
    await served.client.cancel("t", undo=False)

    late = await browser.post("/tasks/t/do/resubmit", proof=proof)

    assert late.status == 409
    assert "cancelled" in text_of(late)
    assert (await browser.get("/tasks/t/do/resubmit")).status == 409


@pytest.mark.usefixtures("stopped")
async def test_a_value_that_is_no_json_is_asked_for_again(browser: Browser):
    answer = await browser.send("/tasks/t/do/signal", name="go", payload="{no", reason="because")

    page = unescape(text_of(answer))
    assert answer.status == 422
    assert "{no" in page
    assert "because" in page


# Other sites


@pytest.mark.usefixtures("stopped")
@pytest.mark.parametrize("guarded", [False, True])
async def test_no_page_of_another_site_changes_anything(served: Served, browser: Browser, guarded: bool):
    if guarded:
        await browser.sign_in(await served.token("ann", Role.OPERATE))
    path = "/tasks/t/do/resubmit"
    proof = await browser.proof(path)
    stranger = Browser(served)
    of_another = await stranger.proof("/sign-in" if guarded else path)

    tries = [
        await browser.post(path),
        await browser.post(path, proof="wrong"),
        await browser.post(path, proof=of_another),
        await browser.post(path, {"Origin": "https://evil.example"}, proof=proof),
        await browser.post(path, {"Origin": "null"}, proof=proof),
        await browser.post(path, {"Sec_Fetch_Site": "cross-site"}, proof=proof),
        await browser.post(path, {"Sec_Fetch_Site": "same-site"}, proof=proof),
    ]
    typed = await browser.ask("POST", path, body={"proof": proof})

    assert [answer.status for answer in tries] == [403] * len(tries)
    assert typed.status == 415, "no JSON that a script of another site could send"
    assert (await served.client.task("t")).state == "error"


async def test_without_a_token_only_this_machine_is_served(browser: Browser):
    rebound = await browser.get("/", Host="evil.example")
    framed = await browser.get("/", Origin="https://evil.example")

    assert (rebound.status, framed.status) == (403, 403)
    assert "this machine" in text_of(rebound)


# Live


@pytest.mark.usefixtures("stopped")
async def test_a_watcher_sees_what_changes_and_nothing_twice(served: Served, browser: Browser):
    page = text_of(await browser.get("/tasks/t"))
    seen = re.search(r'sse-connect="([^"]+)"', page)
    assert seen is not None

    async with served.session.get(
        f"{served.url}{seen[1]}", headers={"Accept": "text/event-stream"}
    ) as stream:
        await served.client.resubmit("t", reason="once more")
        lines = []
        async for line in stream.content:
            lines.append(line.decode())
            if line == b"\n":
                break

    assert stream.headers["Content-Type"].startswith("text/event-stream")
    assert lines[0] == "event: part\n"
    assert "once more" in "".join(lines), "the first that comes is the change"


async def test_watchers_have_as_many_seats_as_there_are(serve: Any):
    async with serve(watchers_max=1) as served:
        address = f"{served.url}/"
        watching = {"Accept": "text/event-stream"}
        async with served.session.get(address, headers=watching) as first:
            await first.content.readline()
            async with served.session.get(address, headers=watching) as second:
                assert second.status == 429
