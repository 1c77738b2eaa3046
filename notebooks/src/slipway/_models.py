"""What the service says of workloads. Keys that a newer service adds are ignored; missing ones get defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ._gpus import Slice
from ._outcome import JobProgress, Outcome
from ._wire import JSON, items, known, number, text, whole

ENDED = ("done", "failed", "canceled")
"""The states of a job that has come to its end."""


@dataclass(frozen=True)
class Queue:
    """Where a workload stands in line; ``estimate`` is in seconds, -1 when it is not known."""

    place: int = 0
    lacks: str = ""
    estimate: float = -1

    @classmethod
    def from_json(cls, doc: JSON) -> Queue:
        """Read a place in line."""
        return cls(whole(doc, "place") or 0, text(doc, "lacks"), known(doc, "estimate"))


@dataclass(frozen=True)
class Stops:
    """When and why a running session will be stopped, and whether ``keep`` can put it off."""

    at: str = ""
    why: str = ""
    can_keep: bool = False
    max_keep: str = ""
    warning: str = ""

    @classmethod
    def from_json(cls, doc: JSON) -> Stops:
        """Read a stop that is to come."""
        can_keep = bool(doc.get("can_keep"))
        return cls(text(doc, "at"), text(doc, "why"), can_keep, text(doc, "max_keep"), text(doc, "warning"))


@dataclass(frozen=True)
class Workload:
    """What sessions and jobs have in common: ``gpu`` is what it asks for, ``slice`` what it holds.

    It began anew ``evictions`` times because a batch system had taken its place away.
    """

    id: str
    kind: str = ""
    user: str = ""
    name: str = ""
    backend: str = ""
    phase: str = ""
    want: str = ""
    launch: str = ""
    cpus: float | None = None
    memory: str = ""
    created: str = ""
    since: str = ""
    up: str = ""
    waiting: str = ""
    queue: Queue | None = None
    outcome: Outcome | None = None
    gpu: str = ""
    slice: Slice | None = None
    host: str = ""
    evictions: int = 0


@dataclass(frozen=True)
class Session(Workload):
    """One interactive workload of a user; ``page`` is the path of its own page at the Hub, if it has one.

    ``ssh`` is what to type in a terminal to reach it, if it can be reached so.
    """

    profile: str = ""
    image: str = ""
    environment: str = ""
    prefix: str = ""
    page: str = ""
    ssh: str = ""
    active: str = ""
    visited: str = ""
    keep_until: str = ""
    stops: Stops | None = None

    @classmethod
    def from_json(cls, doc: JSON) -> Session:
        """Read a session."""
        keys = ("profile", "image", "environment", "prefix", "page", "ssh", "active", "visited", "keep_until")
        own: dict[str, Any] = {key: text(doc, key) for key in keys}
        stops = doc.get("stops")
        own["stops"] = Stops.from_json(stops) if isinstance(stops, Mapping) else None
        return cls(**_workload(doc), **own)

    @property
    def ended(self) -> bool:
        """Whether nothing of it runs any more."""
        return self.phase in ("stopped", "removing")


@dataclass(frozen=True)
class Job(Workload):
    """One batch workload in a frozen environment; ``requeued`` counts how often it went back in line.

    One with a ``scan`` is a point of that: ``parameters`` set it apart from the others. One that is ``held`` waits
    until its owner releases it. ``argv`` and ``attempts``, how the tries before this one ended, are empty in lists.
    """

    environment: str = ""
    session: str = ""
    argv: tuple[str, ...] = ()
    time_limit: str = ""
    state: str = ""
    requeued: int = 0
    held: bool = False
    scan: str = ""
    point: int = 0
    parameters: Mapping[str, str] | None = None
    progress: JobProgress | None = None
    attempt: int = 1
    retries: int = 0
    attempts: tuple[Outcome, ...] = ()
    priority: int = 0
    after: tuple[str, ...] = ()
    out: tuple[str, ...] = ()
    origin: str = ""
    expires: str = ""

    @classmethod
    def from_json(cls, doc: JSON) -> Job:
        """Read a job."""
        keys = ("environment", "session", "time_limit", "state", "scan", "origin", "expires")
        own: dict[str, Any] = {key: text(doc, key) for key in keys}
        parameters, progress = doc.get("parameters"), doc.get("progress")
        return cls(
            **_workload(doc),
            **own,
            argv=tuple(str(arg) for arg in items(doc, "argv")),
            requeued=whole(doc, "requeued") or 0,
            held=bool(doc.get("held")),
            point=whole(doc, "point") or 0,
            parameters={str(k): str(v) for k, v in parameters.items()} if isinstance(parameters, Mapping) else None,
            progress=JobProgress.from_json(progress) if isinstance(progress, Mapping) else None,
            attempt=whole(doc, "attempt") or 1,
            retries=whole(doc, "retries") or 0,
            attempts=tuple(Outcome.from_json(one) for one in items(doc, "attempts") if isinstance(one, Mapping)),
            priority=whole(doc, "priority") or 0,
            after=tuple(map(str, items(doc, "after"))),
            out=tuple(map(str, items(doc, "out"))),
        )

    @property
    def ended(self) -> bool:
        """Whether it has come to its end, good or bad."""
        return self.state in ENDED


@dataclass(frozen=True)
class Event:
    """One step of a session's start or of a job; ``percent`` is -1 when it is not known."""

    seq: int = 0
    time: str = ""
    percent: float = -1
    message: str = ""
    final: bool = False
    failed: bool = False

    @classmethod
    def from_json(cls, doc: JSON) -> Event:
        """Read an event."""
        return cls(
            seq=whole(doc, "seq") or 0,
            time=text(doc, "time"),
            percent=known(doc, "percent"),
            message=text(doc, "message"),
            final=bool(doc.get("final")),
            failed=bool(doc.get("failed")),
        )


def _workload(doc: JSON) -> dict[str, Any]:
    keys = ("id", "kind", "user", "name", "backend", "phase", "want", "launch", "memory", "created", "since", "up")
    outcome, queue, held = doc.get("outcome"), doc.get("queue"), doc.get("slice")
    return {
        **{key: text(doc, key) for key in (*keys, "waiting", "gpu", "host")},
        "cpus": number(doc, "cpus"),
        "evictions": whole(doc, "evictions") or 0,
        "queue": Queue.from_json(queue) if isinstance(queue, Mapping) else None,
        "outcome": Outcome.from_json(outcome) if isinstance(outcome, Mapping) else None,
        "slice": Slice.from_json(held) if isinstance(held, Mapping) else None,
    }
