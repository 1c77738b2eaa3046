"""Many sessions started at once: SlipwaySpawner and DockerSpawner in turns. Run by ``many``."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx

from containers import docker, session_container
from jupyterapi import CheckError, Hub
from machine import heading, machine, spread, table


@dataclass
class Round:
    """What one round gave: each user's seconds from the POSTs to the first 200 of her server, and what was left."""

    ready: list[float]
    stopped: float
    left: list[str]

    @property
    def total(self) -> float:
        """The seconds until all were ready."""
        return max(self.ready)


class Side:
    """A Hub and how its containers are found."""

    def __init__(self, name: str, hub: Hub, marks: Sequence[str]) -> None:
        self.name, self.hub, self._marks = name, hub, marks

    def containers(self) -> list[str]:
        """Give the ids of all containers of this side."""
        filters = [word for mark in self._marks for word in ("--filter", mark)]
        return docker("ps", "--all", "--quiet", "--no-trunc", *filters).split()

    async def discard(self, users: Sequence[str]) -> None:
        """Remove what stopped servers keep: DockerSpawner keeps nothing."""


class Slipway(Side):
    """The demo's Hub."""

    def __init__(self, hub: Hub, service: str, token: str) -> None:
        super().__init__("SlipwaySpawner", hub, [])
        headers = {"Authorization": f"Bearer {token}"}
        self._http = httpx.AsyncClient(base_url=f"{service}/api/v1", headers=headers, timeout=120, trust_env=False)

    def belong(self, instance: str) -> None:
        """Learn the label of this service's containers."""
        self._marks = [f"label=slipway.instance={instance}"]

    async def session(self, user: str) -> str:
        """Give the id of a user's session."""
        answer = await self._http.get("/sessions", params={"user": user, "name": ""})
        return str(answer.raise_for_status().json()["sessions"][0]["id"])

    async def discard(self, users: Sequence[str]) -> None:
        """Remove the kept changes."""
        for user in users:
            (await self._http.delete("/sessions", params={"user": user, "name": ""})).raise_for_status()


def arguments() -> argparse.Namespace:
    """Read the command line, most of which ``many`` writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    actions = parser.add_subparsers(dest="action", required=True)
    learn, measure = actions.add_parser("learn"), actions.add_parser("measure")
    for action in (learn, measure):
        action.add_argument("--hub", required=True)
        action.add_argument("--service", required=True)
        action.add_argument("--secrets", required=True, type=Path)
        action.add_argument("--users", type=int, default=20)
        action.add_argument("--rounds", type=int, default=2)
        action.add_argument("--json", type=Path, help="write all single values there")
    learn.add_argument("--container", required=True, type=Path)
    learn.add_argument("--homes", required=True, type=Path)
    measure.add_argument("--docker-hub", required=True)
    measure.add_argument("--work", required=True, type=Path)
    return parser.parse_args()


def names(count: int) -> list[str]:
    """Give the users."""
    return [f"many{number:02}" for number in range(count)]


async def learn(slipway: Slipway, given: argparse.Namespace) -> None:
    """Start one session and write down what DockerSpawner's containers are to have too."""
    user = "learner"
    await make_user(slipway.hub, user)
    await start(slipway.hub, user)
    facts = session_container(await slipway.session(user)).facts
    host, variables = facts["HostConfig"], dict(pair.split("=", 1) for pair in facts["Config"]["Env"])
    await stop(slipway.hub, user)
    await slipway.discard([user])
    for name in names(given.users):
        home = given.homes / name
        home.mkdir(parents=True)
        shutil.chown(home, *(int(number) for number in facts["Config"]["User"].split(":")))
    like = {
        "name": given.container.parent.name + "-{username}",
        "image": facts["Config"]["Image"],
        "user": facts["Config"]["User"],
        "memory": host["Memory"],
        "nano_cpus": host["NanoCpus"],
        "pids": host["PidsLimit"],
        "home": variables["HOME"],
        "home_source": str(given.homes) + "/{username}",
        "gateway": facts["NetworkSettings"]["Networks"]["bridge"]["Gateway"],
        "instance": facts["Config"]["Labels"]["slipway.instance"],
    }
    given.container.write_text(json.dumps(like))


async def make_user(hub: Hub, user: str) -> str:
    """Make a user and give a token of hers."""
    await hub.api("POST", f"/users/{user}", allow=(409,))
    answer = await hub.api("POST", f"/users/{user}/tokens", {"note": "bench", "expires_in": 7200})
    return str(answer.json()["token"])


async def start(hub: Hub, user: str) -> None:
    """Start a user's server and wait until the Hub says that it is ready."""
    answer = await hub.api("POST", f"/users/{user}/server", {})
    if answer.status_code == httpx.codes.ACCEPTED:  # the Hub answers after 10 s at the latest
        async for event in hub.progress(f"/users/{user}/server"):
            if event.get("failed"):
                raise CheckError(f"{user}: {event.get('message')}")


