"""Drive the demo as a user would, headless: start, install a package, run a job, keep, stop, start again; GPU; pool.

Everything goes through the Hub's own API and JupyterLab's websocket; what is checked is what a person
would see. Each step prints its time. The exit code is 0 only if every step held.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import html
import json
import re
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

from jupyterapi import Browser, CheckError, Hub, Kernel, Lab
from pool import PACKAGE, VERSION, Pool
from server import Server
from steps import ANSI, expect, show, step
from terminal import Terminal

USER = "slipway-check"
CELL = f"""%%grid --name first
import {PACKAGE}, os, socket
print("{PACKAGE}", {PACKAGE}.__version__, "on", socket.gethostname())
print("apptainer", os.path.exists("/.singularity.d"))
result = 6 * 7"""
# The demo's profile with a slice of a GPU, and that slice: all GPUs of the demo are simulated.
GPU_PROFILE, GPU_SLICE = "gpu", "1g.18gb"
GPU_KERNEL = "python-gpu"  # the demo's kernelspec of that profile
GPU_CELL = f"""%%grid --name sliced --gpu {GPU_SLICE}
import os
result = os.environ["SLIPWAY_GPU"]"""


class Check:
    """The steps, in the order of run()."""

    def __init__(self, hub: Hub, given: argparse.Namespace) -> None:
        self.hub = hub
        self.service: str = given.service
        self.secrets: Path = given.secrets
        self.terminal = Terminal(given.slipway, given.service, given.demo, USER)
        self.server = Server(hub, USER)
        self.pool = Pool(hub, USER, self.terminal) if given.pool else None
        self.frozen = ""  # digest of what the first session was frozen as

    async def run(self) -> None:
        """Do all of it and leave nothing behind, whether it holds or not."""
        with step("removing what an interrupted check has left"):
            await self.clean()
        try:
            with step("log in and see the spawn form"):
                await self.log_in()
            with step("start a server"):
                await self.server.start()
            async with self.server.kernel() as kernel:
                await self.in_session(kernel)
                with step("the session is kept"):
                    await self.keep(kernel)
            with step("sessions, envs and jobs outside, with a token of the Hub"):
                self.listings_outside()
            with step("the session's page, through the Hub"):
                await self.page()
            if self.pool:  # while the Hub is told of the first server
                await self.pool.use()
            with step("the Hub knows that it is in use"):
                await self.activity()
            with step("stop the server"):
                await self.server.stop()
            with step("start it again"):
                await self.server.start()
            with step(f"{PACKAGE} is still there"):
                async with self.server.kernel() as kernel:
                    found = await kernel.run(f"import {PACKAGE}; print({PACKAGE}.__version__)")
                    expect(found.strip() == VERSION, f"{PACKAGE} is {found!r}, not {VERSION}")
                    with step("frozen again, it is the same environment"):
                        await self.freeze_again(kernel)
            with step("stop the server"):
                await self.server.stop()
            await self.with_gpu()
            await self.with_kernel()
            if self.pool:
                await self.pool.outlive()
        finally:
            with step("clean up"):
                await self.clean()

    async def log_in(self) -> None:
        """Log in, which makes the user, and look for the service's form."""
        async with self.browser() as browser:
            page = await browser.page(f"/hub/spawn/{USER}")
        expect('name="profile"' in page, "the spawn page has no choice of profiles")
        rooms = re.findall(r'data-room="([^"]+)">([^<]+)<', page)
        expect(rooms, "the spawn page does not say what is free")
        for name, words in rooms:
            show(f"profile {name}: {html.unescape(words)}")
        self.terminal.token = await self.new_token()
        self.server.token = self.terminal.token

    async def new_token(self) -> str:
        """Get a token of the check's user."""
        body = {"note": "slipway check", "expires_in": 3600}
        return str((await self.hub.api("POST", f"/users/{USER}/tokens", body)).json()["token"])

    def browser(self) -> contextlib.AbstractAsyncContextManager[Browser]:
        """Log in as the check's user."""
        return self.hub.browser(USER, (self.secrets / "password").read_text().strip())

    async def in_session(self, kernel: Kernel) -> None:
        """Do what a user does in her notebook."""
        with step("a kernel runs, and neither the package nor a GPU is there"):
            await kernel.run("import os, socket; print('session', socket.gethostname(), 'uid', os.getuid())")
            missing = await kernel.run(f"import {PACKAGE}", fails=True)
            expect("ModuleNotFoundError" in missing, f"import {PACKAGE}: {missing}")
            told = await kernel.run("print(os.environ.get('SLIPWAY_GPU'), os.environ['NVIDIA_VISIBLE_DEVICES'])")
            expect(told.strip() == "None void", f"a session without a GPU is told of {told!r}")
        with step(f"%pip install {PACKAGE}"):
            await kernel.run(f"%pip install --quiet {PACKAGE}=={VERSION}")
            await kernel.run(f"import {PACKAGE}; print({PACKAGE}.__file__)")
        with step("%%grid: freeze, submit, run under Apptainer"):
            await kernel.run("%load_ext slipway")
            output = await kernel.run(CELL)
            expect(f"{PACKAGE} {VERSION} on " in output, "the job's output did not arrive")
            expect("apptainer True" in output, "the job did not run under Apptainer")
        with step("the result is in the notebook"):
            output = await kernel.run("print(result)")
            expect(output.strip() == "42", f"result is {output!r}, not 42")
        with step("%%grid again: the environment is unchanged"):
            output = await kernel.run("%%grid --name second\nresult = 'again'")
            expect("unchanged" in output, "an unchanged environment was frozen again")
        with step("sessions, envs and jobs inside, without a token"):
            for what in ("sessions", "envs", "jobs"):
                listed = json.loads(ANSI.sub("", await kernel.run(f"!slipway {what} --json", quiet=True)))
                self.expect_listed(what, listed)
                if what == "envs":
                    self.frozen = self.made(listed)[0]["digest"]

    async def freeze_again(self, kernel: Kernel) -> None:
        """Freeze what was stopped and started since it was frozen, and nothing else."""
        output = ANSI.sub("", await kernel.run("!slipway freeze --json 2>&1", quiet=True))
        expect("{" in output, f"slipway freeze says: {output!r}")
        again = json.JSONDecoder().raw_decode(output[output.index("{") :])[0]["digest"]
        expect(again == self.frozen, f"what was {self.frozen} is {again} after a stop and a start")
        show(again)

    async def keep(self, kernel: Kernel) -> None:
        """Keep the session from a notebook, and see it where JupyterLab asks whether to warn."""
        await kernel.run("!slipway keep 2h")
        session = (await self.server.lab.get("/slipway/session")).json()
        kept = datetime.fromisoformat(str(session["keep_until"])) - datetime.now(UTC)
        expect(timedelta(minutes=119) < kept <= timedelta(hours=2), f"the session is kept for {kept}")
        show(f"stops: {session['stops']['at']}: {session['stops']['why']}")

    async def page(self) -> None:
        """Open Slipway's pages as a browser does: the Hub says who it is, without being asked anything."""
        async with self.browser() as browser:
            found = re.search(r'href="(/services/slipway/sessions/[^"]+)"', await browser.page("/services/slipway/"))
            expect(found, "the list of sessions has no link to one")
            session = await browser.page(found[1] if found else "")
        for words in ("running", "Kept until", "JupyterLab is ready"):
            expect(words in session, f"the session's page does not say {words!r}")
        show(f"{self.hub.url}{found[1] if found else ''}")

    async def activity(self) -> None:
        """Wait for the service to tell the Hub, which it does every minute, that the session is in use."""
        deadline = time.monotonic() + 150
        while True:
            server = (await self.hub.api("GET", f"/users/{USER}")).json()["servers"][""]
            seen = datetime.fromisoformat(server["last_activity"])
            if seen > self.server.opened:  # the Hub itself sets it when a server has started
                break
            expect(time.monotonic() < deadline, f"the Hub says {seen}, it was opened at {self.server.opened}")
            await asyncio.sleep(1)
        show(f"opened {self.server.opened:%H:%M:%S.%f}, last activity {seen:%H:%M:%S.%f}")

    def listings_outside(self) -> None:
        """List the same from this machine, with the user's token."""
        for what in ("sessions", "envs", "jobs"):
            self.expect_listed(what, json.loads(self.terminal.slipway(what, "--json")))
            self.terminal.table(what)

    def expect_listed(self, what: str, listed: Any) -> None:
        """Compare a list with what this check has made."""
        items = listed if isinstance(listed, list) else next(iter(listed.values()))
        if what == "envs":
            items = self.made(listed)
        expect(len(items) == {"sessions": 1, "envs": 1, "jobs": 2}[what], f"slipway {what} lists {items}")
        if what == "jobs":
            names = sorted(item["name"] for item in items)
            expect(names == ["first", "second"], f"the jobs are {names}")

    def made(self, listed: Any) -> list[Any]:
        """Give the environments of a list that this check has made: those of earlier checks are still there."""
        return [e for e in listed["environments"] if datetime.fromisoformat(e["created"]) > self.server.opened]

    async def with_gpu(self) -> None:
        """Do the same with a slice of a GPU, and kill the service meanwhile."""
        with step("start it with a slice of a GPU"):
            await self.server.start(GPU_PROFILE)
        async with self.server.kernel() as kernel:
            with step("the session and a job of its own have a slice each"):
                await self.slices_inside(kernel)
        with step("slipway gpus, outside"):
            self.terminal.expect_slices(GPU_SLICE, 1)
            self.terminal.table("gpus")
        with step("kill -9 of the service: the session runs on and its slice is held"):
            self.terminal.crash()
            self.terminal.expect_slices(GPU_SLICE, 1)
            async with self.server.kernel() as kernel:
                await kernel.run("import os; print(os.environ['SLIPWAY_GPU'])")
        with step("stop the server: the slice is free"):
            await self.server.stop()
            self.terminal.expect_slices(GPU_SLICE, 0)

    @property
    def gateway(self) -> Lab:
        """What a Jupyter Server elsewhere is given as its --gateway-url."""
        return Lab(f"{self.hub.url}/services/slipway/kernels", self.terminal.token)

    async def with_kernel(self) -> None:
        """Start a kernel on a slice from outside, with no server of the user's, and shut it down."""
        with step("a kernel on a slice for a Jupyter elsewhere, through the Hub"):
            kernel = await self.gateway.kernel(show, GPU_KERNEL)
            told = await kernel.run("import os; print(os.environ['SLIPWAY_GPU'])")
            expect(told.startswith(GPU_SLICE), f"the kernel is told of {told!r}")
            self.terminal.expect_slices(GPU_SLICE, 1)
            self.terminal.table("sessions")
            kernel.close()
        with step("shut the kernel down: the slice is free"):
            await self.gateway.shutdown()
            deadline = time.monotonic() + 60
            while "kernel" in {s["kind"] for s in json.loads(self.terminal.slipway("sessions", "--json"))["sessions"]}:
                expect(time.monotonic() < deadline, "the kernel is still there")
                await asyncio.sleep(0.5)
            self.terminal.expect_slices(GPU_SLICE, 0)

    async def slices_inside(self, kernel: Kernel) -> None:
        """See the slice from inside, and run a cell on another one."""
        told = await kernel.run("import os; print(os.environ['SLIPWAY_GPU'])")
        expect(re.fullmatch(rf"{GPU_SLICE} of .+ \(simulated\)\s*", told), f"the session is told of {told!r}")
        listed = json.loads(ANSI.sub("", await kernel.run("!slipway gpus --json", quiet=True)))
        expect(self.terminal.slices(listed, GPU_SLICE) == 1, f"inside, slipway gpus lists {listed}")
        await kernel.run("%load_ext slipway")
        await kernel.run(GPU_CELL)
        job = await kernel.run("print(result)")
        expect(job == told, f"the job was told of {job!r}")

    async def clean(self) -> None:
        """Remove the jobs and the user, and with her the session's changes."""
        if (await self.hub.api("GET", f"/users/{USER}", allow=(404,))).status_code == 404:
            return
        await self.remove_jobs()
        await Lab(f"{self.hub.url}/services/slipway/kernels", self.terminal.token or await self.new_token()).shutdown()
        await self.server.stop()
        if self.pool:
            await self.pool.server.remove()
        await self.hub.api("DELETE", f"/users/{USER}")

    async def remove_jobs(self) -> None:
        """Remove the records and files of her jobs."""
        headers = {"Authorization": f"Bearer {self.terminal.token or await self.new_token()}"}
        async with httpx.AsyncClient(base_url=self.service, headers=headers, trust_env=False, timeout=60) as http:
            listed = await http.get("/api/v1/jobs")
            for job in listed.json().get("jobs", []) if listed.is_success else []:
                await http.delete(f"/api/v1/jobs/{job['id']}")


async def main() -> int:
    """Read the arguments and run the check."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hub", required=True, help="the Hub's public address")
    parser.add_argument("--service", required=True, help="the Slipway service's address")
    parser.add_argument("--secrets", required=True, type=Path, help="directory with check-token and password")
    parser.add_argument("--slipway", required=True, help="the slipway program")
    parser.add_argument("--demo", required=True, help="the script that has started them, which can kill the service")
    parser.add_argument("--pool", action="store_true", help="the demo has an HTCondor pool: use that too")
    given = parser.parse_args()
    begun = time.monotonic()
    async with Hub(given.hub, (given.secrets / "check-token").read_text().strip()) as hub:
        try:
            await Check(hub, given).run()
        except (CheckError, httpx.HTTPError, OSError) as error:
            print(f"FAILED after {time.monotonic() - begun:.1f} s: {type(error).__name__}: {error}", flush=True)
            return 1
    print(f"Every step held, in {time.monotonic() - begun:.1f} s.", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
