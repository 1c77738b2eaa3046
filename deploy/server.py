"""A user's server at the Hub, as check.py starts, uses and stops it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import httpx

from jupyterapi import CheckError, Hub, Kernel, Lab
from steps import expect, show


class Server:
    """The one without a name, or a named one."""

    def __init__(self, hub: Hub, user: str, name: str = "") -> None:
        self._hub = hub
        self._user = user
        self._name = name
        self._path = f"/users/{user}/servers/{name}" if name else f"/users/{user}/server"
        self.token = ""  # of the user's
        self.opened = datetime.now(UTC)  # when JupyterLab was last opened
        self.told: list[str] = []  # what the last start's progress said

    @property
    def lab(self) -> Lab:
        """Its JupyterLab."""
        return Lab(f"{self._hub.url}/user/{self._user}" + f"/{self._name}" * bool(self._name), self.token)

    async def start(self, profile: str = "small") -> None:
        """Start with options, follow the progress, and open JupyterLab."""
        begun = time.monotonic()
        # It answers when the server is ready, or after 10 s: the progress is followed meanwhile.
        asked = asyncio.create_task(self._hub.api("POST", self._path, {"profile": profile, "cpus": "1"}))
        last = await self._follow(asked)
        await asked
        expect(last.get("ready"), f"the start failed: {last.get('message')}")
        self.opened = datetime.now(UTC)
        page = await self.lab.get("/lab")
        expect(page.status_code == 200, f"/lab answers {page.status_code}")
        show(f"{time.monotonic() - begun:5.1f} s  /lab answers {page.status_code}, {len(page.content)} bytes")

    async def _follow(self, asked: asyncio.Task[httpx.Response]) -> dict[str, Any]:
        """Print the Hub's progress events and give the last one."""
        begun, last = time.monotonic(), dict[str, Any]()
        self.told = []
        while not last:
            try:
                async for event in self._hub.progress(self._path):
                    last = dict(event)
                    self.told.append(str(last.get("message", "")))
                    percent = f"{last['progress']:3.0f} %" if "progress" in last else ""
                    show(f"{time.monotonic() - begun:5.1f} s  {percent:5}  {self.told[-1]}")
            except CheckError:  # not spawning yet, or refused: then the request itself says why
                if asked.done():
                    await asked
                if time.monotonic() - begun > 10:
                    raise
                await asyncio.sleep(0.01)
        return last

    @contextlib.asynccontextmanager
    async def kernel(self) -> AsyncIterator[Kernel]:
        """Start a kernel in the running server."""
        kernel = await self.lab.kernel(show)
        try:
            yield kernel
        finally:
            kernel.close()

    async def stop(self) -> None:
        """Stop the server and wait until the Hub says that it is stopped."""
        await self._hub.api("DELETE", self._path, allow=(404,))
        deadline = time.monotonic() + 120
        while True:
            user = (await self._hub.api("GET", f"/users/{self._user}")).json()
            mine = user["servers"].get(self._name, {})
            if not mine.get("ready") and not mine.get("pending"):
                return
            expect(time.monotonic() < deadline, f"the server is still there: {mine.get('pending')}")
            await asyncio.sleep(0.2)

    async def remove(self) -> None:
        """Stop a named server, and discard it with its changes."""
        await self.stop()
        await self._hub.api("DELETE", self._path, {"remove": True}, allow=(404,))
