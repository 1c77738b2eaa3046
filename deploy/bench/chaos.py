"""Random kills of the service, the Hub and agents under load, and what came of everything. Run by ``chaos``."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from containers import docker, session_container
from jupyterapi import CheckError, Hub
from machine import heading, machine, spread, table

PATIENCE = 180.0  # seconds for which a request is repeated: a service or a Hub is back long before
SETTLE = 600.0  # seconds that what is under way has at the end
MOST_WAITING = 6  # jobs of a user that have not ended, at most
ENDED = ("done", "failed", "canceled")
PROFILES = ("small", "small", "gpu")  # of the users, in turn: leases of slices are at stake too


@dataclass
class Sent:
    """A job or a point of a scan that the service has acknowledged, and what it has to print."""

    user: str
    id: str
    mark: str  # the name of the file to which each run adds a line
    want: str
    kind: str


@dataclass
class Frozen:
    """An environment that the service has acknowledged."""

    user: str
    digest: str
    tag: str  # what its file /opt/chaos says


@dataclass
class Record:
    """Everything that happened, and what was found wrong."""

    about: dict[str, str]
    seed: int
    users: int
    minutes: float
    kills: Counter[str] = field(default_factory=Counter)
    away: list[float] = field(default_factory=list)  # seconds from a kill of the service to its next answer
    acknowledged: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)  # of jobs that failed
    repeated: int = 0  # requests that were sent again
    wrong: list[str] = field(default_factory=list)


class User:
    """One user, her session, and what she has going on."""

    def __init__(self, chaos: Chaos, name: str, profile: str) -> None:
        self.chaos, self.name, self.profile = chaos, name, profile
        self.token = ""
        self.frozen: list[Frozen] = []
        self.restarts = 0

    async def begin(self) -> None:
        """Make the user and start her server."""
        hub = self.chaos.hub
        await hub.api("POST", f"/users/{self.name}", allow=(409,))
        answer = await hub.api("POST", f"/users/{self.name}/tokens", {"note": "chaos", "expires_in": 6 * 3600})
        self.token = str(answer.json()["token"])
        await self.start()
        await self.freeze()

    async def start(self) -> None:
        """Start the server and wait until it is ready, whatever is killed meanwhile."""
        hub, deadline = self.chaos.hub, time.monotonic() + PATIENCE
        while True:
            with contextlib.suppress(httpx.HTTPError, CheckError):
                body = {"profile": self.profile, "cpus": "1"}
                await hub.api("POST", f"/users/{self.name}/server", body, allow=(400,))  # 400: it runs, or is starting
                now = (await hub.api("GET", f"/users/{self.name}")).json()
                if now["servers"].get("", {}).get("ready"):
                    return
            if time.monotonic() > deadline:
                raise CheckError(f"{self.name}: the server does not start within {PATIENCE:.0f} s")
            await asyncio.sleep(0.5)

    async def call(self, method: str, path: str, **kw: Any) -> httpx.Response:
        """Call the API as a client does that does not give up: again on what is broken, busy or away."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                answer = await self.chaos.http.request(
                    method, path, headers={"Authorization": f"Bearer {self.token}"}, **kw
                )
                if answer.status_code < 500 and answer.status_code != httpx.codes.TOO_MANY_REQUESTS:
                    return answer
                said = f"{answer.status_code} {answer.text[:200]}"
            except httpx.HTTPError as error:
                said = repr(error)
            if time.monotonic() > deadline:
                raise CheckError(f"{self.name}: {method} {path}: {said}")
            self.chaos.record.repeated += 1
            await asyncio.sleep(0.3)

    async def session(self) -> dict[str, Any] | None:
        """Give her running session."""
        answer = await self.call("GET", "/sessions")
        running = [s for s in answer.json()["sessions"] if s["kind"] == "lab" and s["phase"] == "running"]
        return dict(running[0]) if running else None

    async def freeze(self) -> None:
        """Change something in the session's layer and freeze it."""
        session = await self.session()
        if session is None:
            return
        tag = uuid.uuid4().hex
        with contextlib.suppress(LookupError, subprocess.CalledProcessError, httpx.HTTPError):
            name = session_container(session["id"]).facts["Id"]
            change = f"head -c 1000000 /dev/urandom >/opt/chaos.data && echo {tag} >/opt/chaos"
            await asyncio.to_thread(docker, "exec", "--user", "0", name, "sh", "-c", change)
            if digest := await self.frozen_as(session["id"]):
                self.frozen.append(Frozen(self.name, digest, tag))
                self.chaos.record.acknowledged["freezes"] += 1

    async def frozen_as(self, session: str) -> str:
        """Freeze; empty when the answer did not arrive: then nothing was acknowledged."""
        headers, event = {"Authorization": f"Bearer {self.token}"}, ""
        path = f"/sessions/{session}/freeze"
        async with self.chaos.http.stream("POST", path, json={}, headers=headers, timeout=120) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("event:"):
                    event = line[6:].strip()
                elif line.startswith("data:") and event == "done":
                    return str(json.loads(line[5:])["digest"])
                elif line.startswith("data:") and event == "error":
                    self.chaos.record.reasons["freeze: " + refusal(line[5:])] += 1
        return ""

    async def upload(self, size: int) -> tuple[str, str]:
        """Put a file of random bytes for jobs; give its digest as the API has it, and as sha256sum prints it."""
        data = os.urandom(size)
        hexed = hashlib.sha256(data).hexdigest()
        answer = await self.call("PUT", f"/blobs/sha256:{hexed}", content=data)
        if answer.status_code != httpx.codes.NO_CONTENT:
            raise CheckError(f"{self.name}: an upload: {answer.status_code} {answer.text[:200]}")
        self.chaos.record.acknowledged["uploads"] += 1
        return f"sha256:{hexed}", hexed

    async def submit(self, kind: str, points: int = 0, size: int = 0) -> None:
        """Submit a job or a scan; each run adds a line to a file of its own in the home."""
        frozen, mark = self.chaos.random.choice(self.frozen), uuid.uuid4().hex
        script = f'echo run >>"$HOME/{mark}.$N"; cat /opt/chaos; sleep {self.chaos.random.uniform(0, 6):.1f}'
        want, blobs = frozen.tag, dict[str, str]()
        if size:
            digest, hexed = await self.upload(size)
            blobs, script, want = {"in.bin": digest}, script + "; sha256sum <in.bin", f"{want}\n{hexed}  -"
        request: dict[str, Any] = {
            "name": kind, "environment": frozen.digest, "argv": ["/bin/sh", "-c", script], "request_id": mark,
            "blobs": blobs, "memory": "200M", "env": {"N": "0"},
        }  # fmt: skip
        if points:
            request |= {"points": [{"parameters": {"N": str(n)}} for n in range(points)], "env": {}}
        answer = await self.call("POST", "/jobs", json=request)
        if answer.status_code != httpx.codes.ACCEPTED:
            raise CheckError(f"{self.name}: {kind}: {answer.status_code} {answer.text[:300]}")
        said = answer.json()
        self.chaos.record.acknowledged[kind] += 1
        jobs = await self.points(said["scans"][0]["id"]) if points else [said]
        self.chaos.sent += [Sent(self.name, j["id"], f"{mark}.{j['point']}", want, kind) for j in jobs]

    async def points(self, scan: str) -> list[dict[str, Any]]:
        """List the jobs of a scan."""
        return list((await self.call("GET", "/jobs", params={"scan": scan})).json()["jobs"])

    async def room(self) -> None:
        """Wait until few enough jobs are under way."""
        while True:
            listed = (await self.call("GET", "/jobs")).json()["jobs"]
            if sum(j["state"] not in ENDED for j in listed) < MOST_WAITING:
                return
            await asyncio.sleep(1)

    async def live(self) -> None:
        """Be a user until the end."""
        rng = self.chaos.random
        while not self.chaos.over:
            await self.start()  # of no effect on one that runs
            await self.room()
            match rng.randrange(4):
                case 0:
                    await self.freeze()
                case 1:
                    await self.submit("jobs")
                case 2:
                    await self.submit("scans", points=4)
                case _:
                    await self.submit("jobs with inputs", size=rng.randrange(1 << 20, 24 << 20))
            await asyncio.sleep(rng.uniform(0, 3))


