"""How sizes and times are written for people: in the same words as `slipway` and the pages."""

from __future__ import annotations

import re


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


def duration(seconds: float) -> str:
    """Write a time as people say it."""
    if seconds < 100:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 100 * 60 else f"{seconds / 3600:.1f} h"
