"""What the service says of scans, of changes to them, and of why a job waits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ._outcome import JobProgress
from ._wire import JSON, items, number, text, whole

STATES = ("pending", "running", "done", "failed", "canceled")
"""The states of a job, in the order in which they are told."""


@dataclass(frozen=True)
class Scan:
    """A number of jobs that were submitted together, its points: ``states`` counts them.

    ``waiting`` says why the first that waits does, ``failure`` of what the first that failed has failed.
    """

    id: str
    name: str = ""
    user: str = ""
    backend: str = ""
    environment: str = ""
    created: str = ""
    points: int = 0
    states: Mapping[str, int] = field(default_factory=dict)
    held: int = 0
    waiting: str = ""
    failure: str = ""

    @classmethod
    def from_json(cls, doc: JSON) -> Scan:
        """Read a scan."""
        keys = ("id", "name", "user", "backend", "environment", "created", "waiting", "failure")
        states = doc.get("states")
        counts = states if isinstance(states, Mapping) else {}
        return cls(
            **{key: text(doc, key) for key in keys},
            points=whole(doc, "points") or 0,
            states={str(state): whole(counts, state) or 0 for state in counts},
            held=whole(doc, "held") or 0,
        )

    @property
    def ended(self) -> bool:
        """Whether all points have come to their end, good or bad."""
        return not self.states.get("pending", 0) and not self.states.get("running", 0)

    def words(self) -> str:
        """Count the points by their states."""
        counts = []
        for state in STATES:
            if count := self.states.get(state, 0):
                held = f" ({self.held:,} held)" if state == "pending" and self.held else ""
                counts.append(f"{count:,} {state}{held}")
        return ", ".join(counts)


@dataclass(frozen=True)
class ScanChange:
    """What came of a change to all points of a scan; ``why`` is of the first that it could not be done to."""

    scan: Scan
    changed: int = 0
    refused: int = 0
    why: str = ""

    @classmethod
    def from_json(cls, doc: JSON) -> ScanChange:
        """Read a change."""
        scan = doc.get("scan")
        return cls(
            Scan.from_json(scan if isinstance(scan, Mapping) else {}),
            whole(doc, "changed") or 0,
            whole(doc, "refused") or 0,
            text(doc, "why"),
        )

    def __repr__(self) -> str:
        """Say to how many points it was done, and how the scan stands."""
        refused = f", {self.refused:,} refused ({self.why})" if self.refused else ""
        points = "point" if self.changed == 1 else "points"
        return f"<{self.changed:,} {points} changed{refused}; scan {self.scan.id}: {self.scan.words()}>"


@dataclass(frozen=True)
class PointEvent:
    """How one point of a scan stands; ``slice`` is what it holds of a GPU, ``reason`` why it waits or has failed."""

    point: int = 0
    job: str = ""
    state: str = ""
    attempt: int = 1
    progress: JobProgress | None = None
    host: str = ""
    slice: str = ""
    reason: str = ""
    up: str = ""
    ended: str = ""
    wall: float = 0  # seconds that it ran, once it has ended

    @classmethod
    def from_json(cls, doc: JSON) -> PointEvent:
        """Read how a point stands."""
        progress = doc.get("progress")
        return cls(
            **{key: text(doc, key) for key in ("job", "state", "host", "slice", "reason", "up", "ended")},
            point=whole(doc, "point") or 0,
            attempt=whole(doc, "attempt") or 1,
            wall=number(doc, "wall") or 0,
            progress=JobProgress.from_json(progress) if isinstance(progress, Mapping) else None,
        )


@dataclass(frozen=True)
class Clause:
    """One requirement of a job, and how many slots it excludes: in all, and where no other does."""

    words: str = ""
    text: str = ""
    excludes: int = 0
    alone: int = 0


@dataclass(frozen=True)
class Explanation:
    """Why a job has not started: of ``slots``, how many fit, how many are free, and what each requirement excludes."""

    job: str = ""
    summary: str = ""
    slots: int = 0
    fit: int = 0
    free: int = 0
    clauses: tuple[Clause, ...] = ()
    remedy: str = ""

    @classmethod
    def from_json(cls, doc: JSON) -> Explanation:
        """Read an explanation."""
        found = [item for item in items(doc, "clauses") if isinstance(item, Mapping)]
        clauses = tuple(
            Clause(text(c, "words"), text(c, "text"), whole(c, "excludes") or 0, whole(c, "alone") or 0) for c in found
        )
        counts = {key: whole(doc, key) or 0 for key in ("slots", "fit", "free")}
        return cls(text(doc, "job"), text(doc, "summary"), **counts, clauses=clauses, remedy=text(doc, "remedy"))

    def __repr__(self) -> str:
        """Say it in lines."""
        lines = [f"{self.job}: {self.summary}"]
        if self.remedy:
            lines.append(f"  -> {self.remedy}")
        if self.slots:
            lines.append(f"of {self.slots:,} slots, {self.fit:,} have what it asks for, {self.free:,} of them free")
        lines += [f"  {c.words}: excludes {c.excludes:,}, it alone {c.alone:,}" for c in self.clauses]
        return "\n".join(lines)
