"""The kernels on slices that the service offers, and what a user's next ones are to have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ._wire import JSON, items, known, memory_words, number, text

PARTS = ("gpu", "cpus", "memory", "environment")
"""What of a kernelspec can be switched."""

DEFAULT = "default"
"""Goes back to what is usual."""


@dataclass(frozen=True)
class KernelRoom:
    """How soon a kernel would start: ``state`` is free, queued, waits, limit or refused; ``wait`` is in seconds."""

    state: str = ""
    words: str = ""
    wait: float = -1

    @classmethod
    def from_json(cls, doc: JSON) -> KernelRoom:
        """Read how soon."""
        return cls(text(doc, "state"), text(doc, "words"), known(doc, "wait"))


@dataclass(frozen=True)
class KernelSpec:
    """A kind of kernel that its user may start, as it would start now; ``switched`` is what of it is not as usual."""

    name: str
    display_name: str = ""
    language: str = ""
    profile: str = ""
    backend: str = ""
    environment: str = ""
    digest: str = ""
    stack: str = ""
    gpu: str = ""
    cpus: float | None = None
    memory: str = ""
    idle_limit: str = ""
    gpus: tuple[str, ...] = ()
    max_cpus: float | None = None
    max_memory: str = ""
    switched: Mapping[str, str] = field(default_factory=dict)
    available: KernelRoom = KernelRoom()

    @classmethod
    def from_json(cls, doc: JSON) -> KernelSpec:
        """Read a kernelspec."""
        words = ("name", "display_name", "language", "profile", "backend", "environment", "digest", "stack", "gpu")
        read: dict[str, Any] = {key: text(doc, key) for key in (*words, "memory", "idle_limit", "max_memory")}
        switched, available = doc.get("switched"), doc.get("available")
        return cls(
            **read,
            cpus=number(doc, "cpus"),
            max_cpus=number(doc, "max_cpus"),
            gpus=tuple(map(str, items(doc, "gpus"))),
            switched={str(k): str(v) for k, v in switched.items()} if isinstance(switched, Mapping) else {},
            available=KernelRoom.from_json(available if isinstance(available, Mapping) else {}),
        )

    @property
    def words(self) -> str:
        """What it gives, in a line."""
        held = "" if self.gpu in ("", "none") else f"GPU {self.gpu}"
        cpus = f"{self.cpus:g} CPU" if self.cpus else ""
        return ", ".join(filter(None, (held, cpus, memory_words(self.memory))))
