"""From the Hub's POST to JupyterLab: SlipwaySpawner and DockerSpawner side by side. Run by ``spawn``."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import os
import shutil
import sys
from pathlib import Path

import httpx

from jupyterapi import CheckError, Hub
from machine import heading, machine, spread, table
from starts import PARTS, USER, Docker, Slipway, Spawner, Times, make_user, take_away, timed_start


def arguments() -> argparse.Namespace:
    """Read the command line, most of which ``spawn`` writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    actions = parser.add_subparsers(dest="action", required=True)
    learn, measure = actions.add_parser("learn"), actions.add_parser("measure")
    for action in (learn, measure):
        action.add_argument("--hub", required=True)
        action.add_argument("--service", required=True)
        action.add_argument("--secrets", required=True, type=Path)
    learn.add_argument("--container", required=True, type=Path)
    learn.add_argument("--home", required=True, type=Path)
    measure.add_argument("--docker-hub", required=True)
    measure.add_argument("--docker-hub-dir", required=True, type=Path)
    measure.add_argument("--rounds", type=int, default=5, help="after one start of each to warm up")
    measure.add_argument("--json", type=Path, help="write all single values there")
    return parser.parse_args()


async def learn(slipway: Slipway, given: argparse.Namespace) -> None:
    """Start a session once and write down what DockerSpawner's containers are to have too."""
    await make_user(slipway.hub)
    await slipway.hub.api("POST", f"/users/{USER}/server", {})
    facts = (await slipway.container()).facts
    await take_away(slipway)
    host, variables = facts["HostConfig"], dict(pair.split("=", 1) for pair in facts["Config"]["Env"])
    user = facts["Config"]["User"]
    given.home.mkdir()
    shutil.chown(given.home, *(int(number) for number in user.split(":")))
    like = {
        "name": given.container.parent.name,
        "image": facts["Config"]["Image"],
        "user": user,
        "memory": host["Memory"],
        "nano_cpus": host["NanoCpus"],
        "pids": host["PidsLimit"],
        "home": variables["HOME"],
        "home_source": str(given.home),
        "gateway": facts["NetworkSettings"]["Networks"]["bridge"]["Gateway"],
    }
    given.container.write_text(json.dumps(like))


async def measure(slipway: Spawner, docker: Spawner, rounds: int) -> list[tuple[Times, Times]]:
    """Take turns; the first round warms up and is not kept."""
    pair = (slipway, docker)
    tokens = {spawner.name: await make_user(spawner.hub) for spawner in pair}
    kept = []
    for number in range(rounds + 1):
        got: dict[str, Times] = {}
        for spawner in pair if number % 2 else reversed(pair):
            got[spawner.name] = await timed_start(spawner, tokens[spawner.name])
            await take_away(spawner)
            print(f"round {number}: {spawner.name} {got[spawner.name].total:.2f} s", file=sys.stderr, flush=True)
            await asyncio.sleep(1)
        if number:
            kept.append((got[slipway.name], got[docker.name]))
    return kept


def report(pairs: list[tuple[Times, Times]]) -> str:
    """Give the tables."""
    names, columns = (Slipway.name, Docker.name), list(zip(*pairs, strict=True))
    rows = [["**POST to the first 200 of /lab**", *(spread(t.total for t in column) for column in columns)]]
    rows += [[part, *(spread(t.parts[part] for t in column) for column in columns)] for part in PARTS]
    rows += [["POST to the first 200 of /api", *(spread(t.api for t in column) for column in columns)]]
    rows += [["CPU seconds of the container", *(spread(t.cpu for t in column) for column in columns)]]
    text = table(["seconds: median (min to max)", *names], rows)
    ratios = [slipway.total / docker.total for slipway, docker in pairs]
    text += f"\nSlipway / DockerSpawner, pair by pair: **{spread(ratios)}**"
    text += f" ({', '.join(f'{ratio:.2f}' for ratio in ratios)})\n"
    owns = [slipway.own for slipway, _ in pairs]
    rows = [["**the service's own share**", spread((1e3 * sum(own.values()) for own in owns), ".0f")]]
    rows += [[part, spread((1e3 * own[part] for own in owns), ".0f")] for part in owns[0]]
    return text + "\n" + table(["milliseconds: median (min to max)", Slipway.name], rows)


async def main() -> int:
    """Do what the arguments say."""
    given = arguments()
    token = (given.secrets / "check-token").read_text().strip()
    spawner_token = (given.secrets / "spawner-token").read_text().strip()
    async with Hub(given.hub, token) as hub:
        slipway = Slipway(hub, given.service, spawner_token)
        if given.action == "learn":
            await learn(slipway, given)
            return 0
        about = machine()
        async with Hub(given.docker_hub, token) as other:
            docker = Docker(other, given.docker_hub_dir)
            pairs = await measure(slipway, docker, given.rounds)
    print(heading("spawn", about, os.getloadavg()[0]))
    print(report(pairs))
    if given.json:
        rows = [[dataclasses.asdict(times) for times in pair] for pair in pairs]
        given.json.write_text(json.dumps({"machine": about, "pairs": rows}, indent=1))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main()))
    except (CheckError, httpx.HTTPError, LookupError) as error:
        sys.exit(f"spawn: {type(error).__name__}: {error}")
