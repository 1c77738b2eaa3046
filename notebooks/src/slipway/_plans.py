"""What a job would meet if it were submitted now, and what the caller's jobs keep, as the service says it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ._wire import JSON, amount, items, known, number, text, whole


@dataclass(frozen=True)
class JobPlan:
    """What a job, or each point of a scan, would meet now: ``free`` start at once, ``most`` run together.

    Of those -1 means that it is not limited or not known. ``estimate`` is in seconds until one starts, ``typical`` how
    many seconds the caller's jobs of this name have run; -1: nobody knows.
    """

    backend: str = ""
    free: int = -1
    most: int = -1
    waiting: int = 0
    lacks: str = ""
    estimate: float = -1
    typical: float = -1
    points: int = 0
    stored: int = 0
    store: int = 0
    gpu_hours: float = 0
    gpu_most: float = 0

    @classmethod
    def from_json(cls, doc: JSON) -> JobPlan:
        """Read a plan."""
        return cls(
            backend=text(doc, "backend"),
            lacks=text(doc, "lacks"),
            free=int(known(doc, "free")),
            most=int(known(doc, "most")),
            estimate=known(doc, "estimate"),
            typical=known(doc, "typical"),
            **{key: whole(doc, key) or 0 for key in ("waiting", "points", "stored", "store")},
            gpu_hours=number(doc, "gpu_hours") or 0,
            gpu_most=number(doc, "gpu_most") or 0,
        )

    def words(self, points: int = 1, *, gpu: bool = False, known: bool = True) -> str:
        """Say in few words when ``points`` such jobs would start and, of a ``known`` name, how long they run."""
        said = [f"{self.backend}: {self._room()}" if self._room() else ""]
        if self.typical >= 0 and known:
            said.append(f"such jobs have run {duration(self.typical)}")
            if points > 1 and self.most > 0:
                took = duration(self.typical * math.ceil(points / self.most))
                said.append(f"all {points:,} in about {took} once they run")
        if gpu and self.gpu_most > 0:
            said.append(f"{self.gpu_hours:.3g} of {self.gpu_most:g} GPU hours used")
        if self.store > 0 and self.stored > 0.8 * self.store:
            said.append(f"your jobs keep {amount(self.stored)} of {amount(self.store)}")
        return ", ".join(filter(None, said))

    def _room(self) -> str:
        if self.free > 0:
            return f"{self.free:,} of {self.most:,} places free" if self.most > 0 else f"{self.free:,} places free"
        if self.free < 0 and not self.lacks:
            return ""
        line = f", {self.waiting:,} in line" if self.waiting else ""
        until = f", the next in about {duration(self.estimate)}" if self.estimate >= 0 else ""
        return f"no place free{f' ({self.lacks})' if self.lacks else ''}{line}{until}"


def duration(seconds: float) -> str:
    """Write a time as people say it."""
    if seconds < 100:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 100 * 60 else f"{seconds / 3600:.1f} h"


@dataclass(frozen=True)
class KeptFiles:
    """What one job, or a scan, keeps, and when that is removed; empty: it goes on, or never."""

    id: str = ""
    name: str = ""
    bytes: int = 0
    files: int = 0
    expires: str = ""

    @classmethod
    def from_json(cls, doc: JSON) -> KeptFiles:
        """Read what is kept."""
        words = {key: text(doc, key) for key in ("id", "name", "expires")}
        return cls(**words, bytes=whole(doc, "bytes") or 0, files=whole(doc, "files") or 0)


@dataclass(frozen=True)
class JobsUsage:
    """What the caller's jobs keep, in bytes, and the hours of GPUs that she has used; of both the most (0: any)."""

    stored: int = 0
    store: int = 0
    kept: tuple[KeptFiles, ...] = ()
    inputs: int = 0
    gpu_hours: float = 0
    gpu_most: float = 0
    window: str = ""

    @classmethod
    def from_json(cls, doc: JSON) -> JobsUsage:
        """Read a usage."""
        kept = [item for item in items(doc, "kept") if isinstance(item, Mapping)]
        return cls(
            **{key: whole(doc, key) or 0 for key in ("stored", "store", "inputs")},
            kept=tuple(KeptFiles.from_json(item) for item in kept),
            gpu_hours=number(doc, "gpu_hours") or 0,
            gpu_most=number(doc, "gpu_most") or 0,
            window=text(doc, "window"),
        )
