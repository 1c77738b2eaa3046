"""A function and its calls as the file that their jobs read: packed once, each point takes its own."""

from __future__ import annotations

import inspect
import linecache
import sys
import types
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Any

from ._beside import files_beside, is_installed, modules_needed
from ._content import Content, settled
from ._culprit import global_names, refusal
from ._errors import InvalidError
from ._points import usable
from ._request import FILE_LIMIT
from ._runner import INPUTS
from ._values import LARGE, Packer, has_cloudpickle, spool, weigh
from ._wire import amount

Call = tuple[tuple[Any, ...], dict[str, Any]]

_FEW = 3
"""Of up to how many calls each large argument is a file of its own, and not only one that several have."""
_PLAIN = (bool, int, float, complex, type(None))
_SHOWN = 60  # how many characters of an argument stand in the table of the points
_SOURCE = 200_000  # how many characters of source go along, for tracebacks


class Calls:
    """The calls that a job or a scan is to make: their arguments as people read them, and the packed file."""

    def __init__(self, function: types.FunctionType, calls: Sequence[Call]) -> None:
        self._function, self._calls = function, calls
        self._signature = inspect.signature(function)
        self._named = [self._bind(at, *call) for at, call in enumerate(calls)]

    def parameters(self) -> list[dict[str, str]]:
        """Give the points' parameters: their arguments, as far as they can be shown."""
        return [{name: _shown(value) for name, value in named.items() if usable(name)} for named in self._named]

    def pack(self, tell: Callable[[str], None] = lambda text: None) -> dict[str, Content]:
        """Make the files. It names what cannot travel, and tells what is heavy."""
        if not has_cloudpickle():
            raise InvalidError("@grid.function needs cloudpickle", field="function", remedy="%pip install cloudpickle")
        file, name = spool(), self._function.__name__
        aside: dict[str, IO[bytes]] = {}
        packer = Packer(file, aside)
        with _by_value(self._function):
            _add(packer.add, self._function, {f"the function {name}": self._function}, tell)
            for argument, value in self._shared():
                _add(packer.share, value, {argument: value}, tell)
            first = packer.parts
            for at, call in enumerate(self._calls):
                named = {self._of(argument, at): value for argument, value in self._named[at].items()}
                _add(packer.add, call, named, tell)
                if packer.size > FILE_LIMIT:
                    raise _too_much(packer.size, at + 1, len(self._calls))
            packer.seal(first=first, sources=_sources(self._function))
            names = modules_needed(packer)
        return {INPUTS: settled(file), **aside, **files_beside(names, tell)}

    def _bind(self, at: int, args: tuple[Any, ...], keywords: dict[str, Any]) -> Mapping[str, Any]:
        try:
            return self._signature.bind(*args, **keywords).arguments
        except TypeError as error:
            name = self._function.__name__
            raise InvalidError(
                f"{self._of(f'{name}{self._signature}', at)}: {error}",
                field="arguments",
                remedy=f"call it as {name}{self._signature}",
            ) from None

    def _of(self, argument: str, at: int) -> str:
        return argument if len(self._calls) == 1 else f"{argument} of call {at}"

    def _shared(self) -> Iterator[tuple[str, Any]]:
        """Give the arguments that several calls have: they are packed once. Of few calls they are all looked at."""
        counts = Counter(id(value) for named in self._named for value in named.values())
        given = set()
        for named in self._named:
            for name, value in named.items():
                small = isinstance(value, _PLAIN) or (isinstance(value, str | bytes | tuple) and len(value) < 100)
                several = counts[id(value)] > 1 or (len(self._calls) <= _FEW and not small and _heavy(value))
                if several and id(value) not in given and not small:
                    given.add(id(value))
                    yield name, value


def refuse_undefined(function: types.FunctionType) -> None:
    """Refuse a function that uses names which are defined nowhere."""
    around = {*function.__globals__, *vars(sys.modules["builtins"]), "display"}
    if missing := sorted(name for name in global_names(function.__code__) if name not in around):
        raise InvalidError(
            f"{function.__name__} uses {', '.join(missing)}, which is defined nowhere",
            field="function",
            remedy=f"define {', '.join(missing)} first, or pass it as an argument",
        )


