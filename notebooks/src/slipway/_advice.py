"""What to do about a job that has failed, with the call that does it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from ._models import Job
from ._outcome import Outcome
from ._wire import memory, memory_bytes, memory_words


def advice(record: Job, outcome: Outcome, report: Mapping[str, Any], called: str = "") -> str:
    """Say what to do: by what the job has noted of its end, else by its cause, else in the service's words.

    ``called`` is what the notebook calls the job, or its scan.
    """
    called = called or f"slipway.job({record.id!r})"
    if missing := report.get("missing"):
        return (
            f"%pip install the package of {missing} in the session, and submit again; "
            f"if {missing} is a file of yours, import it in the cell or the function itself: then it goes along"
        )
    if outcome.cause == "output" and (packed := [name for name in record.out if name in _left(report)]):
        return f"{packed[0]} is a directory, and only files come back: pack it into one, and name that with --out"
    cause = outcome.cause or _guess(record, outcome, report)
    return _BY_CAUSE[cause](record, outcome, called) if cause in _BY_CAUSE else outcome.remedy


def _left(report: Mapping[str, Any]) -> Mapping[str, Any]:
    left = report.get("directories")
    return left if isinstance(left, Mapping) else {}


def _guess(record: Job, outcome: Outcome, report: Mapping[str, Any]) -> str:
    words = f"{report.get('type')} {report.get('message')}".lower()
    if "out of memory" in words and record.gpu not in ("", "none"):
        return "gpu-memory"
    return "memory" if report.get("type") == "MemoryError" or "memory" in outcome.reason.lower() else ""


def _memory(record: Job, outcome: Outcome, called: str) -> str:
    peak = outcome.max_rss or 0
    said = f"it had {memory(peak)} when it ended: " if peak else ""
    more = math.ceil(1.5 * max(memory_bytes(record.memory), peak) / 2**30) or 8  # as the service's own words
    return f'{said}{called}.retry(mem="{more}G") tries it with more than {memory_words(record.memory) or "the default"}'


def _time(record: Job, outcome: Outcome, called: str) -> str:
    seconds = _seconds(record.time_limit)
    more = f"{math.ceil(2 * seconds / 3600)}h" if seconds >= 1800 else f"{max(math.ceil(2 * seconds / 60), 1)}m"
    limit = f"it may run {record.time_limit}: " if record.time_limit else ""
    return f'{limit}{called}.retry(time="{more if seconds else "2h"}") gives it more'


def _gpu_memory(record: Job, outcome: Outcome, called: str) -> str:
    peak = f" (it had {memory(outcome.gpu.memory)})" if outcome.gpu and outcome.gpu.memory else ""
    held = record.gpu if record.gpu not in ("", "none") else "its slice"
    return (
        f"{held} has not enough memory{peak}: use smaller batches, or a larger slice, as "
        f'{called}.resubmit(gpu="whole"); slipway.gpus() lists them'
    )


def _signal(record: Job, outcome: Outcome, called: str) -> str:
    if outcome.signal in (4, 7, 8, 11):
        return f"a library has crashed: the end of {called}.log() says where; try it with smaller input"
    return outcome.remedy or f"{called}.retry() tries it again"


def _output(record: Job, outcome: Outcome, called: str) -> str:
    return f"write the files of --out into the directory that the cell begins in; {called}.log() says what it has done"


def _dependency(record: Job, outcome: Outcome, called: str) -> str:
    first = f"slipway.job({record.after[0]!r})" if record.after else "what it waits for"
    return f"see to {first} first, then {called}.retry()"


def _again(record: Job, outcome: Outcome, called: str) -> str:
    said = f"{outcome.remedy.rstrip('.')}; " if outcome.remedy else ""
    return f"{said}{called}.retry() tries it again"


def _own(record: Job, outcome: Outcome, called: str) -> str:
    """Say nothing of what its traceback says."""
    return ""


_BY_CAUSE = {
    "exit": _own,
    "memory": _memory,
    "time": _time,
    "gpu-memory": _gpu_memory,
    "signal": _signal,
    "output": _output,
    "dependency": _dependency,
    "disk": _again,
    "start": _again,
    "lost": _again,
    "canceled": _again,
}


def _seconds(text: str) -> float:
    """Read a duration as the service writes it: 1h0m0s."""
    units = {"h": 3600.0, "m": 60.0, "s": 1.0}
    return sum(float(number) * units[unit] for number, unit in re.findall(r"([\d.]+)([hms])(?![a-z])", text))
