"""What the counters of a GPU tell, and how jobs share it: run by gpu.sh. Changes no setting of the GPU."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from machine import heading, machine, spread, table

JOBS = (1, 2, 4, 8)
DUTIES = (0.25, 0.5, 1.0)
CONTROL = "nvidia-cuda-mps-control"


@dataclass
class Moment:
    """One reading of the GPU; what cannot be measured is missing."""

    time: float
    energy: float | None  # J
    power: float | None  # W
    counters: dict[str, float]  # percent


@dataclass
class Phase:
    """What the counters said while one load ran."""

    duty: float
    moments: list[Moment]


@dataclass
class Share:
    """Some jobs at once."""

    way: str
    jobs: int
    duty: float
    rates: list[float]  # rounds per second of each
    problem: str = ""


@dataclass
class Limit:
    """A memory limit of MPS against a process."""

    limit: str
    asked: str
    got: bool
    said: str


@dataclass
class Results:
    """Everything that was measured."""

    device: str
    driver: str
    about: dict[str, str]
    phases: list[Phase] = field(default_factory=list)
    shares: list[Share] = field(default_factory=list)
    limits: list[Limit] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class Helper:
    """The program slipway-gpu, on one GPU."""

    def __init__(self, program: str, uuid: str, seconds: int) -> None:
        self.program, self.uuid, self.seconds = program, uuid, seconds

    def load(self, duty: float, env: Mapping[str, str], memory: str = "") -> subprocess.Popen[str]:
        """Start a job."""
        argv = [self.program, "load", "--seconds", str(self.seconds), "--duty", str(duty)]
        if memory:
            argv += ["--memory", memory]
        pipe = subprocess.PIPE
        return subprocess.Popen(argv, env=dict(env), stdout=pipe, stderr=pipe, text=True)  # noqa: S603

    def plain(self) -> dict[str, str]:
        """Give the environment of a job without MPS, whatever daemon runs already."""
        nowhere = {"CUDA_MPS_PIPE_DIRECTORY": "/nonexistent", "CUDA_VISIBLE_DEVICES": self.uuid}
        return {**os.environ, **nowhere}

    def watch(self, seconds: float) -> list[Moment]:
        """Read the GPU again and again."""
        argv = [self.program, "watch", "--seconds", str(seconds), "--every", "0.2"]
        done = subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        own = [moment(line["time"], line["reading"]) for line in lines if line["uuid"] == self.uuid]
        return own[1:]  # the first shows the library's own start, and what was before


def moment(at: float, reading: Mapping[str, object]) -> Moment:
    """Take what was measured; -1 stands for what was not."""
    known = {name: float(value) for name, value in reading.items() if isinstance(value, int | float) and value >= 0}
    counters: dict[str, float] = {name: known[name] for name in ("sm", "utilisation") if name in known}
    energy, power = known.get("energy"), known.get("power")
    return Moment(at, None if energy is None else energy / 1000, None if power is None else power / 1000, counters)


def main() -> int:
    """Measure everything, print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--helper", required=True)
    parser.add_argument("--inventory", required=True, type=Path)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    inventory = json.loads(args.inventory.read_text())
    whole = [gpu["device"] for gpu in inventory["gpus"] if not gpu["device"]["mig_enabled"]]
    if not whole:
        print("gpu.py: no GPU is whole: MIG is on, and it is not switched off here", file=sys.stderr)
        return 1
    device = whole[0]
    results = Results(device["name"], inventory["system"]["driver"], machine())
    helper = Helper(args.helper, device["uuid"], args.seconds)
    measure_counters(helper, results)
    for duty in (1.0, 0.3):
        results.shares += [share(helper, "time slicing", jobs, duty, helper.plain()) for jobs in JOBS]
    measure_mps(helper, results)
    if args.json:
        args.json.write_text(json.dumps(asdict(results), indent=1) + "\n")
    print(render(results))
    return 1 if any(s.problem for s in results.shares) else 0


def measure_counters(helper: Helper, results: Results) -> None:
    """Compare what the counters say with what is known to run."""
    results.phases.append(Phase(0, helper.watch(helper.seconds)))
    for duty in DUTIES:
        job = helper.load(duty, helper.plain())
        time.sleep(2)  # the driver compiles the kernel, and the power is a mean of the last second
        results.phases.append(Phase(duty, helper.watch(max(helper.seconds - 3, 1))))
        _, said = job.communicate()
        if job.returncode != 0:
            results.notes.append(f"the load of duty {duty} failed: {said.strip()}")
        time.sleep(2)


def share(helper: Helper, way: str, jobs: int, duty: float, env: Mapping[str, str]) -> Share:
    """Run jobs at once."""
    running = [helper.load(duty, env) for _ in range(jobs)]
    rates, problems = [], []
    for job in running:
        out, said = job.communicate()
        if job.returncode == 0:
            report = json.loads(out)
            rates.append(report["rounds"] / report["seconds"])
        else:
            problems.append(said.strip())
    return Share(way, jobs, duty, rates, "; ".join(problems))


