"""The content of files that go to the service: bytes, or an open temporary file of what is too large for memory."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterator
from typing import IO

from ._values import LARGE

Content = bytes | IO[bytes]

_PIECE = 256 << 10
"""How many bytes are read and sent at once."""


def length(content: Content) -> int:
    """Count the bytes."""
    return len(content) if isinstance(content, bytes) else content.seek(0, io.SEEK_END)


def pieces(content: Content) -> Iterator[bytes]:
    """Give the bytes piece by piece, from the start."""
    file = io.BytesIO(content) if isinstance(content, bytes) else content
    file.seek(0)
    while piece := file.read(_PIECE):
        yield piece


def digest(content: Content) -> str:
    """Name the bytes."""
    file = io.BytesIO(content) if isinstance(content, bytes) else content
    file.seek(0)
    return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"  # type: ignore[arg-type]


def settled(file: IO[bytes]) -> Content:
    """Give a temporary file as bytes where these are few."""
    if length(file) > LARGE:
        return file
    file.seek(0)
    return file.read()


class Body:
    """A request's body that is read piece by piece, from the start in each try; ``told`` is told how much was sent."""

    def __init__(self, content: Content, told: Callable[[int], None] = lambda sent: None) -> None:
        self._content, self._told = content, told
        self.length = length(content)

    def __iter__(self) -> Iterator[bytes]:
        """Begin anew."""
        sent = 0
        for piece in pieces(self._content):
            yield piece
            sent += len(piece)
            self._told(sent)
