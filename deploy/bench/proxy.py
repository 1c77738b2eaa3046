"""What the session proxy costs, against a direct connection to the same server. Run by ``proxy``."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from containers import Container, process_cpu, session_container
from jupyterapi import CheckError, Hub
from machine import heading, machine, spread, table
from starts import USER, Slipway, make_user, take_away

DIRECT, PROXIED, HUB = "direct", "Slipway's port", "the Hub's proxy"
ROUTES = (DIRECT, PROXIED, HUB)
BLOB = 1_000_000_000


@dataclass
class App:
    """A server in a session, and how it is reached by each route."""

    name: str
    prefix: str
    small: str
    large: str
    container: Container
    token: str = ""
    urls: dict[str, str] = field(default_factory=dict)
    results: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    cpu: dict[tuple[str, str], list[float]] = field(default_factory=dict)

    def processes(self) -> dict[str, int]:
        """Give the processes of the session that a request passes."""
        return {"app": self.container.children()[0], "agent": self.container.pid}

    def address(self) -> str:
        """Give the address, inside the container, of the app, from the environment that the agent gave it."""
        for pair in Path(f"/proc/{self.processes()['app']}/environ").read_text().split("\0"):
            name, _, value = pair.partition("=")
            if name == "JUPYTERHUB_SERVICE_URL":
                return value.removesuffix(self.prefix)
        raise LookupError(f"{self.name} has no JUPYTERHUB_SERVICE_URL")


class Bench:
    """The two apps, and the measurements on them."""

    def __init__(self, given: argparse.Namespace, slipway: Slipway) -> None:
        self.given = given
        self.slipway = slipway
        headers = {"Authorization": f"Bearer {secret(given, 'spawner-token')}"}
        self.service = httpx.AsyncClient(
            base_url=f"{given.service}/api/v1", headers=headers, timeout=60, trust_env=False
        )

    async def lab(self) -> App:
        """Start JupyterLab through the Hub, and put the large file into its home."""
        token = await make_user(self.slipway.hub)
        await self.slipway.hub.api("POST", f"/users/{USER}/server", {"cpus": str(os.cpu_count())})
        home = self.home()
        with (home / "blob").open("wb") as file:
            piece = os.urandom(1_000_000)
            for _ in range(BLOB // len(piece)):
                file.write(piece)
        shutil.chown(home / "blob", home.stat().st_uid, home.stat().st_gid)
        prefix, container = f"/user/{USER}/", await self.slipway.container()
        return self.reach(App("JupyterLab", prefix, "api", "files/blob", container, token))

    async def program(self) -> App:
        """Start the Go program as a session of its own, without the Hub."""
        shutil.copy(self.given.load, self.home() / "load")
        (self.home() / "load").chmod(0o755)
        prefix = f"/user/{USER}/load/"
        body = {
            "user": USER,
            "server_name": "load",
            "launch": uuid.uuid4().hex,
            "prefix": prefix,
            "env": {"JUPYTERHUB_SERVICE_PREFIX": prefix},
            "argv": ["./load", "serve"],
            "options": {"cpus": str(os.cpu_count())},
        }
        session = answer(await self.service.post("/sessions", json=body))
        while session["phase"] != "running":
            if session["outcome"]:
                raise CheckError(f"the session of the Go program: {session['outcome']}")
            session = answer(await self.service.get(f"/sessions/{session['id']}/wait", timeout=60))
        await self.route(prefix)
        return self.reach(App("Go program", prefix, "api", "blob", session_container(session["id"])))

    async def route(self, prefix: str) -> None:
        """Let the Hub's proxy send the prefix to the service, as it does for the Hub's own servers."""
        headers = {"Authorization": f"token {secret(self.given, 'proxy-token')}"}
        async with httpx.AsyncClient(headers=headers, trust_env=False) as http:
            path, body = f"{self.given.hub_proxy}/api/routes{prefix}", {"target": self.given.service}
            (await http.post(path, json=body)).raise_for_status()

    def reach(self, app: App) -> App:
        """Fill in the addresses."""
        bases = {DIRECT: app.address(), PROXIED: self.given.service, HUB: self.given.hub}
        app.urls = {route: base + app.prefix for route, base in bases.items()}
        return app

    def home(self) -> Path:
        """Give the only home of this demo's only user."""
        homes: Path = self.given.demo / "homes"
        return next(path for path in homes.iterdir() if not path.name.startswith("."))

    def service_pid(self) -> int:
        """Give the process of the service: the child of the one that holds its ports."""
        text: str = (self.given.demo / "run" / "slipway.pid").read_text()
        holder = Path("/proc") / text.split()[0] / "task"
        return int(next(pid for f in holder.glob("*/children") for pid in f.read_text().split()))

    def measure(self, app: App, route: str, what: str) -> None:
        """Measure one thing by one route."""
        url, seconds = app.urls[route], f"{self.given.seconds}s"
        argv = {
            "1 connection": ["get", "-c", "1", "-for", seconds, url + app.small],
            "16 connections": ["get", "-c", "16", "-for", seconds, url + app.small],
            "1 GB": ["download", url + app.large],
        }[what]
        inside = ["nsenter", f"--target={app.container.pid}", "--net"] if route == DIRECT else []
        env = {**os.environ, "LOAD_TOKEN": app.token}
        processes = {**app.processes(), "service": self.service_pid()}
        before = {name: process_cpu(pid) for name, pid in processes.items()}
        ran = subprocess.run([*inside, self.given.load, *argv], env=env, capture_output=True, text=True)  # noqa: S603
        if ran.returncode:
            raise CheckError(f"{app.name}, {route}, {what}: {ran.stderr.strip()}")
        found = json.loads(ran.stdout)
        if what == "1 GB" and found["bytes"] != BLOB:
            raise CheckError(f"{app.name}, {route}: {found['bytes']} bytes instead of {BLOB}")
        app.results.setdefault((what, route), []).append(found["rate"])
        if what == "1 GB":
            for name, pid in processes.items():
                app.cpu.setdefault((name, route), []).append(process_cpu(pid) - before[name])

    def run(self, apps: list[App]) -> None:
        """Go round; the first round warms up and is not kept."""
        for number in range(self.given.rounds + 1):
            for app in apps:
                if number == 1:
                    app.results.clear()
                    app.cpu.clear()
                for what in ("1 connection", "16 connections", "1 GB"):
                    for route in ROUTES if number % 2 else reversed(ROUTES):
                        self.measure(app, route, what)
            print(f"round {number} done", file=sys.stderr, flush=True)

    async def end(self) -> None:
        """Stop both and discard them."""
        await take_away(self.slipway)
        await self.service.delete("/sessions", params={"user": USER, "name": "load"})
        await self.service.aclose()


