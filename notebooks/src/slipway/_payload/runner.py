"""Run a notebook's cell or function inside a job. This file is shipped with the job.

It reads ``cell.py`` and, when there is one, ``slipway-inputs.pkl`` from the working directory, and executes the cell
as ``__main__``, with the parameters of a scan's point as variables. Where there is no cell, the inputs are a function
and its calls, of which it makes the one of its point. It leaves ``slipway-result.pkl`` (the value of ``result``, when
the cell has set it, or what the function has returned) and ``slipway-outcome.json`` (what happened, for the notebook
to read). Output goes where the job's output goes.
"""

from __future__ import annotations

import ast
import inspect
import json
import linecache
import os
import re
import sys
import traceback
import types
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn, cast

if TYPE_CHECKING:
    from . import folder as _folder
    from . import progress as _progress
    from . import shown as _shown
    from . import values as _values
else:
    try:
        from . import folder as _folder
        from . import progress as _progress
        from . import shown as _shown
        from . import values as _values
    except ImportError:  # in the job, whose directory is the user's
        sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
        import slipway_folder as _folder
        import slipway_progress as _progress
        import slipway_shown as _shown
        import slipway_values as _values

        sys.dont_write_bytecode = before

CELL, INPUTS, RESULT, OUTCOME = "cell.py", "slipway-inputs.pkl", "slipway-result.pkl", "slipway-outcome.json"

MOST_RESULT = 1 << 30
"""How many bytes a result has at most: as any file of a job."""


def main() -> int:
    """Do in the working directory what there is to do and give the exit code. The payload may leave that directory."""
    home, process = os.getcwd(), os.getpid()
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module  # values that the cell defines are pickled as a notebook's are
    recorder = _shown.Recorder(home)
    recorder.install({"tqdm.std": _progress.quieten, "tqdm.notebook": _progress.plain_notebook})
    sys.meta_path.append(_progress.Stand())
    _folder.add_modules(home)
    before = set(_folder.directories(home))
    code, outcome = _cell(module.__dict__, recorder) if os.path.exists(CELL) else _call(module.__dict__)
    if os.getpid() != process:  # a fork that has fallen out of the cell: what is left is for the first one to say
        _leave(code)
    outcome.update(recorder.finish())
    _progress.progress.flush()
    if code == 0:
        code = _keep_result(os.path.join(home, RESULT), module.__dict__, outcome)
    if left := {name: files for name, files in _folder.directories(home).items() if name not in before}:
        outcome["directories"] = left
    outcome = {"exit_code": code, "python": "{}.{}.{}".format(*sys.version_info[:3]), **outcome}
    with open(os.path.join(home, OUTCOME), "w", encoding="utf-8") as file:
        json.dump(outcome, file)
    return code


def _leave(code: int) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _cell(names: dict[str, Any], recorder: _shown.Recorder) -> tuple[int, dict[str, Any]]:
    filename = f"<grid cell {os.environ.get('SLIPWAY_CELL_NAME') or 'cell'}>"
    with open(CELL, encoding="utf-8") as file:
        source = file.read()
    _remember(filename, source)
    try:
        names.update(_inputs())
        names.update(_parameters())
    except BaseException as error:  # noqa: BLE001 - reported, whatever it is
        return _unreadable("the values given with --in", error)
    return _execute(lambda: _run(source, filename, names, recorder), "the cell")


def _run(source: str, filename: str, names: dict[str, Any], recorder: _shown.Recorder) -> None:
    """Execute a cell and show its last expression, as notebooks do; a semicolon behind it keeps it quiet."""
    tree, parts = ast.parse(source, filename), list[types.CodeType]()
    end = tree.body[-1] if tree.body else None
    if isinstance(end, ast.Expr) and not source.rstrip().endswith(";"):
        tree.body.pop()
        parts = [compile(ast.Expression(end.value), filename, "eval", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)]
    parts = [compile(tree, filename, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), *parts]
    value = None
    if any(part.co_flags & inspect.CO_COROUTINE for part in parts):
        import asyncio

        value = asyncio.run(_await(parts, names))
    else:
        for part in parts:
            value = eval(part, names)
    if value is not None:
        recorder.show(value)


async def _await(parts: list[types.CodeType], names: dict[str, Any]) -> Any:
    """Execute a cell that awaits something outside of its functions."""
    value = None
    for part in parts:
        value = eval(part, names)
        if part.co_flags & inspect.CO_COROUTINE:
            value = await value
    return value


