"""Kernels of Slipway beside Enterprise Gateway and a plain Jupyter Server. Run by ``kernels.sh``."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
from client import Channels, Gateway, LostError, Output
from contenders import Contender, agents, all_of, answers, cpu, play_hub, resident

from machine import heading, machine, table

Values = defaultdict[str, defaultdict[str, list[float]]]  # by what was measured and by contender

LINES, SHOWN, LARGE = 100_000, 10_000, 50_000_000
PRINTED = sum(len(str(i)) + 1 for i in range(LINES))
WORK = {
    "print": (f"for i in range({LINES}): print(i)", PRINTED, 0),
    "large": (f"print('x' * {LARGE})", LARGE + 1, 0),
    "shown": (f"from IPython.display import display\nfor i in range({SHOWN}): display(i)", 0, SHOWN),
}


def arguments() -> argparse.Namespace:
    """Read the command line, most of which ``kernels.sh`` writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("hub", "slipway", "plain", "enterprise", "over-slipway", "over-enterprise"):
        parser.add_argument(f"--{name}-port", type=int, required=True)
    for name in ("slipway", "plain", "enterprise", "over-slipway", "over-enterprise"):
        parser.add_argument(f"--{name}-pid", type=int, required=True)
    parser.add_argument("--pooled", action="store_true", help="the site has a kernelspec of which kernels stand by")
    parser.add_argument("--rounds", type=int, default=5, help="of output")
    parser.add_argument("--starts", type=int, default=20)
    parser.add_argument("--trips", type=int, default=1000, help="requests of each kind")
    parser.add_argument("--idle", type=Path, help="what the program idle printed, to be reported with the rest")
    parser.add_argument(
        "--connections", type=int, default=1000, help="idle ones of the servers in Python, as far as they can"
    )
    parser.add_argument("--json", type=Path, required=True, help="all single values go there, as lines of JSON")
    return parser.parse_args()