def measure_mps(helper: Helper, results: Results) -> None:
    """Do the same through MPS, where it is installed."""
    control = shutil.which(CONTROL)
    if control is None:
        results.notes.append(f"MPS: {CONTROL} is not installed")
        return
    try:
        with daemon(control, helper.uuid) as env:
            for duty in (1.0, 0.3):
                results.shares += [share(helper, "MPS", jobs, duty, env) for jobs in JOBS]
            if not order(control, env, "get_server_list"):
                results.notes.append("MPS: the daemon has no server: the jobs ran without it")
        with daemon(control, helper.uuid) as env:  # a server takes the limit as it starts
            order(control, env, "set_default_device_pinned_mem_limit 0 2G")
            results.limits += [limited(helper, env, "2G", asked) for asked in ("1G", "4G")]
    except (subprocess.SubprocessError, OSError) as error:
        results.notes.append(f"MPS: the daemon does not start: {error}")


def limited(helper: Helper, env: Mapping[str, str], limit: str, asked: str) -> Limit:
    """Ask for memory under a limit."""
    job = helper.load(0.1, env, asked)
    _, said = job.communicate()
    return Limit(limit, asked, job.returncode == 0, said.strip())


@contextlib.contextmanager
def daemon(control: str, uuid: str) -> Iterator[dict[str, str]]:
    """Run an MPS daemon of our own; the GPU belongs to it, so its clients name none."""
    with tempfile.TemporaryDirectory(prefix="slipway-mps-") as folder:
        pipes, logs = Path(folder, "pipe"), Path(folder, "log")
        pipes.mkdir()
        logs.mkdir()
        env = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
        env |= {"CUDA_MPS_PIPE_DIRECTORY": str(pipes), "CUDA_MPS_LOG_DIRECTORY": str(logs)}
        subprocess.run([control, "-d"], check=True, env={**env, "CUDA_VISIBLE_DEVICES": uuid}, timeout=30)  # noqa: S603
        try:
            yield env
        finally:
            order(control, env, "quit")


def order(control: str, env: Mapping[str, str], command: str) -> str:
    """Give the daemon one command, and its answer."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        done = subprocess.run(  # noqa: S603
            [control], check=False, env=dict(env), input=command + "\n", capture_output=True, text=True, timeout=30
        )
        return done.stdout.strip()
    return ""


def render(results: Results) -> str:
    """Give the tables."""
    about = {"driver": results.driver, **results.about}
    parts = [
        heading(results.device, about, os.getloadavg()[0]),
        counters_table(results.phases),
        energy_table(results.phases),
    ]
    parts.append(shares_table(results.shares))
    if results.limits:
        rows = [(x.limit, x.asked, "given" if x.got else f"refused: {x.said}") for x in results.limits]
        parts.append(table(("MPS limit", "a process asks for", "result"), rows))
    parts += [f"- {note}" for note in results.notes]
    return "\n".join(parts)


def counters_table(phases: Sequence[Phase]) -> str:
    """Say what each counter showed under each load, and whether idle and busy can be told apart."""
    rows = []
    for name in ("sm", "utilisation"):
        values = [[m.counters[name] for m in phase.moments if name in m.counters] for phase in phases]
        if not all(values):
            rows.append((name, *("not measured" for _ in phases), "-"))
            continue
        apart = min(value for busy in values[1:] for value in busy) > max(values[0])
        rows.append((name, *(spread(v, ".1f") for v in values), "yes" if apart else "no"))
    head = ("percent: median (min to max)", *(f"duty {phase.duty:g}" for phase in phases), "idle and busy apart")
    return table(head, rows)


def energy_table(phases: Sequence[Phase]) -> str:
    """Compare the energy counter with the power over the time."""
    rows = []
    for phase in phases:
        known = [(m.time, m.energy, m.power) for m in phase.moments if m.energy is not None and m.power is not None]
        counted, integrated = energies([(t, e, p) for t, e, p in known if e is not None and p is not None])
        ratio = f"{counted / integrated:.3f}" if integrated > 0 else "-"
        power = [p for _, _, p in known if p is not None]
        rows.append((f"duty {phase.duty:g}", spread(power, ".0f"), f"{counted:.0f}", f"{integrated:.0f}", ratio))
    return table(("load", "W: median (min to max)", "J counted", "J integrated", "ratio"), rows)


def energies(known: Sequence[tuple[float, float, float]]) -> tuple[float, float]:
    """Give the counter's difference, and the area under the power."""
    if len(known) < 2:
        return 0, 0
    area = sum((b[0] - a[0]) * (a[2] + b[2]) / 2 for a, b in itertools.pairwise(known))
    return known[-1][1] - known[0][1], area


def shares_table(shares: Sequence[Share]) -> str:
    """Say what jobs get done at once, against one alone without MPS, and how evenly."""
    alone = {s.duty: statistics.fmean(s.rates) for s in shares if s.jobs == 1 and s.way == "time slicing" and s.rates}
    rows = []
    for s in shares:
        base = alone.get(s.duty)
        if s.problem or not s.rates or not base:
            rows.append((s.way, f"{s.duty:g}", str(s.jobs), "failed", s.problem or "-"))
            continue
        rows.append(
            (s.way, f"{s.duty:g}", str(s.jobs), f"{sum(s.rates) / base:.2f}", f"{min(s.rates) / max(s.rates):.2f}")
        )
    return table(("way", "duty", "jobs at once", "work done, one alone = 1", "least/most of them"), rows)


if __name__ == "__main__":
    sys.exit(main())
