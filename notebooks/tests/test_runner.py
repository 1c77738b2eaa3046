"""The runner as jobs run it: a process in a directory that holds the cell."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import cloudpickle
import pytest

from slipway._payload import runner as _runner
from slipway._submission import runner_files


class Run(NamedTuple):
    code: int
    out: str
    err: str
    report: dict[str, Any]
    directory: Path

    @property
    def result(self) -> Any:
        return pickle.loads((self.directory / _runner.RESULT).read_bytes())

    @property
    def kept(self) -> bool:
        return (self.directory / _runner.RESULT).exists()


def run(directory: Path, cell: str, inputs: bytes | None = None, argv: tuple[str, ...] = (), **more: str) -> Run:
    (directory / _runner.CELL).write_text("\n" + cell, encoding="utf-8")
    for name, data in runner_files().items():
        (directory / name).write_bytes(data)
    if inputs is not None:
        (directory / _runner.INPUTS).write_bytes(inputs)
    command = [sys.executable, *argv, "runner.py"]
    env = {"SLIPWAY_CELL_NAME": "fit", "PYTHONIOENCODING": "utf-8", **more}
    done = subprocess.run(
        command, cwd=directory, env=env, capture_output=True, text=True, encoding="utf-8", check=False
    )
    path = directory / _runner.OUTCOME
    report = json.loads(path.read_text()) if path.exists() else {}
    return Run(done.returncode, done.stdout, done.stderr, report, directory)


def test_result_and_output(tmp_path: Path) -> None:
    done = run(tmp_path, "print('Zürich ☂')\nresult = {'x': [1, 2.5, None]}")
    assert (done.code, done.out, done.err) == (0, "Zürich ☂\n", "")
    assert done.result == {"x": [1, 2.5, None]}
    assert done.report == {"exit_code": 0, "python": "{}.{}.{}".format(*sys.version_info[:3]), "result": "kept"}


def test_a_cell_may_await_outside_of_functions(tmp_path: Path) -> None:
    done = run(tmp_path, "import asyncio\nasync def f():\n    return 42\nresult = await f()\nawait f()")
    assert (done.code, done.out.strip(), done.result) == (0, "42", 42)
    failed = run(tmp_path, "import asyncio\nawait asyncio.sleep(0)\n1 / 0")
    assert failed.code == 1
    assert "asyncio/" not in failed.err + failed.report["traceback"]
    assert "line 4, in <module>" in failed.report["traceback"]


def test_directories_that_are_left_are_named(tmp_path: Path) -> None:
    (tmp_path / "before").mkdir()
    (tmp_path / "before" / "x").touch()
    cell = "import os\nos.makedirs('sub/deep')\nos.mkdir('empty')\nfor n in 'ab': open(f'sub/deep/{n}', 'w').close()"
    assert run(tmp_path, cell).report["directories"] == {"sub": 2}


@pytest.mark.parametrize(("cell", "kept"), [("x = 1", "unset"), ("result = None", "kept")])
def test_no_result_and_none(tmp_path: Path, cell: str, kept: str) -> None:
    done = run(tmp_path, cell)
    assert done.code == 0
    assert done.report["result"] == kept
    assert done.kept == (kept == "kept")


def test_an_exception_shows_the_cells_lines(tmp_path: Path) -> None:
    done = run(tmp_path, "def f(x):\n    return 1 / x\n\nf(0)\n")
    assert done.code == 1
    assert not done.kept
    assert 'File "<grid cell fit>", line 5, in <module>\n    f(0)' in done.report["traceback"]
    assert 'File "<grid cell fit>", line 3, in f\n    return 1 / x' in done.report["traceback"]
    assert "runner.py" not in done.report["traceback"]
    assert done.report["traceback"].endswith("ZeroDivisionError: division by zero\n")
    assert (done.report["kind"], done.report["type"]) == ("error", "ZeroDivisionError")
    assert done.err == done.report["traceback"]


def test_an_exception_keeps_its_cause(tmp_path: Path) -> None:
    done = run(tmp_path, "try:\n    {}['k']\nexcept KeyError as e:\n    raise ValueError('bad') from e")
    assert "KeyError: 'k'" in done.report["traceback"]
    assert "direct cause" in done.report["traceback"]


def test_an_exception_whose_text_raises(tmp_path: Path) -> None:
    done = run(tmp_path, "class E(Exception):\n    def __str__(self): raise RuntimeError\nraise E")
    assert done.code == 1
    assert "no text" in done.report["message"]


@pytest.mark.parametrize(
    ("cell", "code"),
    [("import sys; sys.exit(3)", 3), ("raise SystemExit", 0), ("exit('stop here')", 1), ("import os; os._exit(7)", 7)],
)
def test_exit_codes(tmp_path: Path, cell: str, code: int) -> None:
    done = run(tmp_path, cell)
    assert done.code == code
    assert "Traceback" not in done.err
    assert ("stop here" in done.err) == ("stop here" in cell)


def test_exit_0_keeps_the_result(tmp_path: Path) -> None:
    assert run(tmp_path, "result = 5\nraise SystemExit(0)").result == 5


@pytest.mark.parametrize(
    ("value", "kind"), [("(i for i in [1])", "generator"), ("__import__('threading').Lock()", "_thread.lock")]
)
def test_a_result_that_cannot_travel(tmp_path: Path, value: str, kind: str) -> None:
    done = run(tmp_path, f"result = {value}")
    assert done.code == 1
    assert f"result is of type {kind} and cannot be sent back" in done.err
    assert done.report["kind"] == "result"
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([_runner.CELL, *runner_files(), _runner.OUTCOME])


def test_a_result_that_is_too_large(tmp_path: Path) -> None:
    cell = "import sys\nsys._getframe(4).f_globals['MOST_RESULT'] = 1_000_000_000\nresult = bytes(1_500_000_000)"
    done = run(tmp_path, cell)
    assert done.code == 1, done.err
    assert "cannot be sent back: it takes 1.5 GB or more packed, at most 1.0 GB come back in a file\n" in done.err
    assert "\nwrite it to storage that you reach too, " in done.err
    assert done.report["kind"] == "result"
    assert not list(tmp_path.glob("*.part"))


def test_functions_and_classes_of_the_cell_come_back_by_value(tmp_path: Path) -> None:
    cell = "class P:\n    def __init__(s, x): s.x = x\ndef twice(p): return 2 * p.x\nresult = (twice, P(21))"
    twice, p = run(tmp_path, cell).result
    assert twice(p) == 42


def test_without_cloudpickle(tmp_path: Path) -> None:
    hide = "import sys; sys.modules['cloudpickle'] = None\n"
    assert run(tmp_path, hide + "result = [1]").result == [1]
    done = run(tmp_path, hide + "result = lambda: 1")
    assert done.code == 1
    assert "result is of type function" in done.err


def test_a_fork_that_falls_out_of_the_cell_says_nothing(tmp_path: Path) -> None:
    cell = "import os, sys\nchild = os.fork()\nif child:\n    os.waitpid(child, 0)\n    sys.exit(3)\nresult = 1"
    done = run(tmp_path, cell)
    assert (done.code, done.report["kind"], done.kept) == (3, "exit", False)


def test_a_result_of_another_process_is_not_the_cells(tmp_path: Path) -> None:
    done = run(tmp_path, f"open({_runner.RESULT!r}, 'w').close()")
    assert (done.report["result"], done.kept) == ("unset", False)


def test_inputs(tmp_path: Path) -> None:
    done = run(tmp_path, "result = f(data)", cloudpickle.dumps({"data": [1, 2], "f": lambda values: sum(values)}))
    assert done.result == 3


def test_inputs_that_need_a_missing_module(tmp_path: Path) -> None:
    raw = b"\x80\x04\x95\x00\x00\x00\x00\x00\x00\x00\x00cno_such_module\nThing\n."
    done = run(tmp_path, "result = 1", raw)
    assert done.code == 1
    assert "no_such_module is not in the job's environment" in done.err
    assert done.report["kind"] == "inputs"


def test_huge_output_comes_whole(tmp_path: Path) -> None:
    done = run(tmp_path, "for i in range(200): print('x' * 99_999)")
    assert len(done.out) == 20_000_000


def test_unbuffered_output_comes_before_a_kill(tmp_path: Path) -> None:
    done = run(tmp_path, "print('up')\nimport os, signal; os.kill(os.getpid(), signal.SIGKILL)", argv=("-u",))
    assert (done.code, done.out, done.report) == (-9, "up\n", {})


def test_the_cell_is_main(tmp_path: Path) -> None:
    cell = "import __main__\nresult = (__name__, hasattr(__main__, 'cell_marker'))\ncell_marker = 1"
    assert run(tmp_path, cell).result == ("__main__", False)
    assert run(tmp_path, "marker = 1\nimport __main__\nresult = __main__.marker").result == 1
