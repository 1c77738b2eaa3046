"""How the service's documents are read: what is missing, or of another type, gets a default.

Keys that a newer service adds are ignored, and those that an older one lacks do no harm.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

JSON = Mapping[str, Any]

T = TypeVar("T")


class _Unfit(Exception):  # noqa: N818 - it is no error: the default stands
    """A value is not of the type that is wanted."""


def decode(kind: type[T], doc: object) -> T:
    """Read a document as a dataclass of ``_models``; of what is no document all is as if it was missing."""
    given = doc if isinstance(doc, Mapping) else {}
    read: dict[str, Any] = {}
    for name, key, reader in _fields(kind):  # type: ignore[arg-type]  # a type is hashable
        if key in given:
            try:
                read[name] = reader(given[key])
            except _Unfit:
                continue
    return kind(**read)


def decode_all(kind: type[T], docs: object) -> list[T]:
    """Read a list of documents; what is none in it is left out."""
    return [decode(kind, doc) for doc in docs if isinstance(doc, Mapping)] if isinstance(docs, list) else []


@cache
def _fields(kind: type) -> list[tuple[str, str, Callable[[object], Any]]]:
    """Return for each field its name, its key and what reads its value. A word of Python has a ``_`` behind it."""
    hints = get_type_hints(kind)
    fields: tuple[dataclasses.Field[Any], ...] = dataclasses.fields(kind)
    return [(field.name, field.name.removesuffix("_"), _reader(hints[field.name])) for field in fields]


def _reader(hint: Any) -> Callable[[object], Any]:
    if hint in _PLAIN:
        return _PLAIN[hint]
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return partial(_optional, _reader(next(arg for arg in args if arg is not types.NoneType)))
    if origin is Sequence:
        return partial(_sequence, _reader(args[0]))
    if origin is Mapping:
        return partial(_mapping, _reader(args[1]))
    return partial(_object, hint)


def _text(value: object) -> str:
    if value is None:
        raise _Unfit
    return value if isinstance(value, str) else "\n".join(map(str, value)) if isinstance(value, list) else str(value)


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _Unfit
    return value


def _whole(value: object) -> int:
    return int(_number(value))


def _optional(reader: Callable[[object], Any], value: object) -> Any:
    return None if value is None else reader(value)


def _sequence(reader: Callable[[object], Any], value: object) -> tuple[Any, ...]:
    """Read a list; what is unfit in it is left out."""
    read: list[Any] = []
    for item in value if isinstance(value, list) else ():
        try:
            read.append(reader(item))
        except _Unfit:
            continue
    return tuple(read)


def _mapping(reader: Callable[[object], Any], value: object) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise _Unfit
    read: dict[str, Any] = {}
    for key, item in value.items():
        try:
            read[str(key)] = reader(item)
        except _Unfit:
            continue
    return read


def _object(kind: type, value: object) -> Any:
    if not isinstance(value, Mapping):
        raise _Unfit
    return decode(kind, value)


_PLAIN: dict[Any, Callable[[object], Any]] = {
    str: _text,
    int: _whole,
    float: _number,
    bool: bool,
    Any: lambda value: value,
}


def text(doc: JSON, key: str) -> str:
    """Read text; what is missing is empty."""
    value = doc.get(key)
    return value if isinstance(value, str) else "" if value is None else str(value)


def whole(doc: JSON, key: str) -> int:
    """Read a whole number; what is missing is 0."""
    value = doc.get(key)
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0


def items(doc: JSON, key: str) -> list[Any]:
    """Read a list; what is missing is empty."""
    value = doc.get(key)
    return value if isinstance(value, list) else []


def first(doc: JSON, key: str) -> JSON:
    """Read the first object of a list; what is missing is empty."""
    found = items(doc, key)
    return found[0] if found and isinstance(found[0], Mapping) else {}
