"""How values of the service's documents are read and shown: what is missing or of another type gets a default."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

JSON = Mapping[str, Any]


def text(doc: JSON, key: str) -> str:
    """Read text; what is missing is empty."""
    value = doc.get(key)
    return value if isinstance(value, str) else "" if value is None else str(value)


def whole(doc: JSON, key: str) -> int | None:
    """Read a whole number."""
    value = number(doc, key)
    return None if value is None else int(value)


def number(doc: JSON, key: str) -> float | None:
    """Read a number."""
    value = doc.get(key)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def known(doc: JSON, key: str) -> float:
    """Read a number that is -1 where it is not known."""
    value = number(doc, key)
    return -1 if value is None else value


def items(doc: JSON, key: str) -> list[Any]:
    """Read a list; what is missing is empty."""
    value = doc.get(key)
    return value if isinstance(value, list) else []


def first(doc: JSON, key: str) -> JSON:
    """Read the first object of a list; what is missing is empty."""
    found = items(doc, key)
    return found[0] if found and isinstance(found[0], Mapping) else {}


def lines(doc: JSON, key: str) -> str:
    """Read lines of text, given as a list or as one text."""
    value = doc.get(key)
    return "\n".join(map(str, value)) if isinstance(value, list) else text(doc, key)


def memory(size: float) -> str:
    """Write a size of memory, whose units are binary, as `slipway` and the pages do."""
    units = ["B", "KiB", "MiB", "GiB", "TiB"]
    at = 0
    while size >= 1023.95 and at < len(units) - 1:  # what would be written as 1024
        size, at = size / 1024, at + 1
    return f"{size:.1f}".removesuffix(".0") + f" {units[at]}"


def memory_words(given: str) -> str:
    """Write a size of memory in the same words that stands as 2G or 512M; what is none stays."""
    size = memory_bytes(given)
    return memory(size) if size else given


def memory_bytes(given: str) -> float:
    """Read a size of memory; 0: it is none."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?B)?", given.strip(), re.IGNORECASE)
    return float(found[1]) * 1024 ** " KMGT".index(found[2].upper() or " ") if found else 0


def amount(size: float) -> str:
    """Write a number of bytes, as of files, as people read it, and as `slipway` and the pages do."""
    units = ["B", "kB", "MB", "GB", "TB"]
    at = 0
    while size >= 999.5 and at < len(units) - 1:
        size, at = size / 1000, at + 1
    fine = (at > 0 and size < 9.95) or (at >= 3 and size < 99.95)
    number = f"{size:.1f}".removesuffix(".0") if fine else f"{size:.0f}"
    return f"{number} {units[at]}"
