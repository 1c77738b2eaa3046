"""The large files of a job: they go to the caller's store, where what was sent once is found again by its digest."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from ._client import Client
from ._errors import InvalidError
from ._request import FILE_LIMIT
from ._values import LARGE
from ._wire import amount


class Cargoes:
    """The files of a job: ``files`` go with the request, the large ones are ``blobs`` of the store."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        for name, data in files.items():
            if len(data) > FILE_LIMIT:
                raise InvalidError(
                    f"{name} is {amount(len(data))}, at most {amount(FILE_LIMIT)} can be sent",
                    field="in",
                    remedy="write it to a file or to storage that the job sees too, and pass its path",
                )
        self.files = {name: data for name, data in files.items() if len(data) <= LARGE}
        self._large = {name: data for name, data in files.items() if len(data) > LARGE}
        self.blobs = {name: f"sha256:{hashlib.sha256(data).hexdigest()}" for name, data in self._large.items()}
        self._there: set[str] = set()

    def look(self, client: Client) -> str:
        """Look what the store has already, and say in words what is to be sent."""
        self._there = {digest for digest in set(self.blobs.values()) if client.has_blob(digest)}
        light = sum(map(len, self.files.values()))
        heavy = {digest: len(self._large[name]) for name, digest in self.blobs.items()}
        known = sum(size for digest, size in heavy.items() if digest in self._there)
        rest = f", {amount(known)} are there already" if known else ""
        return f"sends {amount(light + sum(heavy.values()) - known)}{rest}"

    def send(self, client: Client) -> None:
        """Put into the store what it does not have."""
        for name, digest in self.blobs.items():
            if digest not in self._there:
                client.put_blob(digest, self._large[name])
                self._there.add(digest)