def _call(names: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Make the call of this point; what it returns is the result."""
    try:
        with open(INPUTS, "rb") as file:
            cargo = _open(file)
            for filename, source in cargo.record.get("sources", {}).items():
                _remember(filename, source)
            function = cargo.value()
            args, keywords = cargo.value(cargo.record["first"] + int(os.environ.get("SLIPWAY_POINT") or 0))
    except BaseException as error:  # noqa: BLE001 - reported, whatever it is
        return _unreadable("the function and its arguments", error)

    def call() -> None:
        names["result"] = function(*args, **keywords)

    return _execute(call, "the function")


def _execute(work: Callable[[], object], who: str) -> tuple[int, dict[str, Any]]:
    try:
        work()
    except SystemExit as stop:
        return _exit_code(stop.code), {"kind": "exit", "who": who}
    except BaseException as error:  # noqa: BLE001 - the user's code may raise anything
        code, outcome = _fail("error", error, _traceback(error))
        return code, {**outcome, "who": who, **_missing(error)}
    return 0, {}


def _remember(filename: str, source: str) -> None:
    """Let tracebacks show the lines of what has no file here."""
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)


def _inputs() -> dict[str, Any]:
    if not os.path.exists(INPUTS):
        return {}
    with open(INPUTS, "rb") as file:
        cargo = _open(file)
        return dict(cargo.value(cargo.record.get("first", 0)))


def _open(file: BinaryIO) -> _values.Cargo:
    cargo = _values.Cargo(file)
    cargo.check()
    if differences := cargo.differences():
        print(f"slipway: {'; '.join(differences)}", file=sys.stderr, flush=True)
    return cargo


def _parameters() -> dict[str, Any]:
    """Return the parameters of a scan's point as the values that they stand for."""
    given = json.loads(os.environ.get("SLIPWAY_PARAMETERS") or "{}")
    return {name: literal(value) for name, value in given.items()}


_NUMBER = re.compile(r"[+-]?(0|[1-9][0-9]*|[0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_WORDS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}


def literal(value: str) -> Any:
    """Read a parameter's value: a number, true, false or null, or JSON's list, object or string; all else is text."""
    if value in _WORDS:
        return _WORDS[value]
    if _NUMBER.fullmatch(value):
        return int(value) if value.lstrip("+-").isdigit() else float(value)
    if value[:1] in ("[", "{", '"'):
        with suppress(ValueError, RecursionError):
            return json.loads(value, parse_constant=_no_constant)
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _unreadable(what: str, error: BaseException) -> tuple[int, dict[str, Any]]:
    said = str(error) if isinstance(error, _values.UnfitError) else f"{type(error).__name__}: {error}"
    code, outcome = _fail("inputs", error, f"{what} cannot be read in the job: {said}{_hint(error)}")
    return code, {**outcome, **_missing(error)}


def _hint(error: BaseException) -> str:
    lacking = _missing(error).get("missing")
    return f"\n{lacking} is not in the job's environment: install it in the session and submit again" if lacking else ""


def _missing(error: BaseException) -> dict[str, str]:
    """Name the modules that the environment lacks."""
    if isinstance(error, _values.UnfitError) and error.lacking:
        return {"missing": ", ".join(error.lacking)}
    if isinstance(error, ModuleNotFoundError) and error.name and not isinstance(error.__context__, ModuleNotFoundError):
        return {"missing": error.name.partition(".")[0]}
    return {}


def _exit_code(code: object) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1


def _fail(kind: str, error: BaseException, text: str) -> tuple[int, dict[str, Any]]:
    sys.stdout.flush()
    print(text.rstrip("\n"), file=sys.stderr, flush=True)
    return 1, {"kind": kind, "type": type(error).__name__, "message": _safe(error), "traceback": text}


def _safe(value: object) -> str:
    try:
        return str(value)
    except Exception as error:  # noqa: BLE001 - a user's __str__ may raise anything
        return f"(no text: its __str__ raised {type(error).__name__})"


_NOISE = (os.path.abspath(__file__), __file__, os.path.join(os.path.dirname(os.__file__), "asyncio", ""))
"""Files whose frames stand above those of the user: the runner's, and what runs a cell that awaits."""


def _traceback(error: BaseException) -> str:
    """Format the traceback from the user's first frame on: the runner's own frames are noise."""
    frame = error.__traceback__
    while frame is not None and frame.tb_frame.f_code.co_filename.startswith(_NOISE):
        frame = frame.tb_next
    return "".join(traceback.format_exception(type(error), error, frame or error.__traceback__))


def _keep_result(path: str, names: dict[str, Any], outcome: dict[str, Any]) -> int:
    if "result" not in names:
        outcome["result"] = "unset"
        with suppress(OSError):
            os.remove(path)  # of a process that the cell has started
        return 0
    partial = path + ".part"
    try:
        with open(partial, "wb") as file:
            packer = _values.Packer(cast(BinaryIO, _Bounded(file)))
            packer.add(names["result"])
            packer.seal()
        os.replace(partial, path)
    except Exception as error:  # noqa: BLE001 - a user's __reduce__ may raise anything
        with suppress(OSError):
            os.remove(partial)
        kind = f"{type(names['result']).__module__}.{type(names['result']).__qualname__}"
        why, remedy = f"{type(error).__name__}: {_safe(error)}", "set result to plain data, or write a file"
        if isinstance(error, _TooLargeError):
            why, remedy = (
                _safe(error),
                "write it to storage that you reach too, set result to its path, or write files of less",
            )
        text = (
            f"result is of type {kind.removeprefix('builtins.')} and cannot be sent back: {why}\n"
            f"{remedy} in the working directory and fetch it with _job.files"
        )
        code, failure = _fail("result", error, text)
        outcome.update(failure)
        return code
    outcome["result"] = "kept"
    return 0


class _TooLargeError(Exception):
    pass


class _Bounded:
    """A file that takes no more than a file of a job may have: nothing is filled with what cannot be sent."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.tell = file.tell

    def write(self, data: Any) -> int:
        size = self._file.tell() + memoryview(data).nbytes
        if size > MOST_RESULT:
            raise _TooLargeError(
                f"it takes {size / 1e9:.1f} GB or more packed, at most {MOST_RESULT / 1e9:.1f} GB come back in a file"
            )
        return self._file.write(data)


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.exit(status)
