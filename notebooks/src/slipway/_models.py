"""What the service says, as plain values. Keys that a newer service adds are ignored; missing ones get defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

JSON = Mapping[str, Any]


@dataclass(frozen=True)
class Outcome:
    """How a workload ended."""

    exit_code: int | None = None
    reason: str = ""
    remedy: str = ""
    tail: str = ""
    failed: bool = False
    canceled: bool = False
    at: str = ""
    max_rss: int | None = None
    cpu: float | None = None

    @classmethod
    def from_json(cls, doc: JSON) -> Outcome:
        """Read an outcome."""
        return cls(
            exit_code=_int(doc, "exit_code"),
            reason=_str(doc, "reason"),
            remedy=_str(doc, "remedy"),
            tail=_tail(doc),
            failed=bool(doc.get("failed")),
            canceled=bool(doc.get("canceled")),
            at=_str(doc, "at"),
            max_rss=_int(doc, "max_rss"),
            cpu=_float(doc, "cpu"),
        )


@dataclass(frozen=True)
class Workload:
    """What sessions and jobs have in common."""

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
    outcome: Outcome | None = None


@dataclass(frozen=True)
class Session(Workload):
    """One interactive workload of a user."""

    profile: str = ""
    image: str = ""
    prefix: str = ""

    @classmethod
    def from_json(cls, doc: JSON) -> Session:
        """Read a session."""
        own: dict[str, Any] = {key: _str(doc, key) for key in ("profile", "image", "prefix")}
        return cls(**_workload(doc), **own)

    @property
    def ended(self) -> bool:
        """Whether nothing of it runs any more."""
        return self.phase in ("stopped", "removing")


@dataclass(frozen=True)
class Job(Workload):
    """One batch workload in a frozen environment."""

    environment: str = ""
    session: str = ""
    argv: tuple[str, ...] = ()
    time_limit: str = ""
    state: str = ""

    @classmethod
    def from_json(cls, doc: JSON) -> Job:
        """Read a job."""
        own: dict[str, Any] = {key: _str(doc, key) for key in ("environment", "session", "time_limit", "state")}
        return cls(**_workload(doc), **own, argv=tuple(str(arg) for arg in _list(doc, "argv")))

    @property
    def ended(self) -> bool:
        """Whether it has come to its end, good or bad."""
        return self.state in ("done", "failed", "canceled")


@dataclass(frozen=True)
class Environment:
    """An immutable software environment."""

    digest: str
    name: str = ""
    tag: str = ""
    note: str = ""
    created: str = ""
    size: int = 0
    base: str = ""
    session: str = ""
    unchanged: bool = False
    packages: int = 0
    python: str = ""

    @classmethod
    def from_json(cls, doc: JSON) -> Environment:
        """Read an environment."""
        keys = ("digest", "name", "tag", "note", "created", "base", "session", "python")
        return cls(
            **{key: _str(doc, key) for key in keys},
            size=_int(doc, "size") or 0,
            unchanged=bool(doc.get("unchanged")),
            packages=_int(doc, "packages") or 0,
        )

    @property
    def short(self) -> str:
        """The digest as people read it: its first twelve digits."""
        return self.digest.removeprefix("sha256:")[:12]


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
            seq=_int(doc, "seq") or 0,
            time=_str(doc, "time"),
            percent=_percent(doc),
            message=_str(doc, "message"),
            final=bool(doc.get("final")),
            failed=bool(doc.get("failed")),
        )


@dataclass(frozen=True)
class FreezeStep:
    """How far a freeze has come; ``percent`` is -1 when it is not known."""

    stage: str = ""
    percent: float = -1
    bytes: int = 0
    message: str = ""

    @classmethod
    def from_json(cls, doc: JSON) -> FreezeStep:
        """Read a step."""
        return cls(_str(doc, "stage"), _percent(doc), _int(doc, "bytes") or 0, _str(doc, "message"))


@dataclass(frozen=True)
class JobFile:
    """A file that a job has left."""

    name: str
    size: int = 0

    @classmethod
    def from_json(cls, doc: JSON) -> JobFile:
        """Read a file's entry."""
        return cls(_str(doc, "name"), _int(doc, "size") or 0)


@dataclass(frozen=True)
class Image:
    """An image that a profile offers."""

    name: str
    title: str = ""


@dataclass(frozen=True)
class Profile:
    """A kind of session that the site offers."""

    name: str
    title: str = ""
    description: str = ""
    kind: str = ""
    images: tuple[Image, ...] = field(default=())
    cpus: float | None = None
    max_cpus: float | None = None
    memory: str = ""
    max_memory: str = ""
    default: bool = False

    @classmethod
    def from_json(cls, doc: JSON) -> Profile:
        """Read a profile."""
        keys = ("name", "title", "description", "kind", "memory", "max_memory")
        images = [image for image in _list(doc, "images") if isinstance(image, Mapping)]
        return cls(
            **{key: _str(doc, key) for key in keys},
            images=tuple(Image(_str(image, "name"), _str(image, "title")) for image in images),
            cpus=_float(doc, "cpus"),
            max_cpus=_float(doc, "max_cpus"),
            default=bool(doc.get("default")),
        )


@dataclass(frozen=True)
class Me:
    """Who the service thinks is calling; ``session`` is empty outside a session."""

    user: str
    hub: str = ""
    admin: bool = False
    session: str = ""

    @classmethod
    def from_json(cls, doc: JSON) -> Me:
        """Read the caller."""
        return cls(_str(doc, "user"), _str(doc, "hub"), bool(doc.get("admin")), _str(doc, "session"))


def _workload(doc: JSON) -> dict[str, Any]:
    keys = [
        "id",
        "kind",
        "user",
        "name",
        "backend",
        "phase",
        "want",
        "launch",
        "memory",
        "created",
        "since",
        "up",
        "waiting",
    ]
    outcome = doc.get("outcome")
    return {
        **{key: _str(doc, key) for key in keys},
        "cpus": _float(doc, "cpus"),
        "outcome": Outcome.from_json(outcome) if isinstance(outcome, Mapping) else None,
    }


def _str(doc: JSON, key: str) -> str:
    value = doc.get(key)
    return value if isinstance(value, str) else "" if value is None else str(value)


def _int(doc: JSON, key: str) -> int | None:
    value = _float(doc, key)
    return None if value is None else int(value)


def _float(doc: JSON, key: str) -> float | None:
    value = doc.get(key)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _percent(doc: JSON) -> float:
    value = _float(doc, "percent")
    return -1 if value is None else value


def _list(doc: JSON, key: str) -> list[Any]:
    value = doc.get(key)
    return value if isinstance(value, list) else []


def _tail(doc: JSON) -> str:
    value = doc.get("tail")
    return "\n".join(map(str, value)) if isinstance(value, list) else _str(doc, "tail")
