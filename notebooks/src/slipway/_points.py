"""The points of a scan as they are written: ``--scan k=1,2,3``, once for each name."""

from __future__ import annotations

import ast
import itertools
import keyword
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal

from ._errors import InvalidError

MOST = 10_000
"""How many points a scan may have."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_RANGE = re.compile(r"([A-Za-z_]+)\((.*)\)")
_QUOTED = re.compile(r""" *(["'])((?:(?!\1).)*)\1 *(,|\Z)""")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_DIGITS = Context(prec=60, Emax=MAX_EMAX, Emin=MIN_EMIN)
"""In which logarithmic ranges are reckoned: no C library's pow promises the same floats as the command has."""
_SPREADS = {"log": (3, 3), "linear": (3, 3), "range": (1, 3)}
_SPREAD_REMEDY = (
    "write it as log(first,last,count), linear(first,last,count) or range(first,end,step), or list the values"
)
_TAKEN = re.compile(r"(SLIPWAY_|LD_|PYTHON).*|PATH|HOME|USER|SHELL|TMPDIR|LANG")
_VALUE_BYTES = 4096
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True)
class _Axis:
    """The values of one name, counted and not made yet."""

    text: str
    name: str
    count: int
    values: Callable[[], Iterable[str]]


def parse_scan(given: Sequence[str]) -> list[dict[str, str]]:
    """Give a point for each combination of the values, those of the last name changing fastest."""
    axes = [_axis(text) for text in given]
    count = math.prod(axis.count for axis in axes)
    if count > MOST:
        raise _refusal(f"{count:,} points are too many", f"at most {MOST:,} points")
    values: dict[str, list[str]] = {}
    for axis in axes:
        if axis.name in values:
            raise _refusal(f"{axis.text}: {axis.name} is there twice", "give all its values in one list")
        values[axis.name] = _distinct(axis.text, axis.values())
    return [dict(zip(values, point, strict=True)) for point in itertools.product(*values.values())] if axes else []


def usable(name: str) -> bool:
    """Say whether a parameter may have this name."""
    return wrong_name(name) is None


def plain_text(text: str) -> str:
    """Write text so that the job reads it as text, also where it looks like a number."""
    if _CONTROL.search(text):
        return text
    try:
        ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return text
    return repr(text)


def wrong_name(name: str) -> tuple[str, str] | None:
    """Say what is wrong with a parameter's name, and what to do."""
    if keyword.iskeyword(name):
        return f"{name} is a word of Python's own", "choose another name"
    if not _NAME.fullmatch(name):
        return f"{name} is not a name", "a name of letters, digits and _, as variables have"
    if _TAKEN.fullmatch(name):
        return f"{name} has a meaning of its own", "choose another name"
    return None


def wrong_value(value: str) -> tuple[str, str] | None:
    """Say what is wrong with a parameter's value, and what to do."""
    if len(value.encode()) > _VALUE_BYTES:
        return "a value is too long", f"at most {_VALUE_BYTES} bytes: put more into a file"
    if _CONTROL.search(value):
        return "a value with control characters", "write it without them"
    return None


def _axis(text: str) -> _Axis:
    name, _, rest = (part.strip(" ") for part in text.partition("="))
    if not name or not rest:
        raise _refusal(f"{text or repr(text)}: not understood", "write it as name=value,value")
    if wrong := wrong_name(name):
        raise _refusal(f"{text}: {wrong[0]}", wrong[1])
    if call := _RANGE.fullmatch(rest):
        return _spread(text, name, call[1], [part.strip(" ") for part in call[2].split(",")])
    values = _split(text, rest)
    return _Axis(text, name, len(values), lambda: values)


def _distinct(text: str, values: Iterable[str]) -> list[str]:
    listed = list(values)
    for value in listed:
        if not value:
            raise _refusal(f"{text}: a value is missing between two commas", "write it as name=value,value")
        if wrong := wrong_value(value):
            raise _refusal(f"{text[:40]!r}: {wrong[0]}", wrong[1])
    most, times = Counter(listed).most_common(1)[0]
    if times > 1:
        raise _refusal(f"{text}: {most} is there twice", "give every value once")
    return listed


