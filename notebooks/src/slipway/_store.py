"""The large files of a job: they go to the caller's store, where what was sent once is found again by its digest."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Protocol

from ._content import Content, digest, length, pieces
from ._errors import InvalidError
from ._request import FILE_LIMIT
from ._show import LiveLine
from ._values import LARGE
from ._wire import amount

_SMALL = 64 << 10
"""Up to how many bytes a file goes with the request, which has 1 MiB at most."""
_TOGETHER = 256 << 10
"""How many bytes of files go with one request."""


class Store(Protocol):
    """The part of a client that is needed here."""

    def has_blob(self, digest: str) -> bool:
        """Say whether the caller's store has what a digest names."""

    def put_blob(self, digest: str, data: Content, told: Callable[[int], None] = ...) -> None:
        """Put data into the caller's store."""


class Cargoes:
    """The files of a job: ``files`` go with the request, the large ones are ``blobs`` of the store."""

    def __init__(self, files: Mapping[str, Content]) -> None:
        self._sizes = {name: length(content) for name, content in files.items()}
        for name, size in self._sizes.items():
            if size > FILE_LIMIT:
                raise InvalidError(
                    f"{name} is {amount(size)}, at most {amount(FILE_LIMIT)} can be sent",
                    field="in",
                    remedy="write it to a file or to storage that the job sees too, and pass its path",
                )
        light = _light(self._sizes)
        self.files = {name: b"".join(pieces(content)) for name, content in files.items() if name in light}
        self._large = {name: content for name, content in files.items() if name not in light}
        self.blobs = {name: digest(content) for name, content in self._large.items()}
        self._there: set[str] = set()

    def look(self, client: Store) -> str:
        """Look what the store has already, and say in words what is to be sent."""
        self._there = {digest for digest in set(self.blobs.values()) if client.has_blob(digest)}
        light = sum(self._sizes[name] for name in self.files)
        heavy = {digest: self._sizes[name] for name, digest in self.blobs.items()}
        known = sum(size for digest, size in heavy.items() if digest in self._there)
        rest = f", {amount(known)} are there already" if known else ""
        return f"sends {amount(light + sum(heavy.values()) - known)}{rest}"

    def send(self, client: Store, live: LiveLine | None = None) -> None:
        """Put into the store what it does not have, showing how far it is."""
        for name, named in self.blobs.items():
            if named not in self._there:
                shown = _Shown(live, name, self._sizes[name])
                client.put_blob(named, self._large[name], shown.update)
                shown.done()
                self._there.add(named)


def _light(sizes: Mapping[str, int]) -> set[str]:
    """Choose the files that go with the request: small ones, as many as there is room for."""
    chosen, room = set(), _TOGETHER
    for name in sorted(sizes, key=sizes.__getitem__):
        room -= sizes[name]
        if sizes[name] > _SMALL or room < 0:
            break
        chosen.add(name)
    return chosen


class _Shown:
    """The line of an upload that takes long enough to be looked at."""

    def __init__(self, live: LiveLine | None, name: str, size: int) -> None:
        self._live = live if size > LARGE else None
        self._name, self._size, self._begun = name, size, time.monotonic()

    def update(self, sent: int) -> None:
        if self._live is not None:
            words = f"sending {self._name}: {amount(sent)} of {amount(self._size)} ({100 * sent // self._size} %)"
            drawn = f'<progress max="{self._size}" value="{sent}" aria-label="{words}"></progress>'
            self._live.update(f"sending {self._name}", words, f'<div role="status">{drawn} {words}</div>')

    def done(self) -> None:
        if self._live is not None:
            took = max(time.monotonic() - self._begun, 0.001)
            rate = amount(self._size / took)
            self._live.done(f"sent {self._name}: {amount(self._size)} in {took:.1f} s ({rate}/s)")