async def stop(hub: Hub, user: str) -> None:
    """Stop a user's server and wait until it is gone."""
    await hub.api("DELETE", f"/users/{user}/server", allow=(404,))
    deadline = time.monotonic() + 120
    while True:
        now = (await hub.api("GET", f"/users/{user}")).json()
        if not now.get("server") and not now.get("pending"):
            return
        if time.monotonic() > deadline:
            raise CheckError(f"{user}: the server does not stop")
        await asyncio.sleep(0.2)


async def at_once(side: Side, tokens: dict[str, str]) -> Round:
    """Start a server for each user at the same moment, then take all of them away."""
    users = list(tokens)
    asked = time.monotonic()

    async def one(user: str) -> float:
        await start(side.hub, user)
        headers = {"Authorization": f"token {tokens[user]}"}
        async with httpx.AsyncClient(timeout=60, trust_env=False, headers=headers) as browser:
            page = await browser.get(f"{side.hub.url}/user/{user}/api")
        if page.status_code != httpx.codes.OK:
            raise CheckError(f"{side.name}: {user}: {page.status_code}")
        return time.monotonic() - asked

    ready = await asyncio.gather(*(one(user) for user in users))
    running = side.containers()
    if len(running) != len(users):
        raise CheckError(f"{side.name}: {len(running)} containers for {len(users)} users")
    trees = [facts["GraphDriver"]["Data"]["MergedDir"] for facts in json.loads(docker("inspect", *running))]
    stopping = time.monotonic()
    await asyncio.gather(*(stop(side.hub, user) for user in users))
    took = time.monotonic() - stopping
    await side.discard(users)
    return Round(ready, took, await remains(side, running, trees))


async def remains(side: Side, containers: Sequence[str], trees: Sequence[str]) -> list[str]:
    """Look for what is left of the containers, for half a minute: what goes by then is no leak."""
    for _ in range(60):
        if not found(side, containers, trees):
            break
        await asyncio.sleep(0.5)
    return found(side, containers, trees)


def found(side: Side, containers: Sequence[str], trees: Sequence[str]) -> list[str]:
    """Give the containers, mounts and control groups that are there of these."""
    mounts = Path("/proc/self/mountinfo").read_text()
    groups = {name for _, names, _ in os.walk("/sys/fs/cgroup") for name in names}
    left = [f"container {name}" for name in side.containers()]
    left += [f"mount {word}" for word in [*containers, *trees] if word in mounts]
    return left + [f"control group {group}" for group in groups if any(name in group for name in containers)]


async def measure(sides: Sequence[Side], users: Sequence[str], rounds: int) -> dict[str, list[Round]]:
    """Take turns."""
    tokens = {side.name: {user: await make_user(side.hub, user) for user in users} for side in sides}
    got: dict[str, list[Round]] = {side.name: [] for side in sides}
    for number in range(rounds):
        for side in sides if number % 2 == 0 else reversed(sides):
            result = await at_once(side, tokens[side.name])
            got[side.name].append(result)
            print(f"round {number}: {side.name} {result.total:.1f} s, left {result.left}", file=sys.stderr, flush=True)
            await asyncio.sleep(2)
    return got


def report(got: dict[str, list[Round]]) -> str:
    """Give the table: of each round, and of all sessions of all rounds."""
    columns = list(got.values())
    every = [[seconds for result in rounds for seconds in result.ready] for rounds in columns]
    left = [str(sum(len(result.left) for result in rounds)) for rounds in columns]
    totals = [", ".join(f"{result.total:.1f}" for result in rounds) for rounds in columns]
    rows = [
        ["**until all were ready**, by round", *totals],
        ["one session: median", *(f"{statistics.median(values):.1f}" for values in every)],
        ["one session: first and last", *(f"{min(values):.1f} and {max(values):.1f}" for values in every)],
        ["until all had stopped", *(spread((result.stopped for result in rounds), ".1f") for rounds in columns)],
        ["containers, mounts, control groups left", *left],
    ]
    return table(["seconds", *got], rows)


async def main() -> int:
    """Do what the arguments say."""
    given = arguments()
    token = (given.secrets / "check-token").read_text().strip()
    async with Hub(given.hub, token) as hub:
        slipway = Slipway(hub, given.service, (given.secrets / "spawner-token").read_text().strip())
        if given.action == "learn":
            await learn(slipway, given)
            return 0
        like = json.loads((given.work / "container.json").read_text())
        slipway.belong(like["instance"])
        about = machine()
        async with Hub(given.docker_hub, token) as other:
            sides = (slipway, Side("DockerSpawner", other, [f"name=^/{given.work.name}-"]))
            got = await measure(sides, names(given.users), given.rounds)
    print(heading(f"many: {given.users} at once", about, os.getloadavg()[0]))
    print(report(got))
    if given.json:
        rows = {name: [asdict(result) for result in rounds] for name, rounds in got.items()}
        given.json.write_text(json.dumps({"machine": about, "rounds": rows}, indent=1))
    return 1 if any(result.left for rounds in got.values() for result in rounds) else 0


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main()))
    except (CheckError, httpx.HTTPError, LookupError) as error:
        sys.exit(f"many: {type(error).__name__}: {error}")