class Chaos:
    """The users, the killer, and the reckoning."""

    def __init__(self, given: argparse.Namespace, hub: Hub, http: httpx.AsyncClient) -> None:
        self.given, self.hub, self.http = given, hub, http
        self.random = random.Random(given.seed)  # noqa: S311
        self.record = Record(machine(), given.seed, given.users, given.minutes)
        self.users = [User(self, f"chaos{n}", PROFILES[n % len(PROFILES)]) for n in range(given.users)]
        self.sent: list[Sent] = []
        self.over = False
        config = (given.demo / "slipway.yaml").read_text()
        found = re.search(r"(?m)^instance: (\S+)", config)
        self.instance = found[1] if found else ""
        self.strangers = set(pids("pasta"))

    async def run(self) -> None:
        """Begin, kill and live for the time, settle, look."""
        for user in self.users:
            await user.begin()
        lives = [asyncio.create_task(user.live()) for user in self.users]
        try:
            await self.kill()
        finally:
            self.over = True
            done = await asyncio.gather(*lives, return_exceptions=True)
            self.record.wrong += [f"a user's life broke off: {e!r}" for e in done if isinstance(e, BaseException)]
        await self.settle()
        await self.judge()
        await self.leave()

    async def kill(self) -> None:
        """Kill somebody again and again, and start again what does not start by itself."""
        killer = random.Random(self.given.seed + 1)  # noqa: S311
        end = time.monotonic() + self.given.minutes * 60
        while time.monotonic() < end:
            await asyncio.sleep(killer.uniform(1, 12))
            victim = killer.choices(["service", "hub", "session's agent", "job's shim"], [7, 1, 1, 1])[0]
            if victim == "service":
                await self.crash_service()
            elif victim == "hub":
                await self.control("crash", "hub")
            elif not self.kill_agent(victim, killer):
                continue
            self.record.kills[victim] += 1
            print(f"{end - time.monotonic():6.0f} s left, kills {dict(self.record.kills)}, "
                  f"acknowledged {dict(self.record.acknowledged)}", file=sys.stderr, flush=True)  # fmt: skip

    async def crash_service(self) -> None:
        """Kill the service, and count until it answers again."""
        began = time.monotonic()
        await self.control("crash", "service")
        self.record.away.append(time.monotonic() - began)

    async def control(self, *words: str) -> None:
        """Give the demo an order; it must succeed."""
        argv = [str(self.given.control), *words]
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        out, _ = await process.communicate()
        if process.returncode != 0:
            raise CheckError(f"demo {' '.join(words)}: {out.decode(errors='replace')[-2000:]}")

    def kill_agent(self, victim: str, killer: random.Random) -> bool:
        """Kill the first process of a session, or what leads a job; False: there is none now."""
        if victim == "session's agent":
            names = self.containers()
            found = [int(docker("inspect", "--format", "{{.State.Pid}}", name)) for name in names]
        else:
            groups = Path("/sys/fs/cgroup").glob(f"**/{self.instance}/**/shims/cgroup.procs")
            found = sorted({int(pid) for group in groups for pid in group.read_text().split()})
        if not found:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(killer.choice(found), signal.SIGKILL)
        return True

    def containers(self, *more: str) -> list[str]:
        """List the demo's containers."""
        return docker("ps", *more, "--quiet", "--filter", f"label=slipway.instance={self.instance}").split()

    async def settle(self) -> None:
        """Wait until every job has ended and every user's session answers."""
        deadline = time.monotonic() + SETTLE
        for user in self.users:
            await user.start()
            while time.monotonic() < deadline:
                listed = (await user.call("GET", "/jobs")).json()["jobs"]
                if all(j["state"] in ENDED for j in listed):
                    break
                await asyncio.sleep(1)

    async def judge(self) -> None:
        """Compare what was acknowledged with what there is."""
        users = {user.name: user for user in self.users}
        for user in self.users:  # at once: a session that nobody opens is stopped after a while
            await self.judge_session(user)
        for sent in self.sent:
            await self.judge_job(users[sent.user], sent)
        for user in self.users:
            known = {e["digest"] for e in (await user.call("GET", "/environments")).json()["environments"]}
            for frozen in user.frozen:
                if frozen.digest not in known:
                    self.record.wrong.append(f"{user.name}: the environment {frozen.digest} is lost")
                    continue
                answer = await user.call("POST", f"/environments/{frozen.digest}/verify", json={}, timeout=120)
                if not answer.is_success:
                    self.record.wrong.append(f"{frozen.digest}: {answer.text[:300]}")

    async def judge_job(self, user: User, sent: Sent) -> None:
        """See that a job ran once and printed what it had to, or has a reason why it did not end well."""
        answer = await user.call("GET", f"/jobs/{sent.id}")
        if not answer.is_success:
            self.record.wrong.append(f"{sent.kind} {sent.id} is lost: {answer.status_code} {answer.text[:200]}")
            return
        job = answer.json()
        marks = self.given.demo / "homes" / sent.user / sent.mark
        runs = len(marks.read_text().splitlines()) if marks.exists() else 0
        self.record.outcomes[f"{sent.kind}: {job['state']}"] += 1
        if job["state"] not in ENDED:
            self.record.wrong.append(f"{sent.kind} {sent.id} is {job['phase']} after {SETTLE:.0f} s: {job['waiting']}")
        elif runs > 1:
            self.record.wrong.append(f"{sent.kind} {sent.id} ran {runs} times")
        elif job["state"] == "done":
            log = (await user.call("GET", f"/jobs/{sent.id}/log")).text.strip()
            if runs != 1 or log != sent.want:
                self.record.wrong.append(f"{sent.kind} {sent.id}: {runs} runs, printed {log!r}, not {sent.want!r}")
        else:
            reason = (job["outcome"] or {}).get("reason", "")
            self.record.reasons[f"{sent.kind}: {reason}"] += 1
            if not reason:
                self.record.wrong.append(f"{sent.kind} {sent.id} is {job['state']} without a reason")

    async def judge_session(self, user: User) -> None:
        """See that the session answers, through the Hub's proxy."""
        answer = await self.http.get(
            f"{self.hub.url}/user/{user.name}/api/status", headers={"Authorization": f"token {user.token}"}
        )
        if not answer.is_success:
            self.record.wrong.append(f"{user.name}: JupyterLab answers {answer.status_code}")

    async def leave(self) -> None:
        """Stop and remove all, and look what is left."""
        for user in self.users:
            await self.hub.api("DELETE", f"/users/{user.name}/server", allow=(404,))
        await self.until(lambda: not self.containers(), "containers run after all was stopped")
        for user in self.users:
            for session in (await user.call("GET", "/sessions")).json()["sessions"]:
                await user.call("DELETE", f"/sessions/{session['id']}")
        await self.until(lambda: not self.containers("--all"), "containers are left")
        slices = await self.users[0].call("GET", "/gpus")
        if '"owner":"' in slices.text.replace(" ", ""):
            self.record.wrong.append(f"slices are held: {slices.text[:500]}")
        await self.until(lambda: not self.leftovers(), "are left", self.leftovers)

    def leftovers(self) -> list[str]:
        """Name mounts, processes, control groups and unfinished files that should be gone."""
        mounts = [x for x in Path("/proc/self/mountinfo").read_text().splitlines() if f"{self.given.demo}/data" in x]
        own = set(pids("pasta")) - self.strangers
        groups = [str(g.parent) for g in Path("/sys/fs/cgroup").glob(f"**/{self.instance}/**/cgroup.procs")]
        busy = [g for g in groups if (Path(g) / "cgroup.procs").read_text().strip() and "slipway.service" not in g]
        files = [str(p) for p in (self.given.demo / "data").rglob("*") if ".new" in p.name or p.name.endswith(".tmp")]
        return mounts + [f"pasta {pid}" for pid in own] + busy + files

    async def until(
        self, holds: Callable[[], bool], claim: str, found: Callable[[], Sequence[str]] | None = None
    ) -> None:
        """Give something a minute and a half to become true."""
        deadline = time.monotonic() + 90
        while not holds():
            if time.monotonic() > deadline:
                self.record.wrong.append(f"{claim}: {list(found())[:10] if found else ''}")
                return
            await asyncio.sleep(1)


