"""What the types of ``_models`` can do beside holding data: words for people, and what follows from their fields.

``_models`` is generated; each of these classes is the base of the one there that has its name without Base.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from typing import Protocol

from ._units import amount, duration, memory, memory_words

STATES = ("pending", "running", "done", "failed", "canceled")
"""The states of a job, in the order in which they are told."""

ENDED = ("done", "failed", "canceled")
"""The states of a job that has come to its end."""


class Model:
    """A type of ``_models``."""

    def __repr__(self) -> str:
        """Write it as it could be made."""
        given = (f"{name}={getattr(self, name)!r}" for name in self.__match_args__)  # type: ignore[attr-defined]
        return f"{type(self).__name__}({', '.join(given)})"


class _Offer(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def free(self) -> int: ...
    @property
    def most(self) -> int: ...
    @property
    def isolation(self) -> str: ...


class _Clause(Protocol):
    @property
    def words(self) -> str: ...
    @property
    def excludes(self) -> int: ...
    @property
    def alone(self) -> int: ...


class SessionBase(Model):
    """A session."""

    phase: str

    @property
    def ended(self) -> bool:
        """Whether nothing of it runs any more."""
        return self.phase in ("stopped", "removing")


class JobBase(Model):
    """A job."""

    state: str

    @property
    def ended(self) -> bool:
        """Whether it has come to its end, good or bad."""
        return self.state in ENDED


class OutcomeBase(Model):
    """How a workload ended."""

    exit_code: int | None
    reason: str
    failed: bool
    canceled: bool
    wall: float
    max_rss: int

    def __repr__(self) -> str:
        """Say it in a line."""
        end = "canceled" if self.canceled else "failed" if self.failed else "done"
        said = [end, "" if self.exit_code is None else f"exit code {self.exit_code}", self.reason]
        said += [f"{self.wall:.1f} s" if self.wall else "", memory(self.max_rss) if self.max_rss else ""]
        return f"<Outcome: {', '.join(filter(None, said))}>"


class JobProgressBase(Model):
    """What a payload says of how far it is."""

    done: float
    of: float
    text: str

    @property
    def share(self) -> float | None:
        """How much is done, from 0 to 1; None where that is not known."""
        return min(max(self.done / self.of, 0.0), 1.0) if self.of > 0 else None

    def __str__(self) -> str:
        """Say it as people do: 40 of 100, epoch 4."""
        of = f" of {self.of:,.10g}" if self.of > 0 else ""
        return f"{self.done:,.10g}{of}" + (f", {self.text}" if self.text else "")


class SliceBase(Model):
    """What a workload holds of a GPU."""

    name: str
    model: str
    simulated: bool
    borrowed: bool

    def __str__(self) -> str:
        """Name it as people do: 1g.18gb of NVIDIA H200."""
        simulated = " (simulated)" if self.simulated else ""
        return f"{self.name} of {self.model}{simulated}{', borrowed' if self.borrowed else ''}"


class GPUsBase(Model):
    """The site's GPUs: shown, they are a list of what can be asked for and what of it is free."""

    problem: str
    taken: str
    simulated: bool
    offers: Sequence[_Offer]
    gpus: Sequence[object]

    def __repr__(self) -> str:
        """List the offers in columns."""
        rows = [_OFFERED, *self._rows()] if self.offers else []
        widths = [max(len(row[column]) for row in rows) for column in range(len(_OFFERED))] if rows else []
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join([*lines, *self._remarks()])

    def _repr_html_(self) -> str:
        head = "".join(f'<th scope="col">{cell}</th>' for cell in _OFFERED)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in self._rows()
        )
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if self.offers else ""
        return table + "".join(f"<p>{html.escape(remark)}</p>" for remark in self._remarks())

    def _rows(self) -> list[Sequence[str]]:
        return [(offer.name, str(offer.free), str(offer.most), offer.isolation) for offer in self.offers]

    def _remarks(self) -> list[str]:
        remarks = []
        if self.problem:
            remarks.append(f"{self.problem}; this is of {self.taken}")
        if self.simulated:
            remarks.append("these GPUs are simulated: no such hardware exists")
        if not self.offers:
            remarks.append("nothing can be asked for now" if self.gpus else "this site has no GPUs")
        return remarks


