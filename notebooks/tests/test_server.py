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
    http.get("/slipway/session", headers=token()).raise_for_status()
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