def pids(name: str) -> list[int]:
    """Find processes by name."""
    done = subprocess.run(["pgrep", "-x", name], check=False, stdout=subprocess.PIPE, text=True)  # noqa: S603, S607
    return [int(pid) for pid in done.stdout.split()]


def refusal(data: str) -> str:
    """Give an error's words without what differs each time."""
    try:
        return re.sub(r"[0-9a-f]{12,}", "...", str(json.loads(data)["error"]["message"]))[:120]
    except (ValueError, KeyError, TypeError):
        return data[:120]


def render(record: Record) -> str:
    """Give the report."""
    rows = [(f"kills: {name}", str(count)) for name, count in sorted(record.kills.items())]
    rows.append(("all kills", str(record.kills.total())))
    rows.append(("service away, s: median (min to max)", spread(record.away)))
    rows += [(f"acknowledged: {name}", str(count)) for name, count in sorted(record.acknowledged.items())]
    rows += [(name, str(count)) for name, count in sorted(record.outcomes.items())]
    rows += [(f"reason: {name}", str(count)) for name, count in record.reasons.most_common(12)]
    rows.append(("requests repeated by the clients", str(record.repeated)))
    rows.append(("**lost, run twice or left over**", str(len(record.wrong))))
    about = {"minutes": f"{record.minutes:g}", "seed": str(record.seed), "users": str(record.users), **record.about}
    text = heading("chaos", about, os.getloadavg()[0]) + "\n" + table(("what", "how many"), rows)
    return text + "".join(f"- WRONG: {line}\n" for line in record.wrong)


@contextlib.asynccontextmanager
async def clients(given: argparse.Namespace) -> AsyncIterator[tuple[Hub, httpx.AsyncClient]]:
    """Open what speaks with the Hub and with the service."""
    token = (given.demo / "hub" / "check-token").read_text().strip()
    base = f"{given.service}/api/v1"
    async with Hub(given.hub, token) as hub, httpx.AsyncClient(base_url=base, timeout=60, trust_env=False) as http:
        yield hub, http


async def measure(given: argparse.Namespace) -> int:
    """Run it and print the report, whatever came of it."""
    async with clients(given) as (hub, http):
        chaos = Chaos(given, hub, http)
        try:
            await chaos.run()
        except (CheckError, httpx.HTTPError) as error:
            chaos.record.wrong.append(f"it broke off: {error}")
        if given.json:
            given.json.write_text(json.dumps(vars(chaos.record), indent=1) + "\n")
        print(render(chaos.record))
        return 1 if chaos.record.wrong else 0


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hub", required=True)
    parser.add_argument("--service", required=True)
    parser.add_argument("--demo", required=True, type=Path)
    parser.add_argument("--control", required=True, type=Path)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--users", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write all single values there")
    return asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
