"""What the service says of storage elements: where they are, and at which URL a file is."""

from __future__ import annotations

from dataclasses import dataclass

from ._wire import JSON, items, text


@dataclass(frozen=True)
class Mount:
    """A directory of this session that shows a storage element; a ``cached`` one cannot be written to."""

    path: str = ""
    cached: bool = False
    trouble: str = ""

    @classmethod
    def from_json(cls, doc: JSON) -> Mount:
        """Read a mount."""
        return cls(text(doc, "path"), bool(doc.get("cached")), text(doc, "trouble"))


@dataclass(frozen=True)
class Storage:
    """A storage element; ``mounts`` are its directories in this session, ``trouble`` is its cache's."""

    name: str = ""
    origin: str = ""
    path: str = ""
    write: bool = False
    cache: str = ""
    cache_up: bool = False
    trouble: str = ""
    mounts: tuple[Mount, ...] = ()

    @classmethod
    def from_json(cls, doc: JSON) -> Storage:
        """Read a storage element."""
        return cls(
            **{key: text(doc, key) for key in ("name", "origin", "path", "cache", "trouble")},
            write=bool(doc.get("write")),
            cache_up=bool(doc.get("cache_up")),
            mounts=tuple(Mount.from_json(mount) for mount in items(doc, "mounts") if isinstance(mount, dict)),
        )


@dataclass(frozen=True)
class DataURL:
    """Where a file is for one use, now; ``origin`` is for when the cache goes away meanwhile."""

    url: str = ""
    element: str = ""
    path: str = ""
    origin: str = ""
    cached: bool = False
    why: str = ""

    @classmethod
    def from_json(cls, doc: JSON) -> DataURL:
        """Read where a file is."""
        return cls(
            **{key: text(doc, key) for key in ("url", "element", "path", "origin", "why")},
            cached=bool(doc.get("cached")),
        )

    def __str__(self) -> str:
        """Give the URL."""
        return self.url
