"""Where the data is: ``slipway.data.url("eos:run7/events.root")`` gives the URL for here and now.

Who reads is sent to the site's cache while it answers, and else to the origin; who writes always to the origin.
"""

from __future__ import annotations

from typing import Any

from ._client import Client
from ._models import DataURL, Mount, Storage

__all__ = ["DataURL", "Mount", "Storage", "elements", "locate", "url"]


def url(lfn: str, write: bool = False, *, direct: bool = False, **client: Any) -> str:
    """Give the URL at which a file is read, or written with ``write``; ``direct`` reads past the cache.

    A file is named as ELEMENT:PATH, by its path on the storage's server, by its path below /storage, or by a URL.
    The storage is not asked: the file need not be there. What a cache has read once it does not look at again.
    """
    return locate(lfn, write, direct=direct, **client).url


def locate(lfn: str, write: bool = False, *, direct: bool = False, **client: Any) -> DataURL:
    """Give the URL with what it rests on, and the one at the origin for when the cache goes away."""
    with Client(**client) as connection:
        return connection.data_url(lfn, write=write, direct=direct)


def elements(**client: Any) -> list[Storage]:
    """List the site's storage elements, and where this session has them as directories."""
    with Client(**client) as connection:
        return connection.storage()