def _split(text: str, rest: str) -> list[str]:
    """Split at the commas. A value in quotes is text, as it stands between them: commas, spaces and digits too."""
    values, at = [], 0
    while at <= len(rest):
        if quoted := _QUOTED.match(rest, at):
            values.append(plain_text(quoted[2]))
            at = quoted.end() if quoted[3] else len(rest) + 1
        elif rest[at:].lstrip(" ").startswith(("'", '"')):
            raise _refusal(f"{text}: a quote is not closed, or not at a value's end", "write it as name='a,b','c'")
        else:
            end = rest.find(",", at)
            end = len(rest) if end < 0 else end
            values.append(rest[at:end].strip(" "))
            at = end + 1
    return values


def _spread(text: str, name: str, kind: str, given: list[str]) -> _Axis:
    """Read log(first,last,count), linear(first,last,count) and range(first,end,step)."""
    if kind not in _SPREADS:
        raise _refusal(f"{text}: a range is not understood", _SPREAD_REMEDY)
    numbers = [_number(part) for part in given]
    if None in numbers or not _SPREADS[kind][0] <= len(numbers) <= _SPREADS[kind][1]:
        raise _refusal(f"{text}: these are not the numbers of a range", _SPREAD_REMEDY)
    known = [number for number in numbers if number is not None]
    if kind == "range":
        return _stepped(text, name, known)
    first, last, count = float(known[0]), float(known[1]), known[2]
    if count < 1 or count != int(count):
        raise _refusal(f"{text}: the count is {given[2]}", f"write it as {kind}(first,last,count), count at least 1")
    if kind == "log" and (first == 0 or last == 0 or (first < 0) != (last < 0)):
        raise _refusal(f"{text}: a logarithmic range does not reach over 0", "begin and end on the same side of 0")
    if math.isinf(last - first):
        raise _refusal(f"{text}: these are not the numbers of a range", _SPREAD_REMEDY)
    return _Axis(
        text, name, int(count), lambda: [_between(kind, first, last, at, int(count)) for at in range(int(count))]
    )


def _between(kind: str, first: float, last: float, at: int, count: int) -> str:
    if at in (0, count - 1):
        value = first if at == 0 else last
    elif kind == "log":
        ratio = _DIGITS.ln(_DIGITS.divide(Decimal(last), Decimal(first)))
        power = _DIGITS.exp(_DIGITS.divide(_DIGITS.multiply(ratio, Decimal(at)), Decimal(count - 1)))
        value = float(_DIGITS.multiply(Decimal(first), power))
    else:
        value = first + (last - first) * at / (count - 1)
    return repr(float(f"{value:.12g}"))


def _stepped(text: str, name: str, given: list[float]) -> _Axis:
    first, end, step = (0, given[0], 1) if len(given) == 1 else (*given, 1)[:3]
    if step == 0:
        raise _refusal(f"{text}: steps of 0 lead nowhere", "write it as range(first,end,step)")
    whole = all(isinstance(number, int) for number in (first, end, step))
    if whole:
        count = max(0, -int((first - end) // step))
    else:
        first, end, step = float(first), float(end), float(step)
        steps = (end - first) / step
        if math.isinf(steps):
            raise _refusal(f"{text}: these are not the numbers of a range", _SPREAD_REMEDY)
        count = max(0, math.ceil(steps - 1e-9))  # a hair less, so that range(0,1,0.1) has 10 values and not 11
    if not count:
        raise _refusal(
            f"{text}: there is no value in this range", "write it as range(first,end,step); end is not in it"
        )

    def values() -> Iterable[str]:
        return [str(first + at * step) if whole else repr(float(f"{first + at * step:.12g}")) for at in range(count)]

    return _Axis(text, name, count, values)


def _number(text: str) -> float | None:
    if not _NUMBER.fullmatch(text):
        return None
    if text.lstrip("+-").isdigit() and len(text) < 4000 and -(2**63) <= int(text) < 2**63:
        return int(text)
    value = float(text)
    return value if math.isfinite(value) else None


def _refusal(what: str, remedy: str) -> InvalidError:
    return InvalidError(f"--scan {what}", field="scan", remedy=remedy)
