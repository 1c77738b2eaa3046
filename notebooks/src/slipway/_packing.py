"""What a payload takes along: values of the notebook, the user's own modules, a function and its calls."""

from __future__ import annotations

import ast
import dis
import functools
import importlib
import importlib.util
import inspect
import io
import linecache
import os
import site
import sys
import sysconfig
import types
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from ._client import FILE_LIMIT
from ._errors import InvalidError
from ._payload.folder import MODULES
from ._payload.runner import INPUTS
from ._payload.values import LARGE, CannotTravelError, Packer, dump, has_cloudpickle, spool, weigh
from ._points import usable
from ._transport import Content, settled
from ._units import amount

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


MOST = 10_000_000
"""How many bytes of her own modules go with a payload: what is more is worth a place in the environment."""


def modules_of(tree: ast.AST) -> set[str]:
    """Name the outermost modules that code imports."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def modules_within(code: types.CodeType) -> set[str]:
    """Name the outermost modules that a function imports when it runs, or one within it."""
    found = {str(op.argval).partition(".")[0] for op in dis.get_instructions(code) if op.opname == "IMPORT_NAME"}
    inner = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return found.union(*map(modules_within, inner))


def modules_needed(packer: Packer) -> set[str]:
    """Name the outermost modules that what was packed needs."""
    return packer.roots.union(*(modules_within(function.__code__) for function in packer.functions))


def files_beside(names: Iterable[str], tell: Callable[[str], None]) -> dict[str, bytes]:
    """Give the file that brings those of some modules that are her own, and what these import, and tell of it."""
    found = dict[str, dict[str, bytes]]()
    todo = sorted(names)
    importlib.invalidate_caches()  # a cell may have written one just now
    while todo:
        name = todo.pop()
        if name in found or (place := _place(name)) is None:
            continue
        found[name] = _read(name, place)
        for file, data in found[name].items():
            todo += _imports(data) if file.endswith(".py") else []
    if not found:
        return {}
    tell(f"{', '.join(map(_said, sorted(found), (found[name] for name in sorted(found))))}: yours, and goes along")
    return {MODULES: _packed({file: data for files in found.values() for file, data in files.items()})}


def is_installed(file: str) -> bool:
    """Say whether a file is one of the environment's, and not her own."""
    places = {*map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib")), *site.getsitepackages()}
    return any(_below(file, place) for place in places if place)


def _below(file: str, directory: str) -> bool:
    return os.path.realpath(file).startswith(os.path.join(os.path.realpath(directory), ""))


def _place(name: str) -> Path | None:
    """Find a module of her own: its file, or its package's directory. None: it is none, or is nowhere."""
    if name in sys.stdlib_module_names or name in ("__main__", __package__):
        return None
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):  # one that was made here, and is nowhere else
        return None
    places = list(spec.submodule_search_locations or []) if spec else []
    if spec and not spec.origin and not any(next(Path(place).glob("*.py"), None) for place in places):
        return None  # any directory could be that
    file = places[0] if places else spec.origin if spec else None
    return Path(file) if file and os.path.exists(file) and _is_hers(file) else None


def _is_hers(file: str) -> bool:
    """Say whether a file is her own. What pip has put into the home is not: of that she is warned, see ``_home``."""
    around = [os.path.expanduser("~"), *([os.getcwd()] if os.getcwd() != "/" else [])]
    packages = is_installed(file) or _below(file, site.getusersitepackages())
    return not packages and any(_below(file, at) for at in around)


def _read(name: str, place: Path) -> dict[str, bytes]:
    """Read a module's files, by their names from where it is imported; refuse what is too large."""
    files, size = dict[str, bytes](), 0
    for path in _files(place):
        size += path.stat().st_size
        if size > MOST:
            raise InvalidError(
                f"{name} is imported from {place}, which no environment has and is more than {amount(MOST)}",
                field="modules",
                remedy=f"keep data apart from it, or install it into the environment: %pip install {place}"
                if place.is_dir()
                else "make it smaller, or a package that is installed into the environment",
            )
        files[str(path.relative_to(place.parent))] = path.read_bytes()
    return files


def _files(place: Path) -> Iterator[Path]:
    if place.is_file():
        yield place
        return
    for directory, inner, names in os.walk(place):
        inner[:] = sorted(name for name in inner if not name.startswith(".") and name != "__pycache__")
        paths = (Path(directory, name) for name in sorted(names) if not name.startswith("."))
        yield from (path for path in paths if path.is_file() and os.access(path, os.R_OK))


def _imports(data: bytes) -> set[str]:
    try:
        return modules_of(ast.parse(data))
    except (SyntaxError, ValueError):  # for who imports it to see
        return set()


def _said(name: str, files: dict[str, bytes]) -> str:
    size = amount(sum(map(len, files.values())))
    only = next(iter(files), "")
    return f"{only} ({size})" if [only] == [*files] and "/" not in only else f"{name}/ ({len(files):,} files, {size})"


def _packed(files: dict[str, bytes]) -> bytes:
    """Pack files; the same give the same bytes."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    return file.getvalue()


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
