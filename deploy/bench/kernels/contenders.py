"""What is measured: each contender as it is reached, and the processes that are its service."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from aiohttp import web
from client import V1, Gateway

TOKEN = "token-of-bench"  # noqa: S105 # of the Hub that is played here
TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Contender:
    """A gateway in one framing, with the processes that carry its messages."""

    name: str
    gateway: Gateway
    framing: str = ""
    services: Sequence[int] = field(default=())

    def cpu(self) -> float:
        """Give the seconds of processor time of its services."""
        return sum(map(cpu, self.services))

    def resident(self) -> float:
        """Give the resident megabytes of its services."""
        return sum(map(resident, self.services))


def cpu(process: int) -> float:
    """Give the seconds of processor time that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def resident(process: int) -> float:
    """Give a process's resident megabytes."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * PAGE / 1e6


def agents(service: int) -> list[int]:
    """Give the processes of Slipway's agents: those of its program that are not the service."""
    program, found = os.stat(f"/proc/{service}/exe").st_ino, []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != service:
            try:
                if os.stat(entry / "exe").st_ino == program and b"agent" in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


async def play_hub(port: int) -> web.AppRunner:
    """Play the Hub that Slipway asks who is calling: it knows one user, by her token."""

    async def user(request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != f"token {TOKEN}":
            raise web.HTTPForbidden
        return web.json_response(
            {"kind": "user", "name": "bench", "admin": False, "scopes": ["access:services!service=slipway"]}
        )

    app = web.Application()
    app.router.add_get("/hub/api/user", user)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    return runner


async def answers(http: aiohttp.ClientSession, url: str, seconds: float = 90) -> None:
    """Wait until a server answers."""
    for _ in range(int(seconds / 0.2)):
        try:
            async with http.get(url) as answer:
                if answer.status == 200:
                    return
        except aiohttp.ClientError:
            pass
        await asyncio.sleep(0.2)
    raise TimeoutError(f"{url} does not answer within {seconds:.0f} s")


def all_of(ports: dict[str, int], processes: dict[str, int], *, pooled: bool) -> dict[str, Contender]:
    """Give the contenders by their names."""

    def at(name: str, path: str = "", token: str = "", kernel: str = "") -> Gateway:
        return Gateway(f"http://127.0.0.1:{ports[name]}{path}", token, kernel)

    slipway, plain, enterprise = (processes[name] for name in ("slipway", "plain", "enterprise"))
    over_slipway, over_enterprise = processes["over-slipway"], processes["over-enterprise"]
    gateway = at("slipway", "/kernels", TOKEN, "python")
    some = [
        Contender("Jupyter Server", at("plain"), "", [plain]),
        Contender("Jupyter Server, v1", at("plain"), V1, [plain]),
        Contender("Slipway", gateway, "", [slipway]),
        Contender("Slipway, v1", gateway, V1, [slipway]),
        Contender("Enterprise Gateway", at("enterprise", kernel="python3"), "", [enterprise]),
        Contender("Jupyter Server over Slipway", at("over-slipway", kernel="python"), "", [over_slipway, slipway]),
        Contender("Jupyter Server over Enterprise Gateway", at("over-enterprise", kernel="python3"), "",
                  [over_enterprise, enterprise]),
    ]  # fmt: skip
    if pooled:
        some.append(Contender("Slipway, standing by", at("slipway", "/kernels", TOKEN, "pooled"), "", [slipway]))
    return {c.name: c for c in some}
