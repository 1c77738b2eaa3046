"""The extension of Jupyter Server in a real one, against the fake service behind a session's socket."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from fake import FakeService, Fault
from ports import free_port
from slipway import Client, Target
from slipway._transport import ServerEvent, read_events

TOKEN = "jupyter-0123"


def serve(directory: Path, session_socket: str) -> tuple[subprocess.Popen[bytes], httpx.Client]:
    port = free_port()
    env = {**os.environ, "JUPYTER_CONFIG_DIR": str(directory), "HOME": str(directory), "SLIPWAY_SOCKET": session_socket}
    options = [f"--port={port}", "--no-browser", "--allow-root", f"--IdentityProvider.token={TOKEN}"]
    options += ["--ServerApp.base_url=/user/a/", "--ServerApp.jpserver_extensions={'slipway._server': True}"]
    with (directory / "log").open("wb") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "jupyter_server", *options], env=env, cwd=directory, stdout=log, stderr=log
        )
    return server, httpx.Client(base_url=f"http://127.0.0.1:{port}/user/a", timeout=20)


def up(http: httpx.Client) -> httpx.Client:
    for _ in range(300):
        try:
            http.get("/api").raise_for_status()
        except httpx.HTTPError:
            time.sleep(0.1)
        else:
            return http
    raise AssertionError("Jupyter Server does not answer")


def token() -> dict[str, str]:
    return {"Authorization": f"token {TOKEN}"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[FakeService, httpx.Client]]:
    directory = tmp_path_factory.mktemp("s")
    service = FakeService(directory)
    server, http = serve(directory, service.socket)
    try:
        yield service, up(http)
    finally:
        server.terminate()
        server.wait()
        service.down()


@pytest.fixture
def http(place: tuple[FakeService, httpx.Client]) -> httpx.Client:
    place[1].cookies.clear()
    return place[1]


@pytest.fixture
def service(place: tuple[FakeService, httpx.Client]) -> FakeService:
    service = place[0]
    stops = {"at": "2026-11-21T14:32:00Z", "why": "idle for 1 h 50 min", "can_keep": True, "max_keep": "24h0m0s"}
    service.sessions["s-self"] = {"id": "s-self", "phase": "running", "stops": stops}
    service.asked.clear()
    return service


def test_the_session_as_the_service_sees_it(http: httpx.Client, service: FakeService) -> None:
    doc = http.get("/slipway/session", headers=token()).raise_for_status().json()
    assert doc["stops"]["why"] == "idle for 1 h 50 min"
    assert doc["now"].endswith("+00:00")
    assert doc["vscode"] is False  # no code-server here
    assert service.asked == [("GET", "/api/v1/sessions/self")]


def test_the_sessions_own_kernel_is_called_so(http: httpx.Client) -> None:
    specs = http.get("/api/kernelspecs", headers=token()).raise_for_status().json()
    assert specs["default"] == "python3"
    assert specs["kernelspecs"]["python3"]["spec"]["display_name"] == "Python 3 (this session)"
    one = http.get("/api/kernelspecs/python3", headers=token()).raise_for_status().json()
    assert one["spec"]["display_name"] == "Python 3 (this session)"


def test_looking_is_no_activity(http: httpx.Client, service: FakeService) -> None:
    before = http.get("/api/status?no_track_activity=1", headers=token()).json()["last_activity"]
    for path in ("session", "memory", "api/jobs?points=no"):
        http.get(f"/slipway/{path}", headers=token()).raise_for_status()
    assert http.get("/api/status?no_track_activity=1", headers=token()).json()["last_activity"] == before


def test_keep(http: httpx.Client, service: FakeService) -> None:
    answer = http.post("/slipway/keep", headers=token(), json={"for": "4h"})
    assert (answer.status_code, answer.json()["keep_until"]) == (200, "2036-11-21T18:00:00Z")
    answer = http.post("/slipway/keep", headers=token(), json={"for": "99h"})
    assert (answer.status_code, answer.json()) == (422, {"message": "for: 99h: too long", "remedy": "at most 24h"})


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"for": 4}', b'{"for": ""}', b"{half"])
def test_keep_for_no_time(http: httpx.Client, service: FakeService, body: bytes) -> None:
    answer = http.post("/slipway/keep", headers=token(), content=body)
    assert answer.status_code in (400, 422)
    assert service.asked == []


def test_strangers_and_forged_requests(http: httpx.Client, service: FakeService) -> None:
    assert http.get("/slipway/session").status_code == 403
    assert http.post("/slipway/keep", json={"for": "4h"}).status_code == 403
    http.get("/api/me", params={"token": TOKEN}).raise_for_status()  # now with a cookie, as a browser
    http.get("/slipway/session").raise_for_status()
    assert http.post("/slipway/keep", json={"for": "4h"}).status_code == 403  # no XSRF header
    forged = http.post("/slipway/keep", json={"for": "4h"}, headers={"X-XSRFToken": "x"})
    assert forged.status_code == 403
    assert service.count("POST", "/keep") == 0


def test_refusals_and_faults_come_through(http: httpx.Client, service: FakeService) -> None:
    service.fail("/keep", Fault("conflict", 409, "the session does not run", remedy="start it"))
    answer = http.post("/slipway/keep", headers=token(), json={"for": "4h"})
    assert (answer.status_code, answer.json()["message"]) == (409, "the session does not run")
    service.down()
    try:
        answer = http.get("/slipway/session", headers=token())
    finally:
        service.up()
    assert answer.status_code == 503
    assert "does not answer" in answer.json()["message"]


def job_of(service: FakeService, *argv: str) -> str:
    """Have a job run to its end."""
    with Client(Target(socket=service.socket)) as client:
        job = client.submit(environment="sha256:" + "ab" * 32, argv=argv, name="fit")
        service.wait_jobs()
    service.asked.clear()
    return job.id


def test_the_panel_reads_what_it_shows(http: httpx.Client, service: FakeService) -> None:
    job = job_of(service, "echo", "6 * 7")
    listed = http.get(f"/slipway/api/jobs?points=no&token={TOKEN}").raise_for_status().json()
    assert [one["id"] for one in listed["jobs"]] == [job]
    log = http.get(f"/slipway/api/jobs/{job}/log?tail=5", headers=token()).raise_for_status()
    assert (log.text, log.headers["content-type"]) == ("6 * 7", "text/plain; charset=utf-8")
    for path in ("gpus", "environments", "environments/gpu:1/diff?from=gpu:0"):
        http.get(f"/slipway/api/{path}", headers=token()).raise_for_status()
    assert service.asked[0] == ("GET", "/api/v1/jobs?points=no")  # no token of Jupyter Server goes along
    assert service.asked[-1] == ("GET", "/api/v1/environments/gpu:1/diff?from=gpu%3A0")


def test_the_panel_changes_jobs_and_environments(http: httpx.Client, service: FakeService) -> None:
    job = job_of(service, "false")
    answer = http.post(f"/slipway/api/jobs/{job}/cancel", headers=token(), json={})
    assert (answer.status_code, answer.json()["id"]) == (202, job)
    assert (job, "cancel") in service.changes
    http.post("/slipway/api/environments/gpu:1/share", headers=token(), json={"with": "public"}).raise_for_status()
    assert service.environment_changes[-1] == ("gpu:1", "share", {"with": "public"})


@pytest.mark.parametrize(
    "path", ["credentials", "jobs/x/files", "jobs/../me", "jobs/..", "jobs/a%2Fb/log", "sessions/s-2"]
)
def test_nothing_else_is_passed_on(http: httpx.Client, service: FakeService, path: str) -> None:
    url = f"{http.base_url}slipway/api/{path}"
    assert http.get(httpx.URL(url), headers=token()).status_code == 404
    assert http.post(httpx.URL(url), headers=token(), json={}).status_code == 404
    assert service.asked == []


def test_the_panel_is_no_way_in_for_strangers(http: httpx.Client, service: FakeService) -> None:
    for path in ("api/jobs", "events"):
        assert http.get(f"/slipway/{path}").status_code == 403
    for path in ("api/sessions/self/freeze", "api/servers", "examples"):
        assert http.post(f"/slipway/{path}", json={}).status_code == 403
        http.get("/api/me", params={"token": TOKEN}).raise_for_status()  # now with a cookie, as a browser
        assert http.post(f"/slipway/{path}", json={}).status_code == 403  # no XSRF header
        http.cookies.clear()
    assert service.asked == []


def test_a_freeze_tells_its_steps(http: httpx.Client, service: FakeService) -> None:
    def frozen() -> list[ServerEvent]:
        with http.stream("POST", "/slipway/api/sessions/self/freeze", headers=token(), json={"name": "ana"}) as answer:
            assert answer.headers["content-type"] == "text/event-stream"
            return list(read_events(answer))

    assert [event.event for event in frozen()] == ["progress", "done"]
    assert service.freeze_asked == {"name": "ana"}
    service.fail("/freeze", Fault("conflict", 409, "another freeze is under way", remedy="wait for it"))
    (event,) = frozen()
    said = {"error": {"message": "another freeze is under way", "remedy": "wait for it"}}
    assert (event.event, event.json()) == ("error", said)


def test_one_stream_tells_of_all(http: httpx.Client, service: FakeService) -> None:
    jobs = [job_of(service, "true"), job_of(service, "false")]
    told: dict[str, list[object]] = {job: [] for job in jobs}
    with http.stream("GET", f"/slipway/events?job={jobs[0]}&job={jobs[1]}&scan=none", headers=token()) as answer:
        for event in read_events(answer):
            doc = event.json() or {}
            if "job" in doc:
                told[doc["job"]].append(doc["data"] and doc["data"]["message"])
            if all(None in messages for messages in told.values()):
                break  # and the stream goes on: a page opens another when there is more to follow
    assert told == {jobs[0]: ["queued", "running", "done", None], jobs[1]: ["queued", "running", "failed", None]}


@pytest.mark.parametrize("query", ["job=a/b", "scan=..", "&".join(f"job=j-{n}" for n in range(31))])
def test_what_cannot_be_followed(http: httpx.Client, service: FakeService, query: str) -> None:
    assert http.get(f"/slipway/events?{query}", headers=token()).status_code == 422
    assert service.asked == []


def test_the_examples_are_copied_once(http: httpx.Client, service: FakeService) -> None:
    doc = http.post("/slipway/examples", headers=token(), json={}).raise_for_status().json()
    assert doc == {"folder": "slipway-examples", "first": "slipway-examples/hello_grid.ipynb"}
    first = http.get(f"/api/contents/{doc['first']}", headers=token()).raise_for_status().json()
    mine = {**first["content"], "cells": []}
    put = {"type": "notebook", "format": "json", "content": mine}
    http.put(f"/api/contents/{doc['first']}", headers=token(), json=put).raise_for_status()
    http.post("/slipway/examples", headers=token(), json={}).raise_for_status()
    assert http.get(f"/api/contents/{doc['first']}", headers=token()).json()["content"]["cells"] == []
    names = {one["name"] for one in http.get("/api/contents/slipway-examples", headers=token()).json()["content"]}
    assert "repaired_scan.ipynb" in names


def test_a_slow_service_blocks_nothing_else(http: httpx.Client, service: FakeService) -> None:
    service.fail("/sessions/self", 2.0)
    ask = "import sys, urllib.request; urllib.request.urlopen(sys.argv[1])"
    slow = subprocess.Popen([sys.executable, "-c", ask, f"{http.base_url}slipway/session?token={TOKEN}"])
    while not service.asked:
        time.sleep(0.01)
    begun = time.monotonic()
    http.get("/api").raise_for_status()
    assert time.monotonic() - begun < 1
    assert slow.wait() == 0


def test_outside_a_session_there_is_nothing(tmp_path: Path) -> None:
    server, http = serve(tmp_path, str(tmp_path / "none"))
    try:
        assert up(http).get("/slipway/session", headers=token()).status_code == 404
    finally:
        server.terminate()
        server.wait()
    said = (tmp_path / "log").read_text()
    assert "slipway._server | extension was successfully loaded" in said
    assert "Traceback" not in said