class ScanBase(Model):
    """A scan."""

    id: str
    states: Mapping[str, int]
    held: int

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


class ScanChangeBase(Model):
    """What came of a change to the points of a scan."""

    scan: ScanBase
    changed: int
    refused: int
    why: str

    def __repr__(self) -> str:
        """Say to how many points it was done, and how the scan stands."""
        refused = f", {self.refused:,} refused ({self.why})" if self.refused else ""
        points = "point" if self.changed == 1 else "points"
        return f"<{self.changed:,} {points} changed{refused}; scan {self.scan.id}: {self.scan.words()}>"


class ExplanationBase(Model):
    """Why a job has not started."""

    job: str
    summary: str
    slots: int
    fit: int
    free: int
    clauses: Sequence[_Clause]
    remedy: str

    def __repr__(self) -> str:
        """Say it in lines."""
        lines = [f"{self.job}: {self.summary}"]
        if self.remedy:
            lines.append(f"  -> {self.remedy}")
        if self.slots:
            lines.append(f"of {self.slots:,} slots, {self.fit:,} have what it asks for, {self.free:,} of them free")
        lines += [f"  {c.words}: excludes {c.excludes:,}, it alone {c.alone:,}" for c in self.clauses]
        return "\n".join(lines)


class ShareBase(Model):
    """Who may use an environment beside its owner."""

    with_: str
    group: str

    @property
    def words(self) -> str:
        """Who, in words."""
        return {"private": "nobody", "public": "everybody"}.get(self.with_, f"group {self.group}")


class ImportsBase(Model):
    """Whether the image alone can import what kernels had imported."""

    state: str
    modules: int
    broken: int

    @property
    def words(self) -> str:
        """What was found, in a line."""
        what = "1 module" if self.modules == 1 else f"{self.modules} modules"
        if self.state == "waiting":
            return "to be tried in the image alone: .refresh() in a moment"
        if self.state == "untried":
            return "could not be tried"
        if self.broken:
            return f"{self.broken} of the {what} that kernels had imported cannot be imported from the image alone"
        if not self.modules:
            return "nothing but Python's own modules, so there was nothing to try"
        return f"tried in the image alone: the {what} that kernels had imported"


class EnvironmentBase(Model):
    """An environment, under one of its names."""

    digest: str
    owner: str
    mine: bool
    name: str
    tag: str
    moved: bool

    @property
    def short(self) -> str:
        """The digest as people read it: its first twelve digits."""
        return self.digest.removeprefix("sha256:")[:12]

    @property
    def label(self) -> str:
        """What people call it: owner/name:tag for another's, and the digest's beginning without a name."""
        name = (self.name or self.short) + (f":{self.tag}" if self.tag else "")
        return name if self.mine or not self.owner else f"{self.owner}/{name}"

    @property
    def ref(self) -> str:
        """A reference that means this one and no other, also when a newer one has its name."""
        return self.label if self.name and self.tag and not self.moved else self.digest


class DataURLBase(Model):
    """Where a file is for one use, now."""

    url: str

    def __str__(self) -> str:
        """Give the URL."""
        return self.url


class JobPlanBase(Model):
    """What a job would meet now."""

    backend: str
    free: int
    most: int
    waiting: int
    lacks: str
    estimate: int
    typical: float
    stored: int
    store: int
    gpu_hours: float
    gpu_most: float

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


class KernelSpecBase(Model):
    """A kind of kernel that its user may start."""

    gpu: str
    cpus: float
    memory: str

    @property
    def words(self) -> str:
        """What it gives, in a line."""
        held = "" if self.gpu in ("", "none") else f"GPU {self.gpu}"
        cpus = f"{self.cpus:g} CPU" if self.cpus else ""
        return ", ".join(filter(None, (held, cpus, memory_words(self.memory))))


class DifferenceBase(Model):
    """What one environment has other than another."""

    old: EnvironmentBase
    new: EnvironmentBase
    lines: Sequence[str]

    def __repr__(self) -> str:
        """Write the lines."""
        return "\n".join([f"{self.old.label} -> {self.new.label}", *(self.lines or ("no difference",))])

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(repr(self))}</pre>"


_OFFERED: Sequence[str] = ("ask for", "free", "of", "isolation")
