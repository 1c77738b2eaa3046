"""The points of a scan from a file: a table with a header (csv), or a list of objects (json)."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ._errors import InvalidError
from ._points import MOST, plain_text, wrong_name, wrong_value

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
        raise _refusal(f"{path}: not a .csv or .json file", "give the file one of these endings")
    points, lines, count = list[Point](), dict[tuple[str, ...], str](), 0
    try:
        for where, point in (_table if kind == ".csv" else _objects)(path):
            count += 1
            if count > MOST:
                continue  # it is counted, and not kept
            _check(where, point, points)
            same = lines.setdefault(tuple(point[name] for name in (points or [point])[0]), where)
            if same != where:
                raise _refusal(f"{where}: the same point as {same}", "give every point once")
            points.append(point)
    except OSError as error:
        raise _refusal(f"{path}: {error.strerror or error}", "give the path of a file that is there") from None
    except UnicodeDecodeError as error:
        raise _refusal(f"{path}: not UTF-8 text ({error.reason})", _REMEDIES[kind]) from None
    except (RecursionError, ValueError):
        raise _refusal(f"{path}: a value is nested too deeply, or has too many digits", _REMEDIES[kind]) from None
    if count > MOST:
        raise _refusal(f"{path}: {count:,} points are too many", f"at most {MOST:,} points")
    if not points:
        raise _refusal(f"{path}: there are no points in it", _REMEDIES[kind])
    return points


def _check(where: str, point: Point, before: list[Point]) -> None:
    if before and point.keys() != before[0].keys():
        odd = sorted(point.keys() ^ before[0].keys())[0]
        raise _refusal(f"{where}: {odd} is not in all points", "give every point the same names")
    for name, value in point.items():
        if wrong := None if before else wrong_name(name):
            raise _refusal(f"{where}: {wrong[0]}", wrong[1])
        if not value:
            raise _refusal(f"{where}: {name} has no value", "write one, or leave the line out")
        if wrong := wrong_value(value):
            raise _refusal(f"{where}: {name}: {wrong[0]}", wrong[1])


def _table(path: str) -> Iterator[tuple[str, Point]]:
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file, strict=True, skipinitialspace=True)
        try:
            header = [name.strip() for name in next(rows, [])]
            if twice := [name for name in header if header.count(name) > 1]:
                raise _refusal(f"{path}:1: {twice[0]} is there twice", "give every column its own name")
            if wrong := next(filter(None, map(wrong_name, header)), None):
                raise _refusal(f"{path}:1: {wrong[0]}", wrong[1])
            for row in rows:
                if not any(cell.strip() for cell in row):
                    continue
                if len(row) != len(header):
                    raise _refusal(
                        f"{path}:{rows.line_num}: {len(row)} values under {len(header)} names", _REMEDIES[".csv"]
                    )
                yield f"{path}:{rows.line_num}", dict(zip(header, (cell.strip() for cell in row), strict=True))
        except csv.Error as error:
            raise _refusal(f"{path}:{rows.line_num}: {error}", _REMEDIES[".csv"]) from None


def _objects(path: str) -> Iterator[tuple[str, Point]]:
    if os.path.getsize(path) > _WHOLE:
        raise _refusal(f"{path}: larger than {_WHOLE >> 20} MiB", "put large values into files, and their paths here")
    with open(path, encoding="utf-8-sig") as file:
        try:
            listed = json.load(file, parse_float=_number, parse_constant=_number)
        except json.JSONDecodeError as error:
            raise _refusal(f"{path}:{error.lineno}: {error.msg}", _REMEDIES[".json"]) from None
        except OverflowError as error:
            raise _refusal(f"{path}: {error}", "write a finite number, or null") from None
    if not isinstance(listed, Iterable) or isinstance(listed, str | Mapping):
        raise _refusal(f"{path}: not a list", _REMEDIES[".json"])
    for at, item in enumerate(listed):
        if not isinstance(item, Mapping) or not item:
            raise _refusal(f"{path}: point {at} is not an object with values", _REMEDIES[".json"])
        yield f"{path}: point {at}", {str(name): _written(value) for name, value in item.items()}


def _number(text: str) -> float:
    """Read a number that the job can read again, of which NaN, Infinity and 1e999 are none."""
    value = float(text)
    if not math.isfinite(value):
        raise OverflowError(f"{text} is no finite number")
    return value


def _written(value: Any) -> str:
    """Write a value so that the job reads it with its type."""
    return plain_text(value) if isinstance(value, str) else repr(value)


def _refusal(what: str, remedy: str) -> InvalidError:
    return InvalidError(f"--grid-file {what}", field="grid_file", remedy=remedy)
