"""How far a workload is, and how it ended, as the service says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ._wire import JSON, lines, memory, number, text, whole


@dataclass(frozen=True)
class JobProgress:
    """What a payload says of how far it is; ``of`` is 0 where it does not know of how much."""

    done: float = 0
    of: float = 0
    text: str = ""

    @classmethod
    def from_json(cls, doc: JSON) -> JobProgress:
        """Read a progress."""
        return cls(number(doc, "done") or 0, number(doc, "of") or 0, text(doc, "text"))

    @property
    def share(self) -> float | None:
        """How much is done, from 0 to 1; None where that is not known."""
        return min(max(self.done / self.of, 0.0), 1.0) if self.of > 0 else None

    def __str__(self) -> str:
        """Say it as people do: 40 of 100, epoch 4."""
        of = f" of {self.of:,.10g}" if self.of > 0 else ""
        return f"{self.done:,.10g}{of}" + (f", {self.text}" if self.text else "")


@dataclass(frozen=True)
class SliceUse:
    """What a job has made of its slice of a GPU: ``busy`` in the mean, 0 to 1; bytes; joules, 0 if not measured."""

    busy: float = 0
    memory: int = 0
    energy: float = 0

    @classmethod
    def from_json(cls, doc: JSON) -> SliceUse:
        """Read a use."""
        return cls(number(doc, "busy") or 0, whole(doc, "memory") or 0, number(doc, "energy") or 0)


@dataclass(frozen=True)
class Outcome:
    """How a workload ended. ``cause`` names in a word why it failed; ``cpu`` and ``wall`` are seconds."""

    exit_code: int | None = None
    reason: str = ""
    remedy: str = ""
    tail: str = ""
    failed: bool = False
    canceled: bool = False
    expired: bool = False
    at: str = ""
    max_rss: int | None = None
    cpu: float | None = None
    wall: float | None = None
    signal: int = 0
    cause: str = ""
    gpu: SliceUse | None = None

    def __repr__(self) -> str:
        """Say it in a line."""
        end = "canceled" if self.canceled else "failed" if self.failed else "done"
        said = [end, "" if self.exit_code is None else f"exit code {self.exit_code}", self.reason]
        said += [f"{self.wall:.1f} s" if self.wall else "", memory(self.max_rss) if self.max_rss else ""]
        return f"<Outcome: {', '.join(filter(None, said))}>"

    @classmethod
    def from_json(cls, doc: JSON) -> Outcome:
        """Read an outcome."""
        gpu = doc.get("gpu")
        return cls(
            exit_code=whole(doc, "exit_code"),
            reason=text(doc, "reason"),
            remedy=text(doc, "remedy"),
            tail=lines(doc, "tail"),
            failed=bool(doc.get("failed")),
            canceled=bool(doc.get("canceled")),
            expired=bool(doc.get("expired")),
            at=text(doc, "at"),
            max_rss=whole(doc, "max_rss"),
            cpu=number(doc, "cpu"),
            wall=number(doc, "wall"),
            signal=whole(doc, "signal") or 0,
            cause=text(doc, "cause"),
            gpu=SliceUse.from_json(gpu) if isinstance(gpu, Mapping) else None,
        )
