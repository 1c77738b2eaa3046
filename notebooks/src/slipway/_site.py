"""What a site offers and keeps, as plain values: profiles, environments, files of jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ._wire import JSON, items, known, number, text, whole


@dataclass(frozen=True)
class Share:
    """Who may use an environment beside its owner: ``with_`` is private, group or public."""

    with_: str = "private"
    group: str = ""

    @classmethod
    def from_json(cls, doc: JSON) -> Share:
        """Read a share."""
        return cls(text(doc, "with") or "private", text(doc, "group"))

    @property
    def words(self) -> str:
        """Who, in words."""
        return {"private": "nobody", "public": "everybody"}.get(self.with_, f"group {self.group}")


@dataclass(frozen=True)
class Imports:
    """Whether the image alone can import what kernels had imported: ``broken`` of ``modules`` it cannot.

    ``state`` is waiting, tried or untried; ``lines`` say what is wrong.
    """

    state: str
    modules: int = 0
    broken: int = 0
    lines: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, doc: JSON) -> Imports:
        """Read what was found."""
        lines = tuple(str(line) for line in items(doc, "lines"))
        return cls(text(doc, "state"), whole(doc, "modules") or 0, whole(doc, "broken") or 0, lines)

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


@dataclass(frozen=True)
class Environment:
    """An immutable software environment, under one of its names.

    Of ``size`` bytes ``own`` are not its base's; ``paused`` is for how many seconds its freeze held the session
    still; ``moved``: the tag names a newer one now. Python, packages, cuda and the least driver are ``known``
    some seconds after the freeze. ``imports`` is None where no session has said what it had imported.
    """

    digest: str
    owner: str = ""
    mine: bool = True
    name: str = ""
    tag: str = ""
    moved: bool = False
    note: str = ""
    created: str = ""
    used: str = ""
    size: int = 0
    own: int = 0
    base: str = ""
    session: str = ""
    unchanged: bool = False
    paused: float = 0
    share: Share = field(default_factory=Share)
    known: bool = False
    packages: int = 0
    python: str = ""
    cuda: str = ""
    driver: str = ""
    imports: Imports | None = None

    @classmethod
    def from_json(cls, doc: JSON) -> Environment:
        """Read an environment."""
        words = ("digest", "owner", "name", "tag", "note", "created", "used", "base", "session", "python")
        read: dict[str, Any] = {key: text(doc, key) for key in (*words, "cuda", "driver")}
        read |= {key: bool(doc.get(key, key == "mine")) for key in ("mine", "moved", "unchanged", "known")}
        read |= {key: whole(doc, key) or 0 for key in ("size", "own", "packages")}
        shared, imports = doc.get("share"), doc.get("imports")
        return cls(
            **read,
            paused=number(doc, "paused") or 0,
            share=Share.from_json(shared if isinstance(shared, Mapping) else {}),
            imports=Imports.from_json(imports) if isinstance(imports, Mapping) else None,
        )

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
        return cls(text(doc, "stage"), known(doc, "percent"), whole(doc, "bytes") or 0, text(doc, "message"))


@dataclass(frozen=True)
class JobFile:
    """A file that a job has left."""

    name: str
    size: int = 0

    @classmethod
    def from_json(cls, doc: JSON) -> JobFile:
        """Read a file's entry."""
        return cls(text(doc, "name"), whole(doc, "size") or 0)


@dataclass(frozen=True)
class Image:
    """An image that a profile offers; ``active`` counts the sessions that it has now."""

    name: str
    title: str = ""
    active: int = 0
    ref: str = ""  # as sessions of it have it

    @classmethod
    def from_json(cls, doc: JSON) -> Image:
        """Read an image."""
        return cls(text(doc, "name"), text(doc, "title"), whole(doc, "active") or 0, text(doc, "ref"))


@dataclass(frozen=True)
class Profile:
    """A kind of session that the site offers.

    ``free`` of at most ``most`` can start now, -1 meaning any number; ``lacks`` says why none can,
    ``waiting`` how many stand in line and ``estimate`` for how many seconds, -1 when it is not known.
    ``gpu`` is the slice that its sessions get, ``isolation`` the weakest that it has. ``backend`` is where they run;
    empty: where the site's usually do.
    """

    name: str
    title: str = ""
    description: str = ""
    kind: str = ""
    images: tuple[Image, ...] = field(default=())
    cpus: float | None = None
    max_cpus: float | None = None
    memory: str = ""
    max_memory: str = ""
    gpu: str = ""
    isolation: str = ""
    default: bool = False
    backend: str = ""
    free: int = -1
    most: int = -1
    lacks: str = ""
    waiting: int = 0
    estimate: float = -1

    @classmethod
    def from_json(cls, doc: JSON) -> Profile:
        """Read a profile."""
        keys = ("name", "title", "description", "kind", "memory", "max_memory", "gpu", "isolation", "backend", "lacks")
        images = [image for image in items(doc, "images") if isinstance(image, Mapping)]
        return cls(
            **{key: text(doc, key) for key in keys},
            images=tuple(Image.from_json(image) for image in images),
            cpus=number(doc, "cpus"),
            max_cpus=number(doc, "max_cpus"),
            default=bool(doc.get("default")),
            free=int(known(doc, "free")),
            most=int(known(doc, "most")),
            waiting=whole(doc, "waiting") or 0,
            estimate=known(doc, "estimate"),
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
        return cls(text(doc, "user"), text(doc, "hub"), bool(doc.get("admin")), text(doc, "session"))