class Bench:
    """One run, which takes turns."""

    def __init__(self, http: aiohttp.ClientSession, contenders: Mapping[str, Contender], slipway: int) -> None:
        self.http = http
        self.contenders = contenders
        self.slipway = slipway
        self.values: Values = defaultdict(lambda: defaultdict(list))
        self.notes: list[str] = []

    def turns(self, number: int, names: Iterable[str]) -> list[Contender]:
        """Give the contenders in the order of a round: each begins once."""
        list_ = [self.contenders[name] for name in names if name in self.contenders]
        first = number % len(list_)
        return list_[first:] + list_[:first]

    def note(self, text: str) -> None:
        """Keep what the tables cannot tell, once."""
        print(text, file=sys.stderr, flush=True)
        if text not in self.notes:
            self.notes.append(text)

    async def start_once(self, c: Contender) -> float:
        """Give the seconds from POST to the first answer of the kernel."""
        begun = time.perf_counter()
        kernel = await c.gateway.start(self.http)
        try:
            async with c.gateway.open(self.http, kernel, c.framing) as channels:
                await channels.ask()
            return time.perf_counter() - begun
        finally:
            await c.gateway.stop(self.http, kernel)

    async def starts(self, count: int) -> None:
        """Start kernels, one after the other."""
        names = ("Jupyter Server", "Enterprise Gateway", "Slipway", "Slipway, standing by")
        for number in range(count + 1):
            for c in self.turns(number, names):
                took = await self.start_once(c)
                print(f"start {number}: {c.name} {took:.2f} s", file=sys.stderr, flush=True)
                if c.name == "Slipway, standing by":
                    await asyncio.sleep(3.5)  # until another stands by: how fast that is is not what is asked here
                if number:
                    self.values["start"][c.name].append(took)

    async def trips(self, open_: Mapping[str, Channels], count: int) -> None:
        """Ask short things, a hundred of each in a turn."""
        for number in range(count // 100 + 1):
            for c in self.turns(number, open_):
                spent = c.cpu() + self.agents_of(c)
                info = [await open_[c.name].ask() for _ in range(100)]
                await open_[c.name].settle()
                runs = [await open_[c.name].run("pass") for _ in range(100)]
                if number:  # the first warms up
                    self.values["info"][c.name] += info
                    self.values["reply"][c.name] += [r.reply for r in runs]
                    self.values["idle"][c.name] += [r.seconds for r in runs]
                    self.values["trip cpu"][c.name].append((c.cpu() + self.agents_of(c) - spent) / 201)

    def agents_of(self, c: Contender) -> float:
        """Give the processor time of the agents that carry a contender's messages."""
        return sum(map(cpu, agents(self.slipway))) if self.slipway in c.services else 0.0

    async def output(self, open_: dict[str, Channels], rounds: int) -> None:
        """Take much output."""
        lost: set[tuple[str, str]] = set()
        for number in range(rounds):
            for work in WORK:
                for c in self.turns(number, open_):
                    if (c.name, work) in lost:
                        continue
                    try:
                        out, spent = await self.one_output(c, open_[c.name], work)
                    except (LostError, TimeoutError, aiohttp.ClientError) as error:
                        self.note(f"{c.name}, {work}: {type(error).__name__} {error}")
                        lost.add((c.name, work))  # it would be each time, after as long a wait
                        open_[c.name] = await self.again(c, open_[c.name])
                        continue
                    print(f"round {number}: {work}, {c.name}: {out.seconds:.2f} s", file=sys.stderr, flush=True)
                    self.judge(c, work, out)
                    self.values[work][c.name].append(out.seconds)
                    self.values[f"{work} cpu"][c.name].append(spent)

    async def one_output(self, c: Contender, channels: Channels, work: str) -> tuple[Output, float]:
        """Run one of WORK; give what came and the services' seconds of processor time."""
        await channels.settle()
        spent = c.cpu() + self.agents_of(c)
        out = await channels.run(WORK[work][0])
        return out, c.cpu() + self.agents_of(c) - spent

    def judge(self, c: Contender, work: str, out: Output) -> None:
        """Note what has not come."""
        _, printed, shown = WORK[work]
        if out.printed != printed:
            self.note(f"{c.name}, {work}: {out.printed} of {printed} characters came")
        if out.shown != shown:
            self.note(f"{c.name}, {work}: {out.shown} of {shown} outputs came")

    async def again(self, c: Contender, lost: Channels) -> Channels:
        """Open a new kernel where the websocket has ended: some servers end the connection for good."""
        await lost.ws.close()
        kernel = await c.gateway.start(self.http)
        self.kernels.append((c.gateway, kernel))
        return await self.stack.enter_async_context(c.gateway.open(self.http, kernel, c.framing))

    async def talk(self, trips: int, rounds: int) -> None:
        """Measure messages, of one kernel of each contender."""
        self.kernels: list[tuple[Gateway, str]] = []
        try:
            async with AsyncExitStack() as self.stack:
                open_: dict[str, Channels] = {}
                for c in self.contenders.values():
                    if c.name == "Slipway, standing by":
                        continue
                    kernel = await c.gateway.start(self.http)
                    self.kernels.append((c.gateway, kernel))
                    open_[c.name] = await self.stack.enter_async_context(c.gateway.open(self.http, kernel, c.framing))
                    await open_[c.name].settle()
                await self.trips(open_, trips)
                await self.output(open_, rounds)
        finally:
            for gateway, kernel in self.kernels:
                await gateway.stop(self.http, kernel)

    async def idle(self, name: str, most: int, kernels: int = 4) -> None:
        """Open many websockets to a few kernels of a server in Python, until it takes no more."""
        c = self.contenders[name]
        before, count, reading = c.resident(), 0, []
        ids = [await c.gateway.start(self.http) for _ in range(kernels)]
        # A session of its own: the connections of a server that answers no more are cut, and not closed one by one.
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
            try:
                async with asyncio.timeout(75):
                    for count in range(most):
                        channels = await c.gateway.connect(http, ids[count % kernels])
                        reading.append(asyncio.create_task(channels.read()))
                        async with asyncio.timeout(10):
                            await channels.ask()
                    count = most
            except (LostError, TimeoutError, aiohttp.ClientError, OSError) as error:
                self.note(f"{name}: no websocket after the {count}th: {type(error).__name__} {str(error)[:200]}")
            await asyncio.sleep(1)
            self.values["connections"][name] = [count, before, c.resident()]
            for task in reading:
                task.cancel()
        for kernel in ids:
            try:
                async with asyncio.timeout(10):
                    await c.gateway.stop(self.http, kernel)
            except (LostError, TimeoutError, aiohttp.ClientError) as error:
                self.note(f"{name}: {kernels} kernels with many websockets do not stop: {type(error).__name__}")


def ms(values: list[float]) -> str:
    """Give median and 95th percentile in milliseconds."""
    if len(values) < 2:
        return "-"
    p95 = statistics.quantiles(values, n=20, method="inclusive")[-1]
    return f"{1e3 * statistics.median(values):.1f} / {1e3 * p95:.1f}"


def middle(values: list[float], form: str) -> str:
    """Give the median with its range."""
    if not values:
        return "-"
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def report(values: Values, names: Iterable[str], idle: dict[str, Any]) -> str:
    """Give the tables."""
    rows = []
    for name in names:
        cells = [ms(values[key][name]) for key in ("start", "info", "reply", "idle")]
        rows.append([name, *cells, middle([1e3 * v for v in values["trip cpu"][name]], ".2f")])
    head = ["ms: median / 95th of 100", "start", "kernel_info", "`pass`: reply", "`pass`: idle", "CPU ms a request"]
    text = table(head, rows) + "\n"
    rows = [
        [name, *(middle(values[work + cost][name], ".2f") for work in WORK for cost in ("", " cpu"))]
        for name in names
        if values["info"][name]
    ]
    head = ["seconds: median (range)", "100,000 prints", "CPU", "50 MB at once", "CPU", "10,000 displays", "CPU"]
    text += table(head, rows) + "\n"
    rows = []
    for name, (count, before, after) in values["connections"].items():
        rows.append([name, "4", f"{count:.0f}", f"{before:.0f}", f"{after:.0f}", kilo(before, after, count)])
    if idle:
        count, before, after = idle["connections"], idle["before_mb"], idle["after_mb"]
        cells = [f"{count}", f"{count}", f"{before:.0f}", f"{after:.0f}", kilo(before, after, count)]
        rows.insert(0, ["Slipway, kernels and agents played", *cells])
    head = ["service, idle websockets", "kernels", "websockets", "MB before", "**MB with them**", "kB each"]
    return text + table(head, rows)


def kilo(before: float, after: float, count: float) -> str:
    """Give the kilobytes of one."""
    return f"{1e3 * (after - before) / count:.0f}" if count else "-"


def series(values: Values) -> list[dict[str, Any]]:
    """Give what was measured as one line for each contender, in seconds, to the microsecond."""
    return [
        {"what": what, "who": who, "values": [round(value, 6) for value in all_]}
        for what, by in values.items()
        for who, all_ in by.items()
        if all_
    ]


async def main() -> int:
    """Measure all."""
    given = arguments()
    names = ("slipway", "plain", "enterprise", "over-slipway", "over-enterprise")
    ports = {name: getattr(given, f"{name.replace('-', '_')}_port") for name in names}
    processes = {name: getattr(given, f"{name.replace('-', '_')}_pid") for name in names}
    about, begun = machine(), time.monotonic()
    idle = json.loads(given.idle.read_text()) if given.idle else {}
    hub = await play_hub(given.hub_port)
    timeout = aiohttp.ClientTimeout(total=None, sock_read=180)
    async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0)) as http:
        try:
            for name, port in ports.items():
                await answers(http, f"http://127.0.0.1:{port}{'/readyz' if name == 'slipway' else '/api'}")
            bench = Bench(http, all_of(ports, processes, pooled=given.pooled), given.slipway_pid)
            await bench.starts(given.starts)
            await bench.talk(given.trips, given.rounds)
            resting = {name: resident(process) for name, process in processes.items()}
            for name in ("Jupyter Server", "Enterprise Gateway"):
                await bench.idle(name, given.connections)
        finally:
            await hub.cleanup()
    print(heading("kernels", about, os.getloadavg()[0]))
    print(report(bench.values, bench.contenders, idle))
    print("\n".join(f"- {note}" for note in bench.notes))
    print(
        f"\n{time.monotonic() - begun:.0f} s; MB after all output: "
        + ", ".join(f"{n} {v:.0f}" for n, v in resting.items())
    )
    rest = {"machine": about, "notes": bench.notes, "idle": idle, "resident": resting}
    given.json.write_text("".join(json.dumps(line) + "\n" for line in [rest, *series(bench.values)]))
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