def _add(add: Callable[[Any], int], value: Any, named: Mapping[str, Any], tell: Callable[[str], None]) -> None:
    """Pack a value; what it is made of for the user has names."""
    try:
        size = add(value)
    except Exception as error:  # noqa: BLE001 - a user's __reduce__ may raise anything
        raise _refusal(named, error) from None
    if size > LARGE:
        tell_heaviest(named, tell)


def tell_heaviest(named: Mapping[str, Any], tell: Callable[[str], None]) -> None:
    """Tell which of some values is the heaviest."""
    name, size = max(((name, weigh(part)) for name, part in named.items()), key=lambda item: item[1])
    tell(large(name, size))


def large(name: str, size: int) -> str:
    """Say of a large value what becomes of it."""
    return f"{name} is {amount(size)} packed: it is kept with your jobs' files, and the same is not sent twice"


def _heavy(value: Any) -> bool:
    try:
        return weigh(value) > LARGE
    except Exception:  # noqa: BLE001 - refused where it is packed, with its name
        return False


def _refusal(named: Mapping[str, Any], error: Exception) -> InvalidError:
    for name, value in named.items():
        try:
            weigh(value)
        except Exception as failure:  # noqa: BLE001 - a user's __reduce__ may raise anything
            return refusal(name, value, failure, "arguments")
    return InvalidError(f"{', '.join(named)}: {error}", field="arguments")


def _too_much(size: int, at: int, of: int) -> InvalidError:
    return InvalidError(
        f"the arguments of the first {at:,} of {of:,} calls are {amount(size)}, at most {FILE_LIMIT >> 20} MiB go",
        field="arguments",
        remedy="pass the paths of files that the jobs see too, or what is smaller to make the values of",
    )


def _shown(value: Any) -> str:
    """Write an argument as the table of the points has it."""
    if isinstance(value, str):
        return value if value.isprintable() and 0 < len(value) <= _SHOWN else f"<text of {len(value):,}>"
    short = isinstance(value, list | tuple) and len(value) <= 10 and all(isinstance(part, _PLAIN) for part in value)
    if isinstance(value, _PLAIN) or short:
        text = repr(value) if not isinstance(value, int) or abs(value) < 10**_SHOWN else "<a large number>"
        return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
    try:
        return f"<{type(value).__name__} of {len(value):,}>"
    except Exception:  # noqa: BLE001 - a user's __len__ may raise anything
        return f"<{type(value).__name__}>"


@contextmanager
def _by_value(function: types.FunctionType) -> Iterator[None]:
    """Let a function of a module that no environment has, such as a file beside the notebook, travel by value."""
    import cloudpickle

    module = sys.modules.get(function.__module__)
    known = module is None or module.__name__ in cloudpickle.list_registry_pickle_by_value()
    file = getattr(module, "__file__", None)
    if known or module is None or module.__name__ == "__main__" or not file or is_installed(file):
        yield
        return
    cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        cloudpickle.unregister_pickle_by_value(module)


def _sources(function: types.FunctionType) -> dict[str, str]:
    """Give the texts that a job does not have and its tracebacks show: those of cells and of files that are hers."""
    sources: dict[str, str] = {}
    todo, seen = [function], {id(function)}
    while todo:
        code = (at := todo.pop()).__code__
        text = "".join(linecache.getlines(code.co_filename))
        if text and sum(map(len, sources.values())) + len(text) <= _SOURCE:
            sources[code.co_filename] = text
        for name in global_names(code):
            found = at.__globals__.get(name)
            used = inspect.unwrap(found) if callable(found) else None
            if isinstance(used, types.FunctionType) and used.__module__ == function.__module__ and id(used) not in seen:
                seen.add(id(used))
                todo.append(used)
    return sources
