"""Start a server through a Hub, time it, and take it away again: with Slipway and with DockerSpawner.

All times are of this machine's clock, so those of the Hub, the service, the engine and the server
can be subtracted from each other.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import httpx

from containers import Container, docker, moment, process_began, session_container
from jupyterapi import CheckError, Hub

USER = "bench"
RUNNING = re.compile(r"\[I (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}) [^\]]*\].* is running at:")


@dataclass
class Times:
    """Seconds of one start, by part; the parts of `PARTS` add up to `total`."""

    total: float
    parts: dict[str, float]
    own: dict[str, float]
    api: float
    cpu: float


PARTS = (
    "Hub before `start()`",
    "before the container",
    "create + start",
    "server boot",
    "until the Hub knows",
    "first /lab",
)


class Spawner(Protocol):
    """One of the two ways to start a server."""

    name: str
    hub: Hub

    async def container(self) -> Container:
        """Give the container of the running server."""

    async def called(self) -> float:
        """Tell when start() was called, or its request arrived."""

    async def log(self) -> str:
        """Give the server's output."""

    async def own(self, container: Container, running: float) -> dict[str, float]:
        """Tell the service's own share of the start, by part."""

    async def discard(self) -> None:
        """Remove what is left of the stopped server."""


class Slipway:
    """A Hub with SlipwaySpawner, and the service behind it."""

    name = "SlipwaySpawner"

    def __init__(self, hub: Hub, service: str, token: str) -> None:
        self.hub = hub
        headers = {"Authorization": f"Bearer {token}"}
        self._http = httpx.AsyncClient(base_url=f"{service}/api/v1", headers=headers, timeout=60, trust_env=False)

    async def _session(self) -> dict[str, Any]:
        answer = await self._http.get("/sessions", params={"user": USER, "name": ""})
        found: list[dict[str, Any]] = answer.raise_for_status().json()["sessions"]
        return found[0]

    async def _events(self) -> dict[str, float]:
        """Give the times of the last start's events, by their messages."""
        session = await self._session()
        path, launch = f"/sessions/{session['id']}/events", {"launch": session["launch"]}
        body = (await self._http.get(path, params=launch)).raise_for_status().text
        events = [json.loads(line.removeprefix("data: ")) for line in body.splitlines() if line.startswith("data: ")]
        return {event["message"]: moment(event["time"]) for event in events}

    async def container(self) -> Container:
        """Give the container of the session."""
        return session_container((await self._session())["id"])

    async def called(self) -> float:
        """Tell when the service took the request: its first event."""
        return min((await self._events()).values())

    async def log(self) -> str:
        """Give the app's output, which the agent keeps."""
        path = f"/sessions/{(await self._session())['id']}/log"
        return (await self._http.get(path, params={"tail": 1000})).raise_for_status().text

    async def own(self, container: Container, running: float) -> dict[str, float]:
        """Give what is neither the engine's create and start nor the app's way from exec to its listening."""
        events = await self._events()
        asked, ready = min(events.values()), max(events.values())
        executed = min(process_began(pid) for pid in container.children())
        return {
            "request to create": container.created - asked,
            "started to exec": executed - container.started,
            "listening to ready": ready - running,
        }

    async def discard(self) -> None:
        """Remove the kept changes, so that the next start makes a container anew."""
        (await self._http.delete("/sessions", params={"user": USER, "name": ""})).raise_for_status()


class Docker:
    """A Hub with DockerSpawner."""

    name = "DockerSpawner"

    def __init__(self, hub: Hub, directory: Path) -> None:
        self.hub = hub
        self._container = directory.parent.name
        self._stamp = directory / "start-called"

    async def container(self) -> Container:
        """Give the container of the server."""
        return Container(self._container)

    async def called(self) -> float:
        """Tell when the Hub called start(): its hook notes it."""
        return float(self._stamp.read_text())

    async def log(self) -> str:
        """Give the server's output."""
        return docker("logs", "--tail", "1000", self._container)

    async def own(self, container: Container, running: float) -> dict[str, float]:
        """Give nothing: there is no service."""
        return {}

    async def discard(self) -> None:
        """Do nothing: DockerSpawner has removed the container."""


async def timed_start(spawner: Spawner, token: str) -> Times:
    """Start the server, wait for the first 200 of /lab through the Hub's proxy, and tell what it took."""
    url, headers = f"{spawner.hub.url}/user/{USER}", {"Authorization": f"token {token}"}
    async with httpx.AsyncClient(timeout=60, trust_env=False, headers=headers) as browser:
        asked = time.time()
        answer = await spawner.hub.api("POST", f"/users/{USER}/server", {})
        if answer.status_code == 202:  # the Hub answers after 10 s at the latest
            async for event in spawner.hub.progress(f"/users/{USER}/server"):
                if event.get("failed"):
                    raise CheckError(f"{spawner.name}: {event.get('message')}")
        known = time.time()
        await expect_page(browser, f"{url}/api")
        api = time.time()
        await expect_page(browser, f"{url}/lab")
        lab = time.time()
    container = await spawner.container()
    cpu = container.cpu()
    called, running = await spawner.called(), running_since(await spawner.log())
    marks = [asked, called, container.created, container.started, running, known, lab]
    parts = {part: after - before for part, (before, after) in zip(PARTS, pairwise(marks), strict=True)}
    return Times(lab - asked, parts, await spawner.own(container, running), api - asked, cpu)


async def expect_page(browser: httpx.AsyncClient, url: str) -> None:
    """Fetch a page, which must be there."""
    page = await browser.get(url)
    if page.status_code != 200:
        raise CheckError(f"{url}: {page.status_code}")


def running_since(log: str) -> float:
    """Find when the server said that it listens."""
    found = RUNNING.findall(log)
    if not found:
        raise CheckError(f"the server's log does not say that it is running:\n{log[-2000:]}")
    return datetime.fromisoformat(f"{found[-1]}+00:00").timestamp()


async def take_away(spawner: Spawner) -> None:
    """Stop the server and discard what is left of it."""
    await spawner.hub.api("DELETE", f"/users/{USER}/server", allow=(404,))
    deadline = time.monotonic() + 60
    while True:
        user = (await spawner.hub.api("GET", f"/users/{USER}")).json()
        if not user.get("server") and not user.get("pending"):
            break
        if time.monotonic() > deadline:
            raise CheckError(f"{spawner.name}: the server does not stop")
        await asyncio.sleep(0.1)
    await spawner.discard()


async def make_user(hub: Hub) -> str:
    """Make the user and give a token of hers."""
    await hub.api("POST", f"/users/{USER}", allow=(409,))
    answer = await hub.api("POST", f"/users/{USER}/tokens", {"note": "bench", "expires_in": 7200})
    token: str = answer.json()["token"]
    return token