def secret(given: argparse.Namespace, name: str) -> str:
    """Read one of the demo's secrets."""
    text: str = (given.demo / "hub" / name).read_text()
    return text.strip()


def answer(response: httpx.Response) -> dict[str, Any]:
    """Give the service's answer, or raise its error."""
    if not response.is_success:
        raise CheckError(f"{response.request.url.path}: {response.status_code} {response.text}")
    body: dict[str, Any] = response.json()
    return body


def report(apps: list[App]) -> str:
    """Give the table: rates by route, and the ratios round by round."""
    rows = []
    for app in apps:
        for what in ("1 connection", "16 connections", "1 GB"):
            by_route = [app.results[what, route] for route in ROUTES]
            ratios = [
                [rate / direct for rate, direct in zip(rates, by_route[0], strict=True)] for rates in by_route[1:]
            ]
            unit = "MB/s" if what == "1 GB" else "requests/s"
            cells = [*(spread(rates, ".0f") for rates in by_route), *(spread(each) for each in ratios)]
            rows.append([f"{app.name}, {what}, {unit}", *cells])
    text = table(["median (min to max)", *ROUTES, "**Slipway's port / direct**", "the Hub's proxy / direct"], rows)
    rows = [
        [f"{app.name}, {name}", *(spread(app.cpu[name, route]) for route in (DIRECT, PROXIED))]
        for app in apps
        for name in ("app", "agent", "service")
    ]
    return text + "\n" + table(["CPU seconds for 1 GB: median (min to max)", DIRECT, PROXIED], rows)


def arguments() -> argparse.Namespace:
    """Read the command line, most of which ``proxy`` writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("hub", "service", "hub-proxy", "load"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--demo", required=True, type=Path)
    parser.add_argument("--rounds", type=int, default=5, help="after one to warm up")
    parser.add_argument("--seconds", type=int, default=2, help="how long each measurement of requests lasts")
    parser.add_argument("--json", type=Path, help="write all single values there")
    return parser.parse_args()


async def main() -> int:
    """Start the apps, measure, print."""
    given = arguments()
    about = machine()
    async with Hub(given.hub, secret(given, "check-token")) as hub:
        bench = Bench(given, Slipway(hub, given.service, secret(given, "spawner-token")))
        try:
            apps = [await bench.lab(), await bench.program()]
            bench.run(apps)
        finally:
            await bench.end()
    print(heading("proxy", about, os.getloadavg()[0]))
    print(report(apps))
    if given.json:
        values = {app.name: {f"{what}, {route}": v for (what, route), v in app.results.items()} for app in apps}
        given.json.write_text(json.dumps({"machine": about, "values": values}, indent=1))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main()))
    except (CheckError, httpx.HTTPError, LookupError) as error:
        sys.exit(f"proxy: {type(error).__name__}: {error}")
