"""The part of check.py that runs on the demo's HTCondor pool."""

from __future__ import annotations

import json

from jupyterapi import Hub, Kernel
from server import Server
from steps import expect, show, step
from terminal import Terminal

# Small, pure Python, without dependencies, and not in the notebook image.
PACKAGE, VERSION = "hepunits", "2.4.7"
CELL = f"""%%grid --to htcondor --name far
import {PACKAGE}, socket
print("{PACKAGE}", {PACKAGE}.__version__, "on", socket.gethostname())
result = 6 * 7"""


class Pool:
    """A server of the user's on the pool, and what she does there."""

    def __init__(self, hub: Hub, user: str, terminal: Terminal) -> None:
        self.server = Server(hub, user, "far")
        self._terminal = terminal

    async def use(self) -> None:
        """Start the server, and use it."""
        self.server.token = self._terminal.token
        with step("start a server on the HTCondor pool"):
            await self.server.start("pool")
            self.host()
        async with self.server.kernel() as kernel:
            await self.in_session(kernel)
        with step("slipway gpus --pool, outside"):
            for line in self._terminal.slipway("gpus", "--pool").splitlines():
                show(line)

    async def outlive(self) -> None:
        """Kill the Hub and the service; stop the server, start it again, and remove it."""
        host = self.host()
        with step("kill -9 of the Hub and of its proxy: the session on the pool runs on"):
            self._terminal.crash("hub")
            await self.still_there(host)
        with step("kill -9 of the service: the session on the pool runs on"):
            self._terminal.crash()
            await self.still_there(host)
        with step("stop it, and start it again"):
            await self.server.stop()
            await self.server.start("pool")
        with step(f"{PACKAGE} is still there"):
            async with self.server.kernel() as kernel:
                found = await kernel.run(f"import {PACKAGE}; print({PACKAGE}.__version__)")
            expect(found.strip() == VERSION, f"{PACKAGE} is {found!r}, not {VERSION}")
        with step("stop it: nothing of it is left in the pool"):
            await self.server.remove()

    def host(self) -> str:
        """Give the worker that the session runs on."""
        listed = json.loads(self._terminal.slipway("sessions", "--json"))["sessions"]
        found = [s for s in listed if s["backend"] == "htcondor" and s["phase"] == "running"]
        expect(len(found) == 1 and found[0]["host"].startswith("node"), f"slipway sessions lists {listed}")
        show(f"it runs on {found[0]['host']}")
        return str(found[0]["host"])

    async def in_session(self, kernel: Kernel) -> None:
        """Install a package, and run a cell as a job on the pool."""
        await kernel.run("import socket; print('session on', socket.gethostname()); open('/tmp/mark', 'w').close()")
        with step(f"%pip install {PACKAGE}"):
            await kernel.run(f"%pip install --quiet {PACKAGE}=={VERSION}")
        with step("%%grid --to htcondor: its result is in the notebook"):
            await kernel.run("%load_ext slipway")
            output = await kernel.run(CELL)
            expect(f"{PACKAGE} {VERSION} on node" in output, "the output of a job on the pool did not arrive")
            output = await kernel.run("print(result)")
            expect(output.strip() == "42", f"result is {output!r}, not 42")

    async def still_there(self, host: str) -> None:
        """See that it is the session of before."""
        expect(self.host() == host, f"it is not on {host}")
        async with self.server.kernel() as kernel:
            await kernel.run("import os; print(os.stat('/tmp/mark').st_size, 'bytes')")
