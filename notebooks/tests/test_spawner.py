"""The Spawner in a real JupyterHub, against the fake service."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import jupyterhub
import pytest

import fake
from fake import TOKEN, Drop, FakeService, Fault, unavailable
from hub import Hub
from slipway._async import BRISK, AsyncService
from slipway._errors import InvalidError, UnavailableError
from slipway._hub import GRACE, Launch, StartError, clean_options, forget_options, remembered
from slipway.spawner import SlipwaySpawner


@pytest.fixture
async def hub(tmp_path: Path, service: FakeService) -> AsyncIterator[Hub]:
    hub = await Hub(tmp_path, service).up()
    async with hub.api() as api:
        (await api.post("/users/alice")).raise_for_status()
    yield hub
    await hub.down()


async def start(hub: Hub, options: Any = None, server: str = "", user: str = "alice") -> int:
    path = f"/users/{user}/servers/{server}" if server else f"/users/{user}/server"
    async with hub.api() as api:
        return (await api.post(path, json=options)).status_code


async def until(check: Callable[[], bool], seconds: float = 10) -> None:
    for _ in range(int(seconds / 0.02)):
        if check():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it did not come to pass")


async def progress(hub: Hub, server: str = "") -> list[dict[str, Any]]:
    path = f"/users/alice/servers/{server}/progress" if server else "/users/alice/server/progress"
    async with hub.api() as api:
        text = (await api.get(path)).text
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]


async def ready(hub: Hub, server: str = "") -> Any:
    await until(lambda: hub.app.users["alice"].spawners[server].ready)
    return hub.spawner(server=server)


async def stop(hub: Hub, server: str = "", remove: bool = False) -> int:
    path = f"/users/alice/servers/{server}" if server else "/users/alice/server"
    async with hub.api() as api:
        return (await api.request("DELETE", path, json={"remove": remove})).status_code


# --- the ordinary life of a server


async def test_start_translates_everything(hub: Hub, service: FakeService) -> None:
    assert await start(hub, {"profile": "small", "cpus": 2}) in (201, 202)
    spawner = await ready(hub)
    session = service.sessions["s-1"]
    asked = session["request"]
    assert (asked["user"], asked["server_name"], asked["prefix"]) == ("alice", "", "/user/alice/")
    assert asked["options"] == {"profile": "small", "cpus": 2}
    assert asked["argv"] == ["jupyterhub-singleuser"]
    assert asked["launch"] == spawner.launch
    env = asked["env"]
    assert env["JUPYTERHUB_SERVICE_URL"] == "http://127.0.0.1:8888/user/alice/"
    assert env["JUPYTERHUB_SERVICE_PREFIX"] == "/user/alice/"
    assert env["JUPYTERHUB_API_TOKEN"] == spawner.api_token
    assert spawner.server.url == service.url + "/user/alice/"
    assert spawner.orm_spawner.state == {"session_id": "s-1", "launch": spawner.launch}
    assert await spawner.poll() is None


async def test_an_empty_body_starts_the_default_profile(hub: Hub, service: FakeService) -> None:
    await start(hub, {})
    await ready(hub)
    assert service.sessions["s-1"]["request"]["options"] == {}


async def test_a_named_server_with_an_odd_user(hub: Hub, service: FakeService) -> None:
    async with hub.api() as api:
        (await api.post("/users/has@é")).raise_for_status()
    assert await start(hub, {}, server="two", user="has@é") in (201, 202)
    await until(lambda: hub.app.users["has@é"].spawners["two"].ready)
    asked = service.sessions["s-1"]["request"]
    assert (asked["user"], asked["server_name"], asked["prefix"]) == ("has@é", "two", "/user/has@%C3%A9/two/")


async def test_stop_and_start_again(hub: Hub, service: FakeService) -> None:
    await start(hub, {})
    first = (await ready(hub)).launch
    assert await stop(hub) == 204
    assert service.sessions["s-1"]["phase"] == "stopped"
    await start(hub, {})
    assert (await ready(hub)).launch != first
    assert list(service.sessions) == ["s-1"]


async def test_a_server_that_ends_by_itself(hub: Hub, service: FakeService) -> None:
    await start(hub, {})
    spawner = await ready(hub)
    service.sessions["s-1"].update(phase="stopped", outcome={"exit_code": 137})
    assert await spawner.poll() == 137
    service.sessions["s-1"].update(outcome=None)
    assert await spawner.poll() == 0
    service.sessions.clear()
    assert await spawner.poll() == 0


async def test_deleting_a_named_server_discards_its_changes_only(hub: Hub, service: FakeService) -> None:
    for server in ("one", "two"):
        await start(hub, {}, server=server)
        await ready(hub, server)
    assert await stop(hub, "one") == 204
    assert len(service.sessions) == 2
    assert await stop(hub, "one", remove=True) == 204
    assert [session["name"] for session in service.sessions.values()] == ["two"]


# --- progress


async def test_progress_of_this_start_only(hub: Hub, service: FakeService) -> None:
    service.auto_start = False
    service.drop_events_after = 1  # the stream breaks after each event
    for times in (1, 2):
        await start(hub, {})
        follower = asyncio.create_task(progress(hub))
        await until(lambda: bool(hub.spawner().session_id))
        session = service.sessions["s-1"]
        service.step(session, "starting JupyterLab", -1)
        service.step(session, "ready", 100, final=True)
        await until(lambda want=4 * times: service.count("GET", "/events") >= want)  # type: ignore[misc]
        await asyncio.sleep(1)  # the Hub drops what comes after start has returned
        session["phase"] = "running"
        got = await follower
        assert [event["message"] for event in got][:-1] == [
            "Server requested", "leasing", "starting container", "starting JupyterLab", "ready",
        ]  # fmt: skip
        assert [event.get("progress") for event in got] == [0, 10, 40, None, 99, 100]
        assert got[-1]["ready"]
        await stop(hub)


async def test_progress_tells_that_the_service_is_away(hub: Hub, service: FakeService) -> None:
    service.auto_start = False
    service.down()
    await start(hub, {})
    follower = asyncio.create_task(progress(hub))
    await asyncio.sleep(0.5)
    service.up()
    await until(lambda: service.count("GET", "/events") > 0)
    await asyncio.sleep(0.1)
    service.sessions["s-1"]["phase"] = "running"
    messages = [event["message"] for event in await follower]
    assert any("the Slipway service does not answer" in message for message in messages)
    assert "leasing" in messages


@pytest.mark.parametrize(
    ("page", "link"),
    [
        ("/services/slipway/sessions/s-1?a&b", '<a href="/services/slipway/sessions/s-1?a&amp;b"'),
        (None, ""),
        ("//elsewhere/", ""),
        ("/\\elsewhere/", ""),
        ("javascript:alert(1)", ""),
    ],
)
async def test_progress_has_a_link_to_the_sessions_page(
    hub: Hub, service: FakeService, page: str | None, link: str
) -> None:
    service.auto_start, service.page = False, page
    await start(hub, {})
    await until(lambda: bool(hub.spawner().session_id))
    service.step(service.sessions["s-1"], "place 3 of 7: <all slices> are taken")
    follower = asyncio.create_task(progress(hub))
    await until(lambda: service.count("GET", "/events") > 0)
    await asyncio.sleep(0.3)
    service.sessions["s-1"]["phase"] = "running"
    event = next(event for event in await follower if "place 3" in event["message"])
    assert event["message"] == "place 3 of 7: <all slices> are taken"
    shown = event.get("html_message", "")
    assert bool(shown) == bool(link)
    assert link in shown
    assert "<all" not in shown


async def test_progress_never_raises(hub: Hub, service: FakeService) -> None:
    await start(hub, {})
    spawner = await ready(hub)
    service.fail("/events", Fault("forbidden", 403, "no"))
    assert [event async for event in spawner.progress()] == []
    spawner.session_id = ""
    assert [event async for event in spawner.progress()] == []


# --- failures


FAILURE = {
    "exit_code": 1,
    "reason": "the image <none> is not there",
    "remedy": "choose another image",
    "tail": "ModuleNotFoundError: <b>jupyterlab</b>\n" * 3,
    "failed": True,
}


async def test_a_failed_start_shows_reason_remedy_and_log(hub: Hub, service: FakeService) -> None:
    service.start_failure = FAILURE
    hub.app.tornado_application.settings["slow_spawn_timeout"] = 10
    page = await hub.browser()
    answer = await page.post("/hub/spawn", params={"_xsrf": page.cookies["_xsrf"]}, data={"profile": "small"})
    assert answer.status_code == 424
    assert "the image &lt;none&gt; is not there</strong><br>Choose another image.<code class" in answer.text
    assert "white-space: pre-wrap" in answer.text
    assert answer.text.count("ModuleNotFoundError: &lt;b&gt;jupyterlab&lt;/b&gt;\n") == 2  # the third ends the log
    assert "<b>jupyterlab" not in answer.text
    answer = await page.get("/hub/spawn-pending/alice")  # the page of the latest failure
    assert "<strong>the image &lt;none&gt; is not there</strong><br>Choose another image.<code class" in answer.text
    assert "<b>jupyterlab" not in answer.text
    last = (await progress(hub))[-1]
    assert last["failed"]
    assert last["html_message"].startswith("<strong>the image &lt;none&gt;")
    await page.aclose()


async def test_a_failed_start_through_the_api(hub: Hub, service: FakeService) -> None:
    service.fail(
        "POST /api/v1/sessions", Fault("invalid", 422, "cpus: 99 is too many", field="cpus", remedy="at most 2")
    )
    await start(hub, {"cpus": 99})
    await until(lambda: hub.spawner().pending is None)
    last = (await progress(hub))[-1]
    assert last["message"] == "Spawn failed: cpus: 99 is too many. At most 2."
    assert service.stopped_calls == []


async def test_a_start_that_is_too_slow_says_what_it_waits_for(hub: Hub, service: FakeService) -> None:
    service.auto_start = False
    hub.app.users["alice"].spawners[""].start_timeout = 3
    await start(hub, {})
    await until(lambda: hub.spawner().pending is None, 15)
    last = (await progress(hub))[-1]
    assert "still starting after 3 s: for a slice" in last["message"]
    assert service.stopped_calls == ["s-1"]


async def test_a_start_that_another_has_replaced(hub: Hub, service: FakeService) -> None:
    service.auto_start = False
    await start(hub, {})
    await until(lambda: "s-1" in service.sessions)
    service.sessions["s-1"]["launch"] = "another"
    await until(lambda: hub.spawner().pending is None)
    assert "another start" in (await progress(hub))[-1]["message"]


async def test_a_start_outlasts_faults_with_one_launch(hub: Hub, service: FakeService) -> None:
    service.fail("POST /api/v1/sessions", unavailable(), Drop())
    service.fail("/wait", Drop(), unavailable(502))
    service.auto_start = False
    await start(hub, {})
    await until(lambda: service.count("GET", "/wait") >= 3)
    service.down()
    await asyncio.sleep(0.3)
    service.up()
    service.sessions["s-1"]["phase"] = "running"
    spawner = await ready(hub)
    # What was answered is not asked for again: the start is the service's, also after a restart.
    assert service.count("POST", "/api/v1/sessions") == 3
    assert list(service.session_events) == [("s-1", spawner.launch)]
    assert list(service.sessions) == ["s-1"]


async def test_a_stop_outlasts_faults(hub: Hub, service: FakeService) -> None:
    await start(hub, {})
    await ready(hub)
    service.fail("/stop", unavailable(), Drop(), Fault("internal", 500, "oops"))
    assert await stop(hub) == 204
    assert service.sessions["s-1"]["phase"] == "stopped"


async def test_a_stop_that_cannot_be_made_is_no_success(hub: Hub, service: FakeService) -> None:
    await start(hub, {})
    spawner = await ready(hub)
    spawner.stop_timeout = 1
    service.down()
    with pytest.raises(Exception, match="does not answer"):
        await spawner.stop()
    service.up()
    service.sessions.clear()
    await spawner.stop()  # gone is stopped


@pytest.mark.parametrize("fault", [unavailable(), Drop(), Fault("internal", 500, "x"), Fault("unauthorized", 401, "x")])
async def test_unknown_is_not_dead(hub: Hub, service: FakeService, fault: Exception) -> None:
    await start(hub, {})
    spawner = await ready(hub)
    service.fail("/sessions/s-1", fault)
    assert await spawner.poll() is None
    service.bad_json = True
    assert await spawner.poll() is None
    service.bad_json = False


async def test_a_missing_token_says_who_must_act(tmp_path: Path, service: FakeService) -> None:
    spawner = SlipwaySpawner(service_url=service.url, token_file=str(tmp_path / "none"))
    with pytest.raises(Exception, match="an administrator must set"):
        spawner._read_token()
    (tmp_path / "none").write_text(f"{TOKEN}\n")
    assert spawner._read_token() == TOKEN


# --- starts that are given up


async def test_a_start_canceled_in_the_service_is_no_failure_of_the_site(hub: Hub, service: FakeService) -> None:
    service.auto_start = False
    await start(hub, {})
    await until(lambda: "s-1" in service.sessions)
    outcome = {"exit_code": 143, "reason": "stopped by its owner", "canceled": True}
    service.sessions["s-1"].update(phase="stopped", outcome=outcome)
    await until(lambda: hub.spawner().pending is None)
    assert "this start was canceled" in (await progress(hub))[-1]["message"]
    if jupyterhub.version_info >= (6,):  # the older one counts everything, and stops itself only where it is told to
        assert hub.app.tornado_application.settings["failure_count"] == 0
    page = await hub.browser()
    answer = await page.get("/hub/spawn-pending/alice")
    assert (answer.status_code, "this start was canceled" in answer.text) == (409, True)
    await page.aclose()
    assert not hub.spawner().active


@pytest.mark.parametrize("when", ["while it waits", "before it is answered"])
async def test_stopping_a_server_that_starts(hub: Hub, service: FakeService, when: str) -> None:
    service.auto_start = False
    if when == "before it is answered":
        service.fail("POST /api/v1/sessions", GRACE + 0.3)
    await start(hub, {})
    await until(lambda: service.count("POST" if "before" in when else "GET", "/api/v1/sessions") > 0)
    assert await stop(hub) == 204
    await until(lambda: service.sessions.get("s-1", {}).get("phase") == "stopped")
    service.auto_start = True
    await start(hub, {})
    await ready(hub)
    await asyncio.sleep(GRACE + 0.3)  # what was given up stops nothing of what came after it
    assert service.sessions["s-1"]["phase"] == "running"


async def test_a_start_that_the_hub_just_drops(hub: Hub, service: FakeService) -> None:
    service.auto_start = False
    await start(hub, {})
    await until(lambda: "s-1" in service.sessions)
    service.fail("/stop", unavailable())
    hub.spawner()._spawn_future.cancel()  # and nobody calls stop
    await until(lambda: service.sessions["s-1"]["phase"] == "stopped")
    assert service.count("POST", "/s-1/stop?wait=no") == 2


async def test_what_is_given_up_stops_no_other_start(service: FakeService) -> None:
    service.auto_start = False
    asked = AsyncService(service.url, lambda: TOKEN)
    launches = [Launch(asked, {"user": "a", "server_name": "", "launch": str(n)}, 60, print) for n in range(2)]
    await launches[0].ask()
    launches[0].give_up()
    await launches[1].ask()
    await until(lambda: service.count("GET", "/sessions?user=a&name=") == 1)
    await asyncio.sleep(0.3)
    assert service.stopped_calls == []


def test_a_hub_that_ends_leaves_its_starts(service: FakeService) -> None:
    service.auto_start = False
    request = {"user": "alice", "server_name": "", "launch": "l"}

    async def life() -> None:
        launch = Launch(AsyncService(service.url, lambda: TOKEN), request, 60, print)
        await launch.ask()
        launch.give_up()
        await asyncio.sleep(0.1)

    asyncio.run(life())  # cancels what is left, as the Hub does
    assert service.sessions["s-1"]["phase"] == "starting"


# --- options


@pytest.mark.parametrize(
    ("body", "want"),
    [
        (b"", {}),
        (b"null", {}),
        (b"{}", {}),
        (b'{"user_options": null}', {}),
        (b'{"user_options": {"profile": "small"}}', {"profile": "small"}),
        (b'{"environment": "carol/ana:v1", "image": null}', {"environment": "carol/ana:v1"}),
        (b'{"profile": "small"}', {"profile": "small"}),
    ],
)
async def test_options_by_the_api(hub: Hub, service: FakeService, body: bytes, want: dict[str, Any]) -> None:
    async with hub.api() as api:
        assert (await api.post("/users/alice/server", content=body)).status_code in (201, 202)
    spawner = await ready(hub)
    assert service.sessions["s-1"]["request"]["options"] == want
    assert spawner.user_options == want


@pytest.mark.parametrize("body", [b'["small"]', b'"small"', b"7", b'{"cpus": NaN}', b'{"image": "\\ud800"}'])
async def test_options_that_are_none(hub: Hub, service: FakeService, body: bytes) -> None:
    hub.app.tornado_application.settings["slow_spawn_timeout"] = 10
    async with hub.api() as api:
        answer = await api.post("/users/alice/server", content=body)
        assert answer.status_code in (400, 422), answer.text
        assert service.count("POST", "/") == 0
        assert (await api.post("/users/alice/server", json={"profile": "small"})).status_code in (201, 202)
    await ready(hub)


@pytest.mark.parametrize(
    ("code", "theirs", "ours"), [("invalid", 422, 422), ("unauthorized", 401, 424), ("internal", 500, 424)]
)
async def test_no_refusal_counts_against_the_hub(
    hub: Hub, service: FakeService, code: str, theirs: int, ours: int
) -> None:
    hub.app.tornado_application.settings["slow_spawn_timeout"] = 10
    service.fail("POST /api/v1/sessions", Fault(code, theirs, "<no>"))
    async with hub.api() as api:
        answer = await api.post("/users/alice/server", json={})
    assert answer.status_code == ours
    assert answer.json()["message"] == "<no>"


async def test_the_form_begins_with_the_last_choice(hub: Hub, service: FakeService) -> None:
    page = await hub.browser()
    await page.get("/hub/spawn")
    form = {"profile": "small", "cpus": "2", "fresh": "yes"}
    await page.post("/hub/spawn", params={"_xsrf": page.cookies["_xsrf"]}, data=form)
    await ready(hub)
    await stop(hub)
    service.asked.clear()
    await page.get("/hub/spawn")
    await page.aclose()
    asked = dict(parse_qsl(urlsplit(service.asked[-1][1]).query, keep_blank_values=True))
    assert (asked["user"], asked["name"]) == ("alice", "")
    assert json.loads(asked["options"]) == {"profile": "small", "cpus": "2"}


@pytest.mark.parametrize("last", [None, {}, [1], {"x": float("nan")}, {"x": "y" * 3000}])
def test_nothing_to_remember(last: Any) -> None:
    assert remembered(SimpleNamespace(orm_spawner=SimpleNamespace(user_options=last))) == ""


async def test_internal_ssl_is_refused_at_the_start(hub: Hub, service: FakeService) -> None:
    hub.app.tornado_application.settings["slow_spawn_timeout"] = 10
    hub.app.users["alice"].spawner.internal_ssl = True
    async with hub.api() as api:
        answer = await api.post("/users/alice/server", json={})
    assert (answer.status_code, "internal_ssl" in answer.text) == (424, True)
    assert service.count("POST", "/") == 0


async def test_another_name_leaves_no_changes_behind(hub: Hub, service: FakeService) -> None:
    if jupyterhub.version_info < (6,):
        pytest.skip("servers have other names since JupyterHub 6")
    await start(hub, {}, server="one")
    await ready(hub, "one")
    await stop(hub, "one")
    async with hub.api() as api:
        answer = await api.patch("/users/alice/servers/one", json={"name": "two"})
        assert (answer.status_code, "kept changes" in answer.text) == (409, True)
        service.sessions.clear()
        assert (await api.patch("/users/alice/servers/one", json={"name": "two"})).status_code < 300


# --- the form


async def test_the_form_comes_from_the_service(hub: Hub, service: FakeService) -> None:
    page = await hub.browser()
    answer = await page.get("/hub/spawn")
    assert "<select name=profile><!-- alice --></select>" in answer.text
    service.fail("spawn-form", Fault("internal", 500, "<oops>", remedy="ask"))
    answer = await page.get("/hub/spawn")
    assert "The choices cannot be shown now: &lt;oops&gt;: ask" in answer.text
    answer = await page.post("/hub/spawn", params={"_xsrf": page.cookies["_xsrf"]}, data={"profile": "", "cpus": "2"})
    assert answer.status_code == 302
    await ready(hub)
    assert service.sessions["s-1"]["request"]["options"] == {"cpus": "2"}
    await page.aclose()


@pytest.mark.parametrize(
    ("given", "want"),
    [
        ({}, {}),
        ({"profile": ["small"], "cpus": ["2"], "memory": [""]}, {"profile": "small", "cpus": "2"}),
        ({"profile": " small ", "cpus": 2, "memory": None}, {"profile": "small", "cpus": 2}),
        ({"_xsrf": ["x"], "many": ["a", "b"], "none": []}, {"many": ["a", "b"]}),
    ],
)
def test_clean_options(given: dict[str, Any], want: dict[str, Any]) -> None:
    assert clean_options(given) == want


async def test_fresh_acts_once(tmp_path: Path, hub: Hub, service: FakeService) -> None:
    page = await hub.browser()
    form = {"profile": "small", "fresh": "yes"}
    await page.post("/hub/spawn", params={"_xsrf": page.cookies["_xsrf"]}, data=form)
    await page.aclose()
    spawner = await ready(hub)
    assert service.sessions["s-1"]["request"]["options"] == form
    assert spawner.user_options == spawner.orm_spawner.user_options == {"profile": "small"}
    await stop(hub)
    await hub.down()
    again = await Hub(tmp_path, service).up()  # what counts is what the database has kept
    await start(again)
    await ready(again)
    assert service.sessions["s-1"]["request"]["options"] == {"profile": "small"}
    await again.down()


async def test_a_choice_that_could_not_start_is_forgotten(hub: Hub, service: FakeService) -> None:
    """A start without options takes those of the last one that came up, not those that were refused since."""
    hub.app.tornado_application.settings["slow_spawn_timeout"] = 10
    await start(hub, {"profile": "small"})
    await ready(hub)
    await stop(hub)
    async with hub.api() as api:
        service.fail("POST /api/v1/sessions", Fault("invalid", 422, 'cpus: "abc" is not valid'))
        assert (await api.post("/users/alice/server", json={"cpus": "abc"})).status_code == 422
        assert (await api.post("/users/alice/server", json=["none"])).status_code in (400, 422)
    await start(hub)
    await ready(hub)
    assert service.sessions["s-1"]["request"]["options"] == {"profile": "small"}


async def test_a_choice_that_is_not_right_any_more_is_forgotten(hub: Hub, service: FakeService) -> None:
    hub.app.tornado_application.settings["slow_spawn_timeout"] = 10
    await start(hub, {"environment": "ana:v1"})
    await ready(hub)
    await stop(hub)
    for code, status, said, then in (
        ("over_quota", 429, 429, {"environment": "ana:v1"}),
        ("not_found", 404, 422, {}),  # not the server is unknown
    ):
        service.fail("POST /api/v1/sessions", Fault(code, status, "no"))
        async with hub.api() as api:
            assert (await api.post("/users/alice/server")).status_code == said
        assert hub.spawner().orm_spawner.user_options == then


def test_a_service_that_cannot_be_asked_has_judged_nothing() -> None:
    spawner = SimpleNamespace(user_options={"profile": "small"}, orm_spawner=None)
    forget_options(spawner, {}, UnavailableError("down"))
    assert spawner.user_options == {"profile": "small"}
    forget_options(spawner, {}, StartError(424, "its image is gone"))
    assert spawner.user_options == {}


async def test_fresh_is_forgotten_when_the_start_fails(hub: Hub, service: FakeService) -> None:
    service.fail("POST /api/v1/sessions", Fault("invalid", 422, "no"))
    await start(hub, {"fresh": "yes"})
    await until(lambda: service.count("POST", "/api/v1/sessions") == 1 and hub.spawner().pending is None)
    await start(hub)
    await ready(hub)
    assert service.sessions["s-1"]["request"]["options"] == {}


# --- restarts of the Hub


async def test_a_restarted_hub_finds_its_servers(tmp_path: Path, service: FakeService, hub: Hub) -> None:
    await start(hub, {})
    await start(hub, {}, server="two")
    first, second = await ready(hub), await ready(hub, "two")
    service.sessions[second.session_id]["phase"] = "stopped"
    launch = first.launch
    await hub.down()
    again = await Hub(tmp_path, service).up()
    spawner = await ready(again)
    assert (spawner.session_id, spawner.launch) == ("s-1", launch)
    assert "two" not in again.app.users["alice"].spawners or not again.spawner(server="two").active
    assert await stop(again) == 204
    await again.down()


async def test_a_hub_that_dies_during_a_start_finds_the_session(tmp_path: Path, service: FakeService, hub: Hub) -> None:
    service.auto_start = False
    await start(hub, {})
    await until(lambda: "s-1" in service.sessions)
    assert not hub.spawner().orm_spawner.state
    future = hub.spawner()._spawn_future
    await hub.down()
    service.sessions["s-1"]["phase"] = "running"
    again = await Hub(tmp_path, service).up()
    spawner = await ready(again)
    assert spawner.session_id == "s-1"
    await again.down()
    future.cancel()


async def test_poll_before_anything(hub: Hub, service: FakeService) -> None:
    spawner = hub.app.users["alice"].spawner
    assert await spawner.poll() == 0


async def test_get_url_never_raises(hub: Hub, service: FakeService) -> None:
    spawner = hub.app.users["alice"].spawner
    assert await spawner.get_url() == service.url + "/"
    service.down()
    assert await spawner.get_url() == service.url + "/"


def test_start_error_escapes_and_cuts() -> None:
    error = StartError(500, "100 % <x>", "do `<y>`", "\n".join(f"<line {i}>" for i in range(100)))
    shown = error.jupyterhub_html_message
    assert "<x>" not in shown
    assert "<br>Do <code>&lt;y&gt;</code>.<code class" in shown
    assert shown.count("&lt;line") == 40
    assert str(error).startswith("100 % <x>. Do `<y>`.\nThe end of its log:\n<line 60>")
    assert error.get_message() == "100 % <x>. Do `<y>`."


async def test_many_at_once(hub: Hub, service: FakeService) -> None:
    async with hub.api() as api:
        names = [f"u{i}" for i in range(20)]
        (await api.post("/users", json={"usernames": names})).raise_for_status()
    service.auto_start = False
    await asyncio.gather(*(start(hub, {}, user=name) for name in names))
    await until(lambda: len(service.sessions) == 20)
    for session in service.sessions.values():
        session["phase"] = "running"
    await until(lambda: all(hub.app.users[name].spawners[""].ready for name in names), 20)


async def test_a_storm_of_polls(hub: Hub, service: FakeService) -> None:
    await start(hub, {})
    spawner = await ready(hub)
    service.auto_start = False
    async with hub.api() as api:
        (await api.post("/users/bob")).raise_for_status()
    await start(hub, {}, user="bob")
    await until(lambda: service.count("GET", "/wait") > 0)
    service.asked.clear()
    service.peak = 0
    service.fail("GET /api/v1/sessions/s-1", *[0.02] * 60)
    assert await asyncio.gather(*(spawner.poll() for _ in range(200))) == [None] * 200
    assert 1 < service.peak <= BRISK + 1  # bob's wait is beside the line, not in it
    # On a slow machine the start of bob is given up meanwhile.
    asked = {path for _, path in service.asked if "/s-2" not in path}
    assert asked == {"/api/v1/sessions/s-1"}


async def test_a_line_that_does_not_move(service: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slipway._async._LINE", 0.2)
    service.fail("/me", *[1.0] * BRISK)
    asked = AsyncService(service.url, lambda: TOKEN)
    answers = await asyncio.gather(*(asked.json("GET", "/me") for _ in range(BRISK + 1)), return_exceptions=True)
    assert isinstance(answers[-1], UnavailableError)
    assert answers[0] == {"user": "alice", "hub": "main", "admin": False, "session": "s-self"}
    assert await asked.json("GET", "/me")  # the slots are free again


# --- TLS to the service


async def test_tls(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    service = FakeService(tmp_path, tls=context)
    try:
        trusting = AsyncService(service.url, lambda: TOKEN, ca_file=str(certificate[0]))
        assert (await trusting.json("GET", "/me"))["user"] == "alice"
        with pytest.raises(UnavailableError, match="CERTIFICATE_VERIFY_FAILED"):
            await AsyncService(service.url, lambda: TOKEN).json("GET", "/me")
        with pytest.raises(InvalidError, match="No such file"):
            await AsyncService(service.url, lambda: TOKEN, ca_file=str(tmp_path / "none.pem")).json("GET", "/me")
        with pytest.raises(InvalidError, match="fake"):
            await AsyncService(service.url, lambda: TOKEN, ca_file=fake.__file__).json("GET", "/me")
    finally:
        service.down()


def test_the_hub_answers(service: FakeService) -> None:
    assert httpx.get(service.url + "/user/alice/api").status_code == 200
