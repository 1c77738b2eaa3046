"""What the container engine and the kernel know of a session's container."""

from __future__ import annotations

import json
import subprocess
import time
from datetime import datetime
from pathlib import Path
from typing import Any


def docker(*arguments: str) -> str:
    """Run the engine's client and give what it printed, on both channels: `logs` uses both."""
    argv, joined = ["docker", *arguments], subprocess.STDOUT
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, stderr=joined, text=True).stdout  # noqa: S603


class Container:
    """A container as it is now."""

    def __init__(self, name: str) -> None:
        self.facts: dict[str, Any] = json.loads(docker("inspect", name))[0]

    @property
    def pid(self) -> int:
        """Its first process, as the host counts."""
        return int(self.facts["State"]["Pid"])

    @property
    def created(self) -> float:
        """When the engine began to make it."""
        return moment(self.facts["Created"])

    @property
    def started(self) -> float:
        """When the engine had started its first process."""
        return moment(self.facts["State"]["StartedAt"])

    def children(self) -> list[int]:
        """Give the processes that its first process has started."""
        threads = Path(f"/proc/{self.pid}/task").iterdir()
        return [int(pid) for thread in threads for pid in (thread / "children").read_text().split()]

    def cpu(self) -> float:
        """Give the CPU seconds that it has used."""
        for line in Path(f"/proc/{self.pid}/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if "cpuacct" in controllers.split(","):
                return int(Path(f"/sys/fs/cgroup/cpuacct{path}/cpuacct.usage").read_text()) / 1e9
            if not controllers and (stat := Path(f"/sys/fs/cgroup{path}/cpu.stat")).exists():
                return int(stat.read_text().split()[1]) / 1e6
        return 0.0


def process_cpu(pid: int) -> float:
    """Give the CPU seconds that a process has used, to 10 ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def session_container(session: str) -> Container:
    """Find the container of a Slipway session, by its labels."""
    for line in docker("ps", "--format", "{{.ID}} {{.Labels}}").splitlines():
        name, _, labels = line.partition(" ")
        if any(label.endswith(f"={session}") for label in labels.split(",")):
            return Container(name)
    raise LookupError(f"no running container is labelled with session {session}")


def moment(text: str) -> float:
    """Read a time with up to nine digits of fraction, of which Python takes six."""
    stem, _, fraction = text.rstrip("Z").partition(".")
    return datetime.fromisoformat(f"{stem}.{fraction[:6]:0<6}+00:00").timestamp()


def process_began(pid: int) -> float:
    """Give when a process was started, to 10 ms."""
    ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    boot = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return boot + ticks / 100
