"""What the benchmarks print: the machine, medians with their range, tables in Markdown."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path


def machine() -> dict[str, str]:
    """Tell where and when this ran; no names."""
    cpu = Path("/proc/cpuinfo").read_text()
    models = [line.partition(":")[2].strip() for line in cpu.splitlines() if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "kernel": platform.release(),
        "cores": str(os.cpu_count()),
        "model": models[0] if models else platform.machine(),
        "memory": f"{memory / 2**30:.0f} GiB",
        "load before": " ".join(f"{value:.2f}" for value in os.getloadavg()),
    }


def heading(name: str, about: dict[str, str], load_after: float) -> str:
    """Give the line above a report's tables."""
    facts = ", ".join(f"{key} {value}" for key, value in about.items())
    return f"**{name}**: {facts}, load after {load_after:.2f}\n"


def spread(values: Iterable[float], form: str = ".2f") -> str:
    """Give the median and, in brackets, the range."""
    known = sorted(values)
    if not known:
        return "-"
    return f"{statistics.median(known):{form}} ({known[0]:{form}} to {known[-1]:{form}})"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Give a table in Markdown."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"
