"""What the service says of GPUs: what there is, what is free, what a workload holds. Not known is None, never 0."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ._wire import JSON, items, number, text, whole


@dataclass(frozen=True)
class GPUUse:
    """How much of a slice is used; ``unmeasured`` says why a number is None."""

    source: str = ""
    sm: float | None = None
    memory: int | None = None
    peak: int | None = None
    energy_estimate: float | None = None
    idle: str = ""
    hint: str = ""
    unmeasured: str = ""

    @classmethod
    def from_json(cls, doc: JSON) -> GPUUse:
        """Read how much is used."""
        return cls(
            **{key: text(doc, key) for key in ("source", "idle", "hint", "unmeasured")},
            sm=number(doc, "sm"),
            memory=whole(doc, "memory"),
            peak=whole(doc, "peak"),
            energy_estimate=number(doc, "energy_estimate"),
        )


@dataclass(frozen=True)
class Slice:
    """The part of a GPU that a session or job holds; ``borrowed`` from an idle session, it may be called back."""

    name: str = ""
    model: str = ""
    uuid: str = ""
    memory: int = 0
    isolation: str = ""
    simulated: bool = False
    borrowed: bool = False
    use: GPUUse = field(default_factory=GPUUse)

    @classmethod
    def from_json(cls, doc: JSON) -> Slice:
        """Read a slice."""
        return cls(
            **{key: text(doc, key) for key in ("name", "model", "uuid", "isolation")},
            memory=whole(doc, "memory") or 0,
            simulated=bool(doc.get("simulated")),
            borrowed=bool(doc.get("borrowed")),
            use=GPUUse.from_json(_mapping(doc, "use")),
        )

    def __str__(self) -> str:
        """Name it as people do: 1g.18gb of NVIDIA H200."""
        simulated = " (simulated)" if self.simulated else ""
        return f"{self.name} of {self.model}{simulated}{', borrowed' if self.borrowed else ''}"


@dataclass(frozen=True)
class GPUOffer:
    """What can be asked for, with ``--gpu`` or by a profile: ``free`` now, of at most ``most``."""

    name: str = ""
    free: int = 0
    most: int = 0
    isolation: str = ""

    @classmethod
    def from_json(cls, doc: JSON) -> GPUOffer:
        """Read an offer."""
        return cls(text(doc, "name"), whole(doc, "free") or 0, whole(doc, "most") or 0, text(doc, "isolation"))


@dataclass(frozen=True)
class GPUSlice:
    """A part of a GPU; ``state`` is held, lent, ready, foreign or quarantined. Names of others are left out."""

    name: str = ""
    place: str = ""
    memory: int = 0
    state: str = ""
    user: str = ""
    workload: str = ""
    borrower: str = ""
    since: str = ""
    until: str = ""
    why: str = ""
    use: GPUUse = field(default_factory=GPUUse)

    @classmethod
    def from_json(cls, doc: JSON) -> GPUSlice:
        """Read a part of a GPU."""
        keys = ("name", "place", "state", "user", "workload", "borrower", "since", "until", "why")
        return cls(
            **{key: text(doc, key) for key in keys},
            memory=whole(doc, "memory") or 0,
            use=GPUUse.from_json(_mapping(doc, "use")),
        )


@dataclass(frozen=True)
class GPU:
    """A GPU; ``condition`` is ready, occupied, drained, lost or unset, and ``why`` says more."""

    uuid: str = ""
    index: int = 0
    model: str = ""
    mode: str = ""
    isolation: str = ""
    condition: str = ""
    why: str = ""
    memory: int = 0
    memory_used: int | None = None
    utilisation: float | None = None
    power: float | None = None
    temperature: int | None = None
    offers: tuple[GPUOffer, ...] = ()
    slices: tuple[GPUSlice, ...] = ()

    @classmethod
    def from_json(cls, doc: JSON) -> GPU:
        """Read a GPU."""
        return cls(
            **{key: text(doc, key) for key in ("uuid", "model", "mode", "isolation", "condition", "why")},
            index=whole(doc, "index") or 0,
            memory=whole(doc, "memory") or 0,
            memory_used=whole(doc, "memory_used"),
            utilisation=number(doc, "utilisation"),
            power=number(doc, "power"),
            temperature=whole(doc, "temperature"),
            offers=tuple(GPUOffer.from_json(offer) for offer in _mappings(doc, "offers")),
            slices=tuple(GPUSlice.from_json(part) for part in _mappings(doc, "slices")),
        )


@dataclass(frozen=True)
class GPUs:
    """The site's GPUs. Shown, it lists what can be asked for and what of it is free."""

    driver: str = ""
    cuda: str = ""
    simulated: bool = False
    problem: str = ""
    taken: str = ""
    offers: tuple[GPUOffer, ...] = ()
    gpus: tuple[GPU, ...] = ()

    @classmethod
    def from_json(cls, doc: JSON) -> GPUs:
        """Read what there is of GPUs."""
        return cls(
            **{key: text(doc, key) for key in ("driver", "cuda", "problem", "taken")},
            simulated=bool(doc.get("simulated")),
            offers=tuple(GPUOffer.from_json(offer) for offer in _mappings(doc, "offers")),
            gpus=tuple(GPU.from_json(gpu) for gpu in _mappings(doc, "gpus")),
        )

    def __repr__(self) -> str:
        """List the offers in columns."""
        rows = [_HEAD, *self._rows()] if self.offers else []
        widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))] if rows else []
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join([*lines, *self._remarks()])

    def _repr_html_(self) -> str:
        head = "".join(f'<th scope="col">{cell}</th>' for cell in _HEAD)
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


_HEAD: Sequence[str] = ("ask for", "free", "of", "isolation")


def _mapping(doc: JSON, key: str) -> JSON:
    value = doc.get(key)
    return value if isinstance(value, Mapping) else {}


def _mappings(doc: JSON, key: str) -> list[JSON]:
    return [item for item in items(doc, key) if isinstance(item, Mapping)]
