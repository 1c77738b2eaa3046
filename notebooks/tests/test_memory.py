"""A kernel that is killed for want of memory, in a real Jupyter Server; and what the kernel of the host counts."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import httpx
import pytest
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

from fake import FakeService
from ports import free_port
from slipway import _memory
from test_server import TOKEN, token, up


def group(directory: Path, *, kills: int = 0) -> Path:
    """A control group of version 2."""
    directory.mkdir(exist_ok=True)
    (directory / "memory.current").write_text(f"{900 << 20}\n")
    (directory / "memory.max").write_text(f"{1 << 30}\n")
    (directory / "memory.stat").write_text(f"anon 5\ninactive_file {100 << 20}\n")
    (directory / "memory.events").write_text(f"low 0\noom 1\noom_kill {kills}\n")
    return directory


def test_both_versions_of_control_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_memory, "GROUP", group(tmp_path / "two", kills=3))
    assert _memory.memory() == _memory.Memory(used=800 << 20, limit=1 << 30, kills=3)
    one = tmp_path / "one"
    (one / "memory").mkdir(parents=True)
    for name, text in {
        "memory.usage_in_bytes": "1000",
        "memory.limit_in_bytes": "4000",
        "memory.stat": "inactive_file 1\ntotal_inactive_file 300",
        "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1",
    }.items():
        (one / "memory" / name).write_text(text + "\n")
    monkeypatch.setattr(_memory, "GROUP", one)
    assert _memory.memory() == _memory.Memory(used=700, limit=4000, kills=1)
    (tmp_path / "two" / "memory.max").write_text("max\n")
    for unlimited in (tmp_path / "two", tmp_path / "nothing"):
        monkeypatch.setattr(_memory, "GROUP", unlimited)
        assert _memory.memory() is None
        assert _memory.figures() == {}


def test_sizes_are_as_the_service_writes_them() -> None:
    sizes = {1 << 30: "1 GiB", 1536 << 20: "1.5 GiB", 512 << 20: "512 MiB", 10: "10 B", 1 << 50: "1024 TiB"}
    assert {count: _memory.size(count) for count in sizes} == sizes


async def cell_of(base: str, kernel: str, cgroup: Path, kill: int, *, starved: bool) -> str:
    """Kill a kernel at a cell, and give what the cell shows by the time that the kernel is said to start anew."""
    address = f"ws{base.removeprefix('http')}/api/kernels/{kernel}/channels"
    socket = await websocket_connect(HTTPRequest(address, headers=token()))
    request, shown = uuid.uuid4().hex, ""
    header = {
        "msg_id": request,
        "msg_type": "execute_request",
        "username": "",
        "session": "s1",
        "date": "2026-11-23T00:00:00Z",
        "version": "5.3",
    }
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False}
    message = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}
    await socket.write_message(json.dumps(message))
    while True:
        got: dict[str, Any] = json.loads(await socket.read_message() or "{}")
        kind, content = got["header"]["msg_type"], got["content"]
        if kind == "status" and content["execution_state"] == "restarting":
            socket.close()
            return shown
        if kind != "stream" or got["parent_header"].get("msg_id") != request:
            continue
        if content["name"] == "stdout" and content["text"].strip().isdigit():
            if starved:
                group(cgroup, kills=kill)
            os.kill(int(content["text"]), signal.SIGKILL)
        else:
            shown += content["text"]


def test_the_cell_of_a_starved_kernel_says_why(tmp_path: Path) -> None:
    service, cgroup = FakeService(tmp_path), group(tmp_path / "group")
    port = free_port()
    env = {**os.environ, "JUPYTER_CONFIG_DIR": str(tmp_path), "HOME": str(tmp_path), "SLIPWAY_SOCKET": service.socket}
    env |= {"SCARCE_GROUP": str(cgroup), "PYTHONPATH": os.pathsep.join(sys.path)}
    options = [f"--port={port}", "--no-browser", "--allow-root", f"--IdentityProvider.token={TOKEN}"]
    options += ["--ServerApp.jpserver_extensions={'scarce': True}"]
    base = f"http://127.0.0.1:{port}"
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen([sys.executable, "-m", "jupyter_server", *options], env=env, stdout=log, stderr=log)
    try:
        http = up(httpx.Client(base_url=base, timeout=60))
        assert http.get("/slipway/memory", headers=token()).json() == {"used": 800 << 20, "limit": 1 << 30, "kills": 0}
        assert httpx.get(f"{base}/slipway/memory").status_code == 403
        for starved in (False, True):  # what somebody has killed was not for want of memory
            kernel = (
                http.post("/api/kernels", headers=token(), json={"name": "python3"}).raise_for_status().json()["id"]
            )
            shown = asyncio.run(asyncio.wait_for(cell_of(base, kernel, cgroup, 1, starved=starved), 120))
            assert ("needed more than its 1 GiB" in shown) == starved, (tmp_path / "log").read_text()
    finally:
        server.kill()  # it may wait for a kernel
        server.wait()
        service.down()
