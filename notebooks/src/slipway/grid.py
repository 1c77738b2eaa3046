"""Functions that run as batch jobs: ``from slipway import grid``, then ``@grid.function``.

A call does not come back with its value but with the job that finds it: ``f.remote(2).result()``. ``f.map(...)`` is
one scan, and so one freeze, however many calls there are.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import types
from collections.abc import Callable, Iterable
from typing import Any, Generic, ParamSpec, TypeVar, overload

from ._client import Client
from ._display import Screen, shell
from ._environments import warn_of_home
from ._errors import InvalidError
from ._jobs import JobHandle
from ._options import KEYWORDS, Options, keyword_options
from ._packing import Call, Calls, refuse_undefined
from ._payload.progress import progress
from ._points import MOST
from ._scans import ScanHandle, job, jobs, scan, scans
from ._submission import submit

__all__ = ["GridFunction", "function", "job", "jobs", "progress", "scan", "scans"]


def __dir__() -> list[str]:
    return [*__all__]


P = ParamSpec("P")
R = TypeVar("R")

_told: set[str] = set()


class GridFunction(Generic[P, R]):
    """A function that can run here, as any does, and as jobs. ``options`` are what its jobs ask for."""

    def __init__(self, wrapped: Callable[P, R], options: Options, connect: Callable[[], Client] = Client) -> None:
        self._function = _function(wrapped)
        self._wrapped = wrapped
        self.options = options
        self._connect = connect
        functools.update_wrapper(self, wrapped)

    def __call__(self, *args: P.args, **keywords: P.kwargs) -> R:
        """Call it here."""
        return self._wrapped(*args, **keywords)

    def local(self, *args: P.args, **keywords: P.kwargs) -> R:
        """Call it here, in this process: to try it before it is sent away."""
        return self._wrapped(*args, **keywords)

    def remote(self, *args: P.args, **keywords: P.kwargs) -> JobHandle:
        """Call it in a job of its own, and give the job: ``.result()`` waits for what the function returns."""
        submitted = self._submit([(args, keywords)])
        assert isinstance(submitted, JobHandle)  # noqa: S101 - there are no points
        return submitted

    def map(self, iterable: Iterable[Any]) -> ScanHandle:
        """Call it with each of the values, as one scan: a job each, submitted together, in one environment.

        Going through the scan gives the results in order, each as soon as it is there.
        """
        return self._scan((value,) for value in iterable)

    def starmap(self, iterable: Iterable[Iterable[Any]]) -> ScanHandle:
        """Call it with each of the tuples of arguments, as one scan."""
        return self._scan(tuple(values) for values in iterable)

    def with_options(self, **options: Any) -> GridFunction[P, R]:
        """Give the same function with other options, all of them new."""
        return GridFunction(self._wrapped, _options(self._wrapped, options), self._connect)

    def __reduce__(self) -> Any:
        """In a job it is the function alone: a job submits none."""
        return functools.partial, (self._function,)

    def __repr__(self) -> str:
        """Name it."""
        return f"<grid function {self._function.__name__}{inspect.signature(self._function)}>"

    def _scan(self, arguments: Iterable[tuple[Any, ...]]) -> ScanHandle:
        most = 1 if self.options.first_only else MOST + 1
        calls: list[Call] = [(args, {}) for args in itertools.islice(arguments, most)]
        name = self._function.__name__
        if not calls:
            raise InvalidError(f"{name}: there are no calls to make", field="points", remedy="give at least one value")
        if len(calls) > MOST:
            raise InvalidError(
                f"{name}: these are more than {MOST:,} calls",
                field="points",
                remedy=f"at most {MOST:,} in one scan: let each call do several",
            )
        submitted = self._submit(calls, scan=True)
        assert isinstance(submitted, ScanHandle)  # noqa: S101 - there are points
        return submitted

    def _submit(self, made: list[Call], *, scan: bool = False) -> JobHandle | ScanHandle:
        refuse_undefined(self._function)
        screen = Screen(shell(), quiet=self.options.quiet)
        calls = Calls(self._function, made)
        files = calls.pack(screen.line)
        warn_of_home(screen, _told)
        points = calls.parameters() if scan else None
        return submit(self._connect, self.options, files, screen, magic="@grid.function", points=points)


@overload
def function(wrapped: Callable[P, R], /) -> GridFunction[P, R]: ...
@overload
def function(**options: Any) -> Callable[[Callable[P, R]], GridFunction[P, R]]: ...
def function(wrapped: Callable[P, R] | None = None, /, **options: Any) -> Any:
    """Let a function run as jobs: ``@grid.function``, or ``@grid.function(cpus=4, mem="8G", time="2h")``.

    The options are those of %%grid: name, gpu, cpus, mem, time, env, to, local, retry, after, priority, out,
    preemptible, allow_secret and quiet. ``after`` may be a job or a scan, or several.
    """
    if wrapped is None:
        keyword_options("", **{key: value for key, value in options.items() if key != "name"})  # what is wrong, now
        return lambda wrapped: GridFunction(wrapped, _options(wrapped, options))
    return GridFunction(wrapped, _options(wrapped, options))


def _options(wrapped: Callable[..., Any], options: dict[str, Any]) -> Options:
    return keyword_options(**{"name": getattr(wrapped, "__name__", "function"), **options})


def _function(wrapped: Any) -> types.FunctionType:
    """Give the function that travels; refuse what could not be one."""
    if isinstance(wrapped, GridFunction):
        wrapped = wrapped._function
    if not isinstance(wrapped, types.FunctionType):
        raise InvalidError(
            f"@grid.function: a {type(wrapped).__name__} is no function that is written in Python",
            field="function",
            remedy=f"put it above a def; the options are name, {', '.join(KEYWORDS)}, given as @grid.function(cpus=2)",
        )
    if (
        inspect.iscoroutinefunction(wrapped)
        or inspect.isgeneratorfunction(wrapped)
        or inspect.isasyncgenfunction(wrapped)
    ):
        raise InvalidError(
            f"{wrapped.__name__}: what an async function or a generator gives cannot be sent back",
            field="function",
            remedy="let it return a value, such as a list",
        )
    return wrapped
