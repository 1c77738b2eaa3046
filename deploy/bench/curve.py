"""What a session costs the service at each number of them. Run by ``curve``."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from machine import heading, machine, table

COSTS = {
    "CPU-ms/start": ("start_cpu_ms", ".2f"),
    "wall-ms/start": ("start_wall_ms", ".2f"),
    "CPU-ms/poll": ("poll_cpu_ms", ".3f"),
    "idle CPU-ms/min": ("idle_cpu_ms", ".2f"),
}


def arguments() -> argparse.Namespace:
    """Read the command line, half of which ``curve`` writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulated", required=True)
    parser.add_argument("--dir", required=True)
    parser.add_argument("--levels", default="100,300,1000,3000,10000")
    parser.add_argument("--json", type=Path, help="write all that was measured there")
    return parser.parse_args()


def row(point: dict[str, Any]) -> list[str]:
    """Give one line of the table."""
    costs = [f"{point[key]:{form}}" for key, form in COSTS.values()]
    answers = point["steady"]["answers"]
    times = [f"{answers[name]['p99_ms']:.1f}" for name in ("start", "poll", "stop")]
    return [
        str(point["sessions"]),
        *costs,
        *times,
        f"{point['rss'] / 1e6:.0f}",
        f"{point['rss_per_session'] / 1e3:.0f}",
    ]


def main() -> int:
    """Measure and print."""
    given, about = arguments(), machine()
    argv = [given.simulated, "curve", "--dir", given.dir, "--levels", given.levels]
    done = subprocess.run(argv, stdout=subprocess.PIPE, check=True, text=True)  # noqa: S603
    found = json.loads(done.stdout)
    if given.json:
        given.json.write_text(json.dumps({"about": about, **found}, indent=1))
    points = found["points"]
    print(heading("curve", about, os.getloadavg()[0]))
    head = ["sessions", *COSTS, "p99 start, ms", "p99 poll", "p99 stop", "RSS, MB", "KB/session"]
    print(table(head, [row(point) for point in points]))
    first, last = points[0], points[-1]
    ratios = ", ".join(f"{name} {last[key] / first[key]:.2f}" for name, (key, _) in COSTS.items() if first[key])
    print(f"Cost at {last['sessions']} / at {first['sessions']} sessions: {ratios}.")
    print(f"RSS without any: {found['empty_rss'] / 1e6:.0f} MB.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
