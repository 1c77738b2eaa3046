"""The points of a scan as they are written: ``--scan k=1,2,3``, once for each name."""

from __future__ import annotations

import itertools
import keyword
import math
import re
from collections import Counter
from collections.abc import Sequence

from ._errors import InvalidError

MOST = 10_000
"""How many points a scan may have."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_RANGE = re.compile(r"[A-Za-z_]+\(.*\)")
_TAKEN = re.compile(r"(SLIPWAY_|LD_|PYTHON).*|PATH|HOME|USER|SHELL|TMPDIR|LANG")
_VALUE_BYTES = 4096


def parse_scan(given: Sequence[str]) -> list[dict[str, str]]:
    """Give a point for each combination of the values, those of the last name changing fastest."""
    count = math.prod(text.count(",") + 1 for text in given)
    if count > MOST:
        raise _refusal(f"{count:,} points are too many", f"at most {MOST:,} points")
    axes: dict[str, list[str]] = {}
    for text in given:
        name, values = _axis(text)
        if name in axes:
            raise _refusal(f"{text}: {name} is there twice", "give all its values in one list")
        axes[name] = values
    return [dict(zip(axes, point, strict=True)) for point in itertools.product(*axes.values())] if axes else []


def usable(name: str) -> bool:
    """Say whether a parameter may have this name."""
    return bool(_NAME.fullmatch(name)) and not keyword.iskeyword(name) and not _TAKEN.fullmatch(name)


def _axis(text: str) -> tuple[str, list[str]]:
    name, _, rest = (part.strip(" ") for part in text.partition("="))
    if not name or not rest:
        raise _refusal(f"{text or repr(text)}: not understood", "write it as name=value,value")
    if _RANGE.fullmatch(rest):
        raise _refusal(f"{text}: a range is not understood", f"write its values, as {name}=1,2,3")
    if keyword.iskeyword(name):
        raise _refusal(f"{text}: {name} is a word of Python's own", "choose another name")
    if not _NAME.fullmatch(name):
        raise _refusal(f"{text}: {name} is not a name", "a name of letters, digits and _, as variables have")
    if _TAKEN.fullmatch(name):
        raise _refusal(f"{text}: {name} has a meaning of its own", "choose another name")
    values = [value.strip(" ") for value in rest.split(",")]
    for value in values:
        _check(text, value)
    most, times = Counter(values).most_common(1)[0]
    if times > 1:
        raise _refusal(f"{text}: {most} is there twice", "give every value once")
    return name, values


def _check(text: str, value: str) -> None:
    if not value:
        raise _refusal(f"{text}: a value is missing between two commas", "write it as name=value,value")
    if len(value.encode()) > _VALUE_BYTES:
        raise _refusal(f"{text[:40]}...: a value is too long", f"at most {_VALUE_BYTES} bytes: put more into a file")
    if any(char < " " or char == "\x7f" for char in value):
        raise _refusal(f"{text!r}: a value with control characters", "write it without them")


def _refusal(what: str, remedy: str) -> InvalidError:
    return InvalidError(f"--scan {what}", field="scan", remedy=remedy)
