"""The points of a scan as they are written: with --scan, once for each name, or in the file of --grid-file."""

from __future__ import annotations

import csv
import itertools
import json
import keyword
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ._errors import InvalidError
from ._payload.runner import literal

MOST = 10_000
"""How many points a scan may have."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_RANGE = re.compile(r"([A-Za-z_]+)\((.*)\)")
_QUOTED = re.compile(r""" *(["'])((?:(?!\1).)*)\1 *(,|\Z)""")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
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
    return text if literal(text) == text else _json(text)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


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
    elif kind == "log":  # both have the same sign
        part = at / (count - 1)
        value = math.copysign(abs(first) ** (1 - part) * abs(last) ** part, first)
    else:
        value = first + (last - first) * at / (count - 1)
    return _rounded(value)


def _rounded(value: float) -> str:
    """Write a number without the digits in which reckoning shows. A float stays one where a job reads it."""
    text = f"{value:.12g}"
    return text if "." in text or "e" in text else text + ".0"


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
        return [str(first + at * step) if whole else _rounded(first + at * step) for at in range(count)]

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


_WHOLE = 64 << 20
"""How large a file may be that has to be read as a whole."""
_REMEDIES = {
    ".csv": "write the names in the first line, and a point in each of the others",
    ".json": 'write it as [{"k": 1, "mode": "fast"}, ...]',
}

Point = dict[str, str]


def read_points(path: str) -> list[Point]:
    """Read the points of a file; what is wrong is named by file and line, and nothing but the points is kept."""
    kind = os.path.splitext(path)[1].lower()
    if kind not in _REMEDIES:
        raise _file_refusal(f"{path}: not a .csv or .json file", "give the file one of these endings")
    points, lines, count = list[Point](), dict[tuple[str, ...], str](), 0
    try:
        for where, point in (_table if kind == ".csv" else _objects)(path):
            count += 1
            if count > MOST:
                continue  # it is counted, and not kept
            _check(where, point, points)
            same = lines.setdefault(tuple(point[name] for name in (points or [point])[0]), where)
            if same != where:
                raise _file_refusal(f"{where}: the same point as {same}", "give every point once")
            points.append(point)
    except OSError as error:
        raise _file_refusal(f"{path}: {error.strerror or error}", "give the path of a file that is there") from None
    except UnicodeDecodeError as error:
        raise _file_refusal(f"{path}: not UTF-8 text ({error.reason})", _REMEDIES[kind]) from None
    except (RecursionError, ValueError):
        raise _file_refusal(f"{path}: a value is nested too deeply, or has too many digits", _REMEDIES[kind]) from None
    if count > MOST:
        raise _file_refusal(f"{path}: {count:,} points are too many", f"at most {MOST:,} points")
    if not points:
        raise _file_refusal(f"{path}: there are no points in it", _REMEDIES[kind])
    return points


def _check(where: str, point: Point, before: list[Point]) -> None:
    if before and point.keys() != before[0].keys():
        odd = sorted(point.keys() ^ before[0].keys())[0]
        raise _file_refusal(f"{where}: {odd} is not in all points", "give every point the same names")
    for name, value in point.items():
        if wrong := None if before else wrong_name(name):
            raise _file_refusal(f"{where}: {wrong[0]}", wrong[1])
        if not value:
            raise _file_refusal(f"{where}: {name} has no value", "write one, or leave the line out")
        if wrong := wrong_value(value):
            raise _file_refusal(f"{where}: {name}: {wrong[0]}", wrong[1])


def _table(path: str) -> Iterator[tuple[str, Point]]:
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file, strict=True, skipinitialspace=True)
        try:
            header = [name.strip() for name in next(rows, [])]
            if twice := [name for name in header if header.count(name) > 1]:
                raise _file_refusal(f"{path}:1: {twice[0]} is there twice", "give every column its own name")
            if wrong := next(filter(None, map(wrong_name, header)), None):
                raise _file_refusal(f"{path}:1: {wrong[0]}", wrong[1])
            for row in rows:
                if not any(cell.strip() for cell in row):
                    continue
                if len(row) != len(header):
                    raise _file_refusal(
                        f"{path}:{rows.line_num}: {len(row)} values under {len(header)} names", _REMEDIES[".csv"]
                    )
                yield f"{path}:{rows.line_num}", dict(zip(header, (cell.strip() for cell in row), strict=True))
        except csv.Error as error:
            raise _file_refusal(f"{path}:{rows.line_num}: {error}", _REMEDIES[".csv"]) from None


def _objects(path: str) -> Iterator[tuple[str, Point]]:
    if os.path.getsize(path) > _WHOLE:
        raise _file_refusal(
            f"{path}: larger than {_WHOLE >> 20} MiB", "put large values into files, and their paths here"
        )
    with open(path, encoding="utf-8-sig") as file:
        try:
            listed = json.load(file, parse_float=_number_of, parse_constant=_number_of)
        except json.JSONDecodeError as error:
            raise _file_refusal(f"{path}:{error.lineno}: {error.msg}", _REMEDIES[".json"]) from None
        except OverflowError as error:
            raise _file_refusal(f"{path}: {error}", "write a finite number, or null") from None
    if not isinstance(listed, Iterable) or isinstance(listed, str | Mapping):
        raise _file_refusal(f"{path}: not a list", _REMEDIES[".json"])
    for at, item in enumerate(listed):
        if not isinstance(item, Mapping) or not item:
            raise _file_refusal(f"{path}: point {at} is not an object with values", _REMEDIES[".json"])
        yield f"{path}: point {at}", {str(name): _written(value) for name, value in item.items()}


def _number_of(text: str) -> float:
    """Read a number that the job can read again, of which NaN, Infinity and 1e999 are none."""
    value = float(text)
    if not math.isfinite(value):
        raise OverflowError(f"{text} is no finite number")
    return value


def _written(value: Any) -> str:
    """Write a value so that the job reads it with its type."""
    return plain_text(value) if isinstance(value, str) else _json(value)


def _file_refusal(what: str, remedy: str) -> InvalidError:
    return InvalidError(f"--grid-file {what}", field="grid_file", remedy=remedy)
