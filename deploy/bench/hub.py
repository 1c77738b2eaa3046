"""A real Hub under load, and what the service has to do with it. Run by ``hub``."""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx

from containers import process_cpu
from machine import heading, machine, table

STEPS = {
    "token": "token",
    "start answered": "POST answered",
    "ready": "POST to ready",
    "visit": "`api` through the proxy",
    "stop": "stop",
    "delete user": "delete user",
}
ANSWERS = {
    "start": "`POST /sessions`",
    "poll": "`GET /sessions/ID`",
    "stop": "`POST /sessions/ID/stop`",
    "visit": "session proxy",
}
QUANTILES = ("p50_ms", "p95_ms", "p99_ms", "max_ms")


def arguments() -> argparse.Namespace:
    """Read the command line, most of which ``hub`` writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--hub", "--service", "--slipway", "--token-file"):
        parser.add_argument(name, required=True)
    parser.add_argument("--pids", required=True, type=int, nargs=3, help="of the service, the Hub, the proxy")
    parser.add_argument("--users", default="1000")
    parser.add_argument("--concurrency", default="100")
    parser.add_argument("--rate", default="0")
    parser.add_argument("--hold", default="75s")
    parser.add_argument("--json", type=Path, help="write the load's report and the service's figures there")
    return parser.parse_args()


def load(given: argparse.Namespace) -> dict[str, Any]:
    """Lay the load on the Hub and give its report; what failed is in it."""
    argv = [given.slipway, "bench", "hub", "--json", "--hub-url", given.hub, "--token-file", given.token_file]
    for name in ("users", "concurrency", "rate", "hold"):
        argv += [f"--{name}", getattr(given, name)]
    done = subprocess.run(argv, stdout=subprocess.PIPE, check=False, text=True)  # noqa: S603
    if not done.stdout:
        raise SystemExit(f"the load gave no report; exit code {done.returncode}")
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def figures(service: str) -> dict[str, Any]:
    """Ask the simulated service for what it measured since it was asked last."""
    answer = httpx.get(f"{service}/simulated/figures?reset", trust_env=False, timeout=30)
    found: dict[str, Any] = answer.raise_for_status().json()
    return found


def memory(pid: int) -> float:
    """Give the most resident memory that a process has had, in MB."""
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    peak = next(line for line in status if line.startswith("VmHWM:"))
    return int(peak.split()[1]) * 1024 / 1e6


def main() -> int:
    """Measure and print."""
    given, about = arguments(), machine()
    empty = figures(given.service)
    before = [process_cpu(pid) for pid in given.pids]
    report = load(given)
    service, hub, proxy = (process_cpu(pid) - was for pid, was in zip(given.pids, before, strict=True))
    own = figures(given.service)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    if given.json:
        given.json.write_text(json.dumps({"about": about, "report": report, "service": own, "empty": empty}, indent=1))
    print(heading("hub", about, os.getloadavg()[0]))
    print(
        f"{report['most_up']} of {report['users']} sessions up at one time, within {report['up_s']:.0f} s"
        f" ({report['up'] / (report['up_s'] or 1):.1f} a second); all stopped within {report['down_s']:.0f} s.\n"
    )
    print(table(["seconds, at the Hub", "ok", "failed", "p50", "p95", "p99", "max"], at_hub(report)))
    print(table(["milliseconds, at the service", "answers", "p50", "p95", "p99", "max"], at_service(own)))
    rows = [
        ["service", f"{service:.1f}", f"{memory(given.pids[0]):.0f}"],
        ["Hub", f"{hub:.1f}", f"{memory(given.pids[1]):.0f}"],
        ["the Hub's proxy", f"{proxy:.1f}", f"{memory(given.pids[2]):.0f}"],
        ["the load", f"{used.ru_utime + used.ru_stime:.1f}", f"{used.ru_maxrss * 1024 / 1e6:.0f}"],
    ]
    print(table(["whole run", "CPU seconds", "most memory, MB"], rows))
    print(f"Service / Hub, CPU: **{service / hub:.3f}** (target: under 0.1).")
    print(f"The service's memory before the first session: {empty['rss'] / 1e6:.0f} MB.")
    for name, step in report["steps"].items():
        for why, times in step.get("reasons", {}).items():
            print(f"- {name}: {times} times: {why}")
    return 0 if report["up"] == int(given.users) and not report["left"] else 1


def at_hub(report: dict[str, Any]) -> list[list[str]]:
    """Give the rows of what the load's users saw."""
    steps = [(title, report["steps"][name]) for name, title in STEPS.items()]
    return [
        [title, str(step["count"]), str(step["failed"]), *(f"{step[q] / 1000:.2f}" for q in QUANTILES)]
        for title, step in steps
    ]


def at_service(own: dict[str, Any]) -> list[list[str]]:
    """Give the rows of how long the service's answers took."""
    known = [(title, own["answers"][name]) for name, title in ANSWERS.items() if name in own["answers"]]
    return [[title, str(times["count"]), *(f"{times[q]:.1f}" for q in QUANTILES)] for title, times in known]


if __name__ == "__main__":
    sys.exit(main())
