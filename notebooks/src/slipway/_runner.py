"""Run a notebook cell inside a job. This file is shipped with the job: it needs only the standard library.

It reads ``cell.py`` and, when there is one, ``slipway-inputs.pkl`` from the working directory, executes the cell
as ``__main__``, with the parameters of a scan's point as variables, and leaves ``slipway-result.pkl`` (the value of
``result``, when the cell has set it) and ``slipway-outcome.json`` (what happened, for the notebook to read). Output
goes where the job's output goes.
"""

from __future__ import annotations

import ast
import json
import linecache
import os
import pickle
import sys
import traceback
import types
from collections.abc import Callable
from typing import Any, BinaryIO

CELL, INPUTS, RESULT, OUTCOME = "cell.py", "slipway-inputs.pkl", "slipway-result.pkl", "slipway-outcome.json"


def main() -> int:
    """Execute the cell in the working directory and give the exit code."""
    filename = f"<grid cell {os.environ.get('SLIPWAY_CELL_NAME') or 'cell'}>"
    with open(CELL, encoding="utf-8") as file:
        source = file.read()
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module  # values that the cell defines are pickled as a notebook's are
    code, outcome = _execute(source, filename, module.__dict__)
    if code == 0:
        code = _keep_result(module.__dict__, outcome)
    _write_outcome({"exit_code": code, "python": "{}.{}.{}".format(*sys.version_info[:3]), **outcome})
    return code


def _execute(source: str, filename: str, names: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    try:
        names.update(_inputs())
        names.update(_parameters())
    except BaseException as error:  # noqa: BLE001 - reported, whatever it is
        text = f"the values given with --in cannot be read in the job: {type(error).__name__}: {error}"
        return _fail("inputs", error, text + _hint(error))
    try:
        exec(compile(source, filename, "exec"), names)
    except SystemExit as stop:
        return _exit_code(stop.code), {"kind": "exit"}
    except BaseException as error:  # noqa: BLE001 - the user's code may raise anything
        return _fail("error", error, _traceback(error, filename))
    return 0, {}


def _inputs() -> dict[str, Any]:
    if not os.path.exists(INPUTS):
        return {}
    with open(INPUTS, "rb") as file:
        values = pickle.load(file)
    return dict(values)


def _parameters() -> dict[str, Any]:
    """Give the parameters of a scan's point: numbers and other literals as such, everything else as text."""
    given = json.loads(os.environ.get("SLIPWAY_PARAMETERS") or "{}")
    return {name: _literal(value) for name, value in given.items()}


def _literal(value: str) -> Any:
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return value


def _hint(error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"\n{error.name} is not in the job's environment: install it in the session and submit again"
    return ""


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


def _traceback(error: BaseException, filename: str) -> str:
    """Format the traceback from the cell's first frame on: the runner's own frames are noise."""
    frame = error.__traceback__
    while frame is not None and frame.tb_frame.f_code.co_filename != filename:
        frame = frame.tb_next
    return "".join(traceback.format_exception(type(error), error, frame or error.__traceback__))


def _keep_result(names: dict[str, Any], outcome: dict[str, Any]) -> int:
    if "result" not in names:
        outcome["result"] = "unset"
        return 0
    partial = RESULT + ".part"
    try:
        with open(partial, "wb") as file:
            _dumper()(names["result"], file)
        os.replace(partial, RESULT)
    except Exception as error:  # noqa: BLE001 - a user's __reduce__ may raise anything
        if os.path.exists(partial):
            os.remove(partial)
        kind = f"{type(names['result']).__module__}.{type(names['result']).__qualname__}"
        text = (
            f"result is of type {kind.removeprefix('builtins.')} and cannot be sent back: "
            f"{type(error).__name__}: {_safe(error)}\n"
            "set result to plain data, or write a file in the working directory and fetch it with _job.files"
        )
        code, failure = _fail("result", error, text)
        outcome.update(failure)
        return code
    outcome["result"] = "kept"
    return 0


def _dumper() -> Callable[[Any, BinaryIO], None]:
    try:
        import cloudpickle
    except ImportError:
        return pickle.dump
    dump: Callable[[Any, BinaryIO], None] = cloudpickle.dump
    return dump


def _write_outcome(outcome: dict[str, Any]) -> None:
    with open(OUTCOME, "w", encoding="utf-8") as file:
        json.dump(outcome, file)


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.exit(status)
