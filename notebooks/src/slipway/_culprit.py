"""Which part of a value cannot be pickled: its path from the argument on."""

from __future__ import annotations

import dis
import functools
import io
import types
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from ._errors import InvalidError
from ._values import CannotTravelError, dump, has_cloudpickle

_TRIES = 2000
"""How many parts of a value are tried before the search is given up."""


def refusal(what: str, value: Any, error: Exception, field: str) -> InvalidError:
    """Say which part of a value cannot travel, why, and what to do instead."""
    path, kind, error = _search(what, value, error)
    reason = (
        str(error).partition(": ")[0] if isinstance(error, CannotTravelError) else f"{type(error).__name__}: {error}"
    )
    remedy = _REMEDIES.get(kind.__name__, "pass plain data, or make the value in the job")
    if not has_cloudpickle():
        remedy += ", or %pip install cloudpickle"
    return InvalidError(
        f"{path}: a value of type {kind.__name__} cannot be pickled ({reason})", field=field, remedy=remedy
    )


_REMEDIES = {
    "generator": "pass a list: list(...) of it",
    "lock": "make the lock in the job: locks do not reach across processes",
    "TextIOWrapper": "pass the file's path, or what is in it",
    "BufferedReader": "pass the file's path, or what is in it",
    "BufferedWriter": "write the file in the job: what lies in its directory comes back",
    "Tensor": "pass value.cpu(), and move it to the GPU in the job",
}


def _search(path: str, value: Any, error: Exception) -> tuple[str, type, Exception]:
    """Go down into the first part that fails, as long as there is one."""
    tries, seen = 0, {id(value)}
    while True:
        for step, part in _parts(value):
            if id(part) in seen:
                continue
            tries += 1
            failure = _failure(part)
            if failure is not None and tries < _TRIES:
                seen.add(id(part))
                path, value, error = path + step, part, failure
                break
            if tries >= _TRIES:
                return path, type(value), error
        else:
            return path, type(value), error


def _failure(value: Any) -> Exception | None:
    try:
        dump(value, io.BytesIO())
    except Exception as error:  # noqa: BLE001 - a user's __reduce__ may raise anything
        return error
    return None


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Give what a value is made of, each with how it is reached from there."""
    if isinstance(value, Mapping):
        yield from ((f"[{_short(key)}]", part) for key, part in value.items())
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray | range):
        yield from ((f"[{at}]", part) for at, part in enumerate(value))
    elif isinstance(value, Set):
        yield from ((" (an element)", part) for part in value)
    elif isinstance(value, types.FunctionType):
        yield from function_parts(value)
    elif isinstance(value, types.MethodType):
        yield ".__self__", value.__self__
    elif isinstance(value, functools.partial):
        yield from ((".func", value.func), (".args", value.args), (".keywords", value.keywords))
    elif isinstance(getattr(value, "__dict__", None), dict) and not isinstance(value, type):
        yield from ((f".{name}", part) for name, part in vars(value).items())


def function_parts(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """Give what a function takes along: defaults, the variables around it, the globals that it uses."""
    yield from ((f" (a default: {at})", part) for at, part in enumerate(function.__defaults__ or ()))
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield f" (uses {name})", cell.cell_contents
        except ValueError:  # not set yet
            continue
    for name in sorted(global_names(function.__code__)):
        if name in function.__globals__:
            yield f" (uses {name})", function.__globals__[name]


def global_names(code: types.CodeType) -> set[str]:
    """Name the globals that code reads and does not set itself, in functions within it too."""
    read, written = _names(code)
    return read - written


def _names(code: types.CodeType) -> tuple[set[str], set[str]]:
    read, own, written = set(), set(), set()
    for op in dis.get_instructions(code):
        if op.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            read.add(str(op.argval))
        elif op.opname == "STORE_NAME":  # of a class's body, which nobody else sees
            own.add(str(op.argval))
        elif op.opname == "STORE_GLOBAL":
            written.add(str(op.argval))
    read -= own
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            inner = _names(constant)
            read, written = read | inner[0], written | inner[1]
    return read, written


def _short(key: object) -> str:
    text = repr(key)
    return text if len(text) <= 40 else text[:37] + "..."
