"""The Spawner in a real JupyterHub, against the fake service."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from fake import TOKEN, Drop, FakeService, Fault, unavailable
from hub import Hub
from slipway._hub import StartError, clean_options
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
    assert "the image &lt;none&gt; is not there</strong><br>choose another image<code class" in answer.text
    assert "white-space: pre-wrap" in answer.text
    assert answer.text.count("ModuleNotFoundError: &lt;b&gt;jupyterlab&lt;/b&gt;\n") == 2  # the third ends the log
    assert "<b>jupyterlab" not in answer.text
    answer = await page.get("/hub/spawn-pending/alice")  # the page of the latest failure
    assert "<strong>the image &lt;none&gt; is not there</strong><br>choose another image<code class" in answer.text
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
    assert last["message"] == "Spawn failed: cpus: 99 is too many. at most 2"
    assert service.stopped_calls == []


async def test_a_start_that_is_too_slow_says_what_it_waits_for(hub: Hub, service: FakeService) -> None:
    service.auto_start = False
    await start(hub, {})
    await until(lambda: hub.spawner().pending is None, 15)
    last = (await progress(hub))[-1]
    assert "still starting after 8 s: for a slice" in last["message"]
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
    assert service.count("POST", "/api/v1/sessions") >= 3  # also after a wait that broke: the service may be a new one
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
    error = StartError(500, "100 % <x>", "do <y>", "\n".join(f"<line {i}>" for i in range(100)))
    shown = error.jupyterhub_html_message
    assert "<x>" not in shown
    assert "<y>" not in shown
    assert shown.count("&lt;line") == 40
    assert str(error).startswith("100 % <x>. do <y>\nThe end of its log:\n<line 60>")
    assert error.get_message() == "100 % <x>. do <y>"


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


def test_the_hub_answers(service: FakeService) -> None:
    assert httpx.get(service.url + "/user/alice/api").status_code == 200
