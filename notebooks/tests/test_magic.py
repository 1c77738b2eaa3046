"""%%grid in a real IPython, its jobs in real processes."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

import slipway
from fake import FakeService, Fault
from slipway import (
    Client,
    ConflictError,
    GridError,
    InvalidError,
    Job,
    JobHandle,
    MissingError,
    NotFoundError,
    ResultError,
)
from slipway._decode import decode
from slipway._display import Screen
from slipway._submission import runner_files
from slipway._watch import WatchInterrupted


class Notebook:
    """Runs cells as a notebook does."""

    def __init__(self, shell: InteractiveShell) -> None:
        self.shell, self.names = shell, shell.user_ns
        self.out = self.err = ""
        self.value: Any = None

    def run(self, cell: str) -> BaseException | None:
        with capture_output(display=False) as captured:
            run_cell: Any = self.shell.run_cell
            done = run_cell(cell, store_history=False)
        self.out, self.err, self.value = captured.stdout, captured.stderr, done.result
        error: BaseException | None = done.error_before_exec or done.error_in_exec
        return error

    def grid(self, line: str, cell: str) -> str:
        error = self.run(f"%%grid {line}\n{cell}")
        assert error is None, f"{error}\n{self.out}"
        return self.out

    def refused(self, line: str, cell: str) -> Any:
        error = self.run(f"%%grid {line}\n{cell}")
        assert error is not None, self.out
        return error


@pytest.fixture
def notebook(service: FakeService, monkeypatch: pytest.MonkeyPatch) -> Iterator[Notebook]:
    monkeypatch.setenv("SLIPWAY_SOCKET", service.socket)
    InteractiveShell.clear_instance()
    config = Config()
    config.HistoryManager.enabled = False  # a database on disk
    shell = InteractiveShell.instance(colors="nocolor", config=config)
    shell.run_line_magic("load_ext", "slipway")
    yield Notebook(shell)
    service.wait_jobs()
    # What a shell does when the process ends looks at all of its memory, once for each shell there has been.
    last: Any = shell.atexit_operations
    atexit.unregister(last)
    last()
    InteractiveShell.clear_instance()


class Page:
    """What a notebook's page shows: each display as it is now, and how often they have changed."""

    def __init__(self) -> None:
        self.shown: list[dict[str, str]] = []
        self.updates = 0

    def display(self, bundle: dict[str, str], raw: bool, display_id: bool = False) -> Any:
        self.shown.append(bundle)
        return Place(self, len(self.shown) - 1)


class Place:
    """Where something is displayed."""

    def __init__(self, page: Page, at: int) -> None:
        self.page, self.at = page, at

    def update(self, bundle: dict[str, str], raw: bool) -> None:
        self.page.shown[self.at] = bundle
        self.page.updates += 1


@pytest.fixture
def page(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> Page:
    page = Page()
    monkeypatch.setattr("IPython.display.display", page.display)
    monkeypatch.setattr(notebook.shell, "kernel", object(), raising=False)
    return page


# --- the whole way


def test_a_cell_runs_elsewhere_and_its_result_is_here(notebook: Notebook, service: FakeService) -> None:
    out = notebook.grid(
        "--name first --cpus 2 --mem 1G --time 1h", "import os\nprint('hé', os.getpid())\nresult = 6 * 7"
    )
    assert notebook.names["result"] == 42
    assert notebook.names["_job"].id == "j-1"
    lines = out.splitlines()
    assert lines[0] == "▸ freezing: squashing 40 % 1 MB"
    assert lines[1].startswith("▸ environment abababababab frozen now, 42 kB of yours on a base of 2.5 GB (")
    assert lines[2].startswith("▸ job first j-1 submitted: 2 CPU, 1 GiB, 1h")
    assert "▸ running" in lines
    assert any(line.startswith("hé ") for line in lines)
    assert lines[-1].startswith("▸ first done, exit code 0, ")
    asked = service.jobs["j-1"].body
    assert asked["argv"] == [sys.executable, "runner.py"]
    assert asked["environment"] == "sha256:" + "ab" * 32
    assert (asked["cpus"], asked["memory"], asked["time_limit"]) == (2, "1G", "1h")
    assert sorted(asked["files"]) == ["cell.py", *sorted(runner_files())]


def test_what_is_refused_is_not_frozen_for(notebook: Notebook, service: FakeService) -> None:
    error = notebook.refused("--to slurm", "pass")
    assert error._render_traceback_() == ["InvalidError: backend slurm", "  -> name one of local"]
    assert [job["backend"] for job in service.checked] == ["slurm"]
    assert not service.jobs
    assert not [path for _, path in service.asked if path.endswith("/freeze")]


def test_a_slice_of_a_gpu(notebook: Notebook, service: FakeService) -> None:
    out = notebook.grid("--gpu 1g.18gb --preemptible", "pass")
    assert "submitted: 1g.18gb of a GPU\n" in out
    asked = service.jobs["j-1"].body
    assert (asked["gpu"], asked["preemptible"]) == ("1g.18gb", True)
    for line in (
        "",
        "--gpu whole",
        "--gpu mps:25%/20G",
        "--gpu shared/10G",
        "--gpu 1G",
        "--gpu 2g.20gb+me",
        "--gpu any,capability>=8.0,memory>=40G,count=2,optional",
        "--gpu none",
    ):
        notebook.grid(line, "pass")
    sent = [job.body.get("gpu") for job in service.jobs.values()]
    assert sent[1:] == [
        None,
        "whole",
        "mps:25%/20G",
        "shared/10G",
        "1G",
        "2g.20gb+me",
        "any,capability>=8.0,memory>=40G,count=2,optional",
        "none",
    ]
    assert "preemptible" not in service.jobs["j-3"].body
    assert "of a GPU" not in notebook.out


def test_the_second_time_the_environment_is_unchanged(notebook: Notebook) -> None:
    notebook.grid("", "pass")
    assert "environment abababababab unchanged" in notebook.grid("", "pass")


def test_env_is_not_frozen(notebook: Notebook, service: FakeService) -> None:
    out = notebook.grid("--env gpu:1 --to local", "result = 1")
    assert "▸ environment cdcdcdcdcdcd gpu" in out
    assert service.freezes == 0
    assert service.jobs["j-1"].body["backend"] == "local"


def test_in_takes_values_and_functions_along(notebook: Notebook) -> None:
    notebook.run("k = 3\ndef f(x): return k * x")
    notebook.names["data"] = 5
    notebook.grid("--in f,data --in k", "result = f(data) + k")
    assert notebook.names["result"] == 18


def test_only_a_result_that_is_set_replaces_the_old_one(notebook: Notebook) -> None:
    assert "no result" not in notebook.grid("", "pass")
    assert "result" not in notebook.names
    notebook.names["result"] = "old"
    assert notebook.grid("", "pass").endswith("▸ the cell has set no result: result is still the value from before\n")
    assert notebook.names["result"] == "old"
    error = notebook.refused("", "result = 1 / 0")
    assert notebook.names["result"] == "old"
    assert error._render_traceback_()[-1].endswith("division by zero (result is still the value from before)")
    notebook.grid("", "result = None")
    assert notebook.names["result"] is None


def test_a_flood_is_cut_to_its_head_and_tail(notebook: Notebook) -> None:
    flood = "for i in range(100_000): print(f'line {i}')\nprint('LAST')"
    out = notebook.grid("--name flood", flood).splitlines()
    lines = [line for line in out if line.startswith("line ")]
    assert lines == [f"line {i}" for i in (*range(500), *range(99_501, 100_000))]
    at = out.index("▸ 99,001 lines left out here; all of it: _job.log()")
    assert (out[at - 1], out[at + 1]) == ("line 499", "line 99501")
    assert out[-2] == "LAST"
    assert out[-1].startswith("▸ flood done, exit code 0, ")
    assert notebook.names["_job"].log().count("\n") == 100_001
    error = notebook.refused("", flood + "\n1 / 0")
    assert "ZeroDivisionError: division by zero" in notebook.out.splitlines()[-10:]  # its end is shown
    assert error._render_traceback_()[0].startswith("GridError: ")


def test_what_is_not_much_more_is_shown_whole(notebook: Notebook) -> None:
    out = notebook.grid("", "for i in range(1000): print(i)")
    assert [line for line in out.splitlines() if line.isdigit()] == [str(i) for i in range(1000)]
    assert "left out" not in out


def test_a_line_without_an_end_is_cut(notebook: Notebook) -> None:
    out = notebook.grid("", "for i in range(20_000): print('ä' * 49, end='')\nprint('LAST')")
    assert "▸ the beginning of a long line is left out here; all of it: _job.log()" in out
    assert "LAST\n" in out
    assert 250_000 < len(out.encode()) < 800_000


def test_quiet_shows_only_the_output(notebook: Notebook) -> None:
    assert notebook.grid("--quiet", "print('hi')") == "hi\n"


def test_detach_gives_the_job(notebook: Notebook) -> None:
    notebook.grid("--detach --name later", "open('o.txt', 'w').write('x')\nprint('hi')\nresult = 1")
    job = notebook.value
    assert job is notebook.names["_job"]
    assert repr(job).startswith("<job later j-1: ")
    assert job.result() == 1
    assert (job.log(), job.state, job.outcome.exit_code) == ("hi\n", "done", 0)
    assert [file.name for file in job.files] == ["o.txt"]
    assert job.files[0].read() == b"x"
    assert slipway.job("j-1").result() == 1


def test_output_comes_while_the_cell_runs(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[float, str]] = []
    monkeypatch.setattr("slipway._display.Screen.output", lambda self, text: seen.append((time.monotonic(), text)))
    # Unbuffered, print writes a line and its end apart: they may come in two pieces.
    notebook.grid("", "import sys, time\nsys.stdout.write('one\\n')\ntime.sleep(0.7)\nsys.stdout.write('two\\n');")
    at = {text: when for when, text in seen}
    assert at["two\n"] - at["one\n"] > 0.4


def test_output_without_a_newline_keeps_our_lines_apart(notebook: Notebook) -> None:
    out = notebook.grid("", "import sys; sys.stdout.write('50 %');")
    assert "50 %\n▸ " in out


def test_help(notebook: Notebook, service: FakeService) -> None:
    out = notebook.grid("--help", "nonsense(")
    assert "--mem 2G" in out
    assert "1g, mps:25%/20G, shared" in out
    assert "slipway.gpus() lists" in out
    assert "values of the notebook to take along" in out
    assert "hosts your home directory is mounted in the job" in out
    assert 'slipway.job("j-...")' in out
    assert max(map(len, out.splitlines())) <= 100
    assert "an empty home that goes with the job" in out
    assert "The last expression, display(...) and matplotlib's figures are shown" in out
    assert "the site's default" in out
    assert "directories do not come back" in out
    for line in ("%grid", "%grid --help", "%grid -h"):
        assert notebook.run(line) is None
        assert notebook.out == out
    assert "write %%grid" in str(notebook.run("%grid --name x"))
    assert "%grid --help lists" in str(notebook.refused("--nme x", "pass")).replace("%%grid --help", "")
    assert service.asked == []


# --- refused before anything is submitted


@pytest.mark.parametrize(
    ("line", "cell", "words"),
    [
        ("", "x = (", "was never closed"),
        ("", "!ls", "not in a job"),
        ("", "x = 1\nfiles = !ls", "not in a job"),
        ("", "%timeit 1", "not in a job"),
        ("", "len?", "not in a job"),
        ("", "if 1:\n    %cd /tmp", "not in a job"),
        ("", "a, b = %timeit 1", "not in a job"),
        ("", "x += 1", "uses x"),
        ("", "del y, z", "uses y, z"),
        ("", "@deco\ndef f(x: T = d) -> R: pass", "uses R, T, d, deco"),
        ("", "match v:\n    case C.x: pass", "uses C, v"),
        (
            "",
            "print(In, Out, get_ipython())",
            "In, Out, get_ipython: the notebook's own; give",
        ),
        ("", "class A:\n    a = b", "uses b"),
        ("", "x = [y for y in z]", "uses z"),
        ("", "print([(w := v) for v in [1]], w, q)", "uses q"),
        ("", "def f(): await x", "outside async function"),
        ("", "# nothing", "the cell is empty"),
        ("", "print(y)", "uses y"),
        ("", "def f():\n    return y + z\n", "uses y, z"),
        ("--in y", "print(y)", "the notebook has no y"),
        ("--in a-b", "pass", "not a name"),
        ("--cpus many", "pass", "--cpus many"),
        ("--cpus 0", "pass", "--cpus 0"),
        ("--mem lots", "pass", "--mem lots"),
        ("--time soon", "pass", "--time soon"),
        ("--gpu lots", "pass", "--gpu lots"),
        ("--gpu mps:25%", "pass", "--gpu mps:25%"),
        ("--gpu 18gb", "pass", "slipway.gpus() lists"),
        ("--preemptible", "pass", "without --gpu"),
        ("--gpu none --preemptible", "pass", "without --gpu"),
        ("--nme x", "pass", "--nme"),
        ("--name 'x", "pass", "close the quote"),
        ("", "result = (i for i in range(3))", "a generator"),
        ("", "result = open('x')", "an open file"),
    ],
)
def test_refused(notebook: Notebook, service: FakeService, line: str, cell: str, words: str) -> None:
    assert words in str(notebook.refused(line, cell))
    assert service.asked == []


def test_remedies_know_the_notebook(notebook: Notebook) -> None:
    notebook.run("import math as m\nimport json\ndata = 1")
    error = notebook.refused("", "print(m.pi, json, data, nowhere)")
    assert isinstance(error, InvalidError)
    assert error.remedy == (
        "import json in the cell; import math as m in the cell; pass data with --in data; define nowhere in the cell"
    )


@pytest.mark.parametrize(
    "cell",
    [
        "import os.path, json as j\nfrom math import pi\nprint(os, j, pi, __name__)",
        "xs = [a * b for a in range(3) for b in range(a)]\nprint({k: v for k, v in enumerate(xs)})",
        "class A:\n    n = 1\n    def f(self, *a, **k): return self, a, k, A, __class__",
        "def f():\n    global g\n    g = 1\nf()\nprint(g)",
        "try:\n    pass\nexcept ValueError as e:\n    print(e)\nwith open('/dev/null') as h:\n    h.read()",
        "print(n := 3, n)\nfor i, (p, q) in []: print(i, p, q)\nlater = lambda: defined_below\ndefined_below = 1",
        "from math import *\nprint(sin(1))",
        "print([(w := v) for v in [1]], w)\nif (n := 3) > 2: print(n)",
        "try:\n    import no_such_module as m\nexcept ImportError:\n    m = None\nprint(m)",
        "try:\n    unicode\nexcept (NameError, KeyError):\n    pass",
        "class A:\n    a = 1\n    b = [n for n in (a,)] if a else a\n    def f(self): return display",
        "import sys\ndel sys\nfor x in []: pass\nelse: x = 1\nprint(x)",
        "match [1]:\n    case [x, *r]: print(x, r)\nx: int = 1\nresult: list[int] = [x]",
        "n = 0\nn += 1\ndef f(a):\n    a += n\n    return a\nimport os, json as j\ndel os, j",
        "def out():\n    n = 0\n    def f():\n        nonlocal n\n        n += 1\n    f()\n    return n\nout()",
        "from __future__ import annotations\ndef f(x: 'Nowhere'): return x\nclass A:\n    a: int\n    b: 'B' = None",
        "try:\n    pass\nexcept* ValueError as e:\n    print(e)\nmatch {}:\n    case {'a': int(v), **r}: print(v, r)",
        "import asyncio\nawait asyncio.sleep(0)",
        "async def f():\n    async for i in g(): yield i\nasync def g(): yield 1",
    ],
)
def test_good_cells_are_not_refused(notebook: Notebook, cell: str) -> None:
    notebook.grid("", cell)


@pytest.mark.parametrize("cell", ['globals()["zz"] = 3; result = zz', "exec('zz = 3'); result = zz"])
def test_names_that_a_cell_makes_as_it_runs_are_only_told(notebook: Notebook, cell: str) -> None:
    assert "▸ the cell uses zz, which it has to make itself" in notebook.grid("", cell)
    assert notebook.names["result"] == 3


def test_a_parameter_that_hides_a_builtin_is_told(notebook: Notebook) -> None:
    assert "▸ max hides Python's own max in the cell" in notebook.grid("--scan max=1", "result = max")


def test_directories_do_not_come_back_and_that_is_said(notebook: Notebook) -> None:
    cell = "import os\nos.mkdir('sub')\nopen('sub/a.txt', 'w').close()\nopen('b.txt', 'w').close()"
    assert "▸ sub/ does not come back (1 file): pack it into one" in notebook.grid("", cell)
    assert [file.name for file in notebook.names["_job"].files] == ["b.txt"]


def test_what_the_advice_names_is_there(notebook: Notebook) -> None:
    assert notebook.names["slipway"] is slipway
    assert "Any" not in dir(slipway)
    assert "job" in dir(slipway)
    assert "TypeVar" not in dir(slipway.grid)


def test_syntax_errors_are_short_and_count_lines_as_the_editor_does(notebook: Notebook, service: FakeService) -> None:
    error = notebook.refused("--name fit", "x = 1\ny = = 2")
    assert isinstance(error, InvalidError)
    assert [line.rstrip() for line in notebook.out.strip("\n").splitlines()] == [
        '  File "<grid cell fit>", line 3',
        "    y = = 2",
        "        ^",
        "SyntaxError: invalid syntax",
    ]
    assert service.asked == []


def test_unpicklable_inputs_are_named(notebook: Notebook, service: FakeService) -> None:
    notebook.run("import threading\nfine = 1\nlock = threading.Lock()")
    error = notebook.refused("--in fine,lock", "print(fine, lock)")
    assert str(error).startswith("--in lock: a value of type lock cannot be pickled")
    assert service.asked == []


def test_lambda_without_cloudpickle(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("_cell", "_payload.values", "_packing"):
        monkeypatch.setattr(f"slipway.{module}.has_cloudpickle", lambda: False)
    assert "a lambda" in str(notebook.refused("", "result = lambda: 1"))
    notebook.run("f = lambda: 1")
    assert "%pip install cloudpickle" in str(notebook.refused("--in f", "f()"))


def test_outside_a_session_env_is_needed(notebook: Notebook, service: FakeService) -> None:
    service.in_session = ""
    assert isinstance(notebook.refused("", "pass"), MissingError)
    notebook.grid("--env gpu:1", "pass")


def test_another_python_is_refused(notebook: Notebook, service: FakeService) -> None:
    service.python = "3.99.1"
    assert "has Python 3.99, this notebook" in str(notebook.refused("--env gpu:1", "pass"))
    assert service.jobs == {}


def test_the_services_refusal_is_shown(notebook: Notebook, service: FakeService) -> None:
    service.fail(
        "POST /api/v1/jobs", Fault("invalid", 422, "memory: 1T is too much", field="memory", remedy="at most 8G")
    )
    error = notebook.refused("--mem 1T", "pass")
    assert str(error) == "--mem: 1T is too much: at most 8G"
    assert error.field == "mem"


# --- what goes wrong later


def test_a_payload_that_raises(notebook: Notebook) -> None:
    error = notebook.refused("--name fit", "def f(x):\n    return 1 / x\nf(0)")
    assert isinstance(error, GridError)
    assert error.exit_code == 1
    assert 'File "<grid cell fit>", line 3, in f\n    return 1 / x' in error.traceback
    assert notebook.out.count(error.traceback) == 1
    (shown,) = error._render_traceback_()
    assert shown.endswith(
        "GridError: job fit (j-1) failed with exit code 1: the cell raised ZeroDivisionError: division by zero"
    )
    assert "_job.py" not in notebook.out  # of our own frames nothing is shown
    assert notebook.names["_job"].state == "failed"


def test_a_detached_payload_that_raises(notebook: Notebook) -> None:
    notebook.grid("--detach", "1 / 0")
    with pytest.raises(GridError) as caught:
        notebook.value.result()
    shown = caught.value._render_traceback_()
    assert shown[0] == "Traceback (most recent call last):"
    assert shown[-1].startswith("GridError: ")


def test_exit_codes_are_kept(notebook: Notebook) -> None:
    error = notebook.refused("", "import sys; sys.exit(3)")
    assert error.exit_code == 3
    assert "failed with exit code 3: the cell called exit" in str(error)


def test_a_killed_payload(notebook: Notebook) -> None:
    error = notebook.refused("", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert "the payload ended with exit code -9" in str(error)


def test_a_result_that_cannot_be_pickled(notebook: Notebook) -> None:
    error = notebook.refused("", "import threading\nresult = [threading.Lock()]")
    assert "result is of type list and cannot be sent back" in error.traceback
    assert str(error) == (
        "job cell (j-1) ran to its end, but result is of type list and cannot be sent back: "
        "TypeError: cannot pickle '_thread.lock' object"
    )


def test_inputs_that_cannot_be_read_there(notebook: Notebook) -> None:
    notebook.run("class T:\n    def __reduce__(self): return (int, ('x',))\nt = T()")
    assert "the values given with --in cannot be read in the job: ValueError" in str(notebook.refused("--in t", "t"))


def test_a_result_that_cannot_be_read_here(notebook: Notebook, service: FakeService) -> None:
    cell = "import sys, types\nm = types.ModuleType('only_there'); sys.modules['only_there'] = m\n"
    cell += "class T: pass\nT.__module__ = 'only_there'; m.T = T\nresult = T()"
    error = notebook.refused("", cell)
    assert isinstance(error, ResultError)
    assert "%pip install only_there" in error.remedy


def test_a_lost_result_file(notebook: Notebook, service: FakeService) -> None:
    notebook.grid("", "result = 1")
    job = service.jobs["j-1"]
    (job.directory / "slipway-result.pkl").unlink()
    with pytest.raises(ResultError, match="is gone"):
        slipway.job("j-1").result()


def test_an_end_without_a_word_is_no_result(notebook: Notebook) -> None:
    notebook.names["result"] = "old"
    error = notebook.refused("", "import os\nresult = 1\nos._exit(0)")
    assert isinstance(error, ResultError)
    assert "job j-1 has ended well and has not said whether it has a result" in str(error)


def test_streams_that_break_are_mended(notebook: Notebook, service: FakeService) -> None:
    service.drop_events_after, service.drop_log_after = 1, 5
    out = notebook.grid("", "for i in range(3): print('line', i)\nresult = 1")
    assert [line for line in out.splitlines() if line.startswith("line")] == ["line 0", "line 1", "line 2"]
    assert out.count("▸ running") == 1


def restart(service: FakeService, go: Path, *, until: Callable[[], bool]) -> threading.Thread:
    """Take the service away once a job has written something, let the job go on, and bring the service back."""

    def work() -> None:
        while not (service.count("GET", "/log?") and any(job.log for job in service.jobs.values())):
            time.sleep(0.01)
        service.down()
        go.touch()
        while not until():
            time.sleep(0.01)
        service.up()

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def wait_cell(go: Path) -> str:
    return f"import os, time\nprint('first')\nwhile not os.path.exists({str(go)!r}): time.sleep(0.01)\nprint('last')"


def test_an_outage_is_one_calm_line_and_costs_no_output(
    notebook: Notebook, service: FakeService, tmp_path: Path
) -> None:
    thread = restart(service, tmp_path / "go", until=lambda: service.jobs["j-1"].doc["state"] == "done")
    out = notebook.grid("--name long", wait_cell(tmp_path / "go"))
    thread.join()
    lines = out.splitlines()
    assert [line for line in lines if not line.startswith("▸")] == ["first", "last"]
    assert len([line for line in lines if "does not answer; trying again for up to 10 min" in line]) == 1
    assert lines.count("▸ the service answers again") == 1
    assert lines[-1] == "▸ long done, exit code 0, 1.5 s"  # its own time, as the service says it
    assert notebook.err == ""


def test_a_job_whose_streams_are_lost_is_waited_for(
    notebook: Notebook, service: FakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: Page
) -> None:
    monkeypatch.setattr("slipway._watch._AWAY", 0.05)
    lost = threading.Event()
    urgent = Screen.urgent

    def note(screen: Screen, text: str) -> None:
        if "cannot be followed" in text:
            lost.set()
        urgent(screen, text)

    monkeypatch.setattr(Screen, "urgent", note)
    thread = restart(service, tmp_path / "go", until=lambda: lost.wait(60))
    out = notebook.grid("--name long", wait_cell(tmp_path / "go"))
    thread.join()
    assert out.count("the job runs on, and cannot be followed any more") == 1
    assert page.shown[-1]["text/plain"] == "▸ long done, exit code 0, 1.5 s"
    assert out.splitlines()[-1] == "▸ output may be missing here: _job.log() has all of it"
    assert notebook.names["_job"].log() == "first\nlast\n"


def test_what_has_not_ended_has_no_exit_code(client: Client) -> None:
    going = decode(Job, {"id": "j-1", "name": "long", "state": "running", "outcome": {"exit_code": 143}})
    assert repr(JobHandle(client, going)) == "<job long j-1: running>"
    assert "143" not in JobHandle(client, going)._repr_html_()
    ended = decode(Job, {"id": "j-1", "state": "failed", "attempt": 3, "outcome": {"exit_code": 1}})
    assert "failed, exit code 1, try 3" in repr(JobHandle(client, ended))


def test_an_interrupt_stops_the_watching_only(notebook: Notebook, service: FakeService) -> None:
    def interrupt() -> None:
        while not any(job.log for job in service.jobs.values()):
            time.sleep(0.01)
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    error = notebook.refused("", "import time\nprint('up')\ntime.sleep(3)\nresult = 'still'")
    thread.join()
    assert isinstance(error, WatchInterrupted)
    assert "job j-1 runs on" in str(error)
    assert "slipway.job('j-1')" in str(error)
    assert service.jobs["j-1"].doc["state"] == "running"
    assert slipway.job("j-1").result() == "still"


def test_an_interrupt_before_the_submission(notebook: Notebook, service: FakeService) -> None:
    service.fail("freeze", 1.0)
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    assert "slipway.jobs()" in str(notebook.refused("", "pass"))
    assert service.jobs == {}


def test_cancel(notebook: Notebook) -> None:
    notebook.grid("--detach", "import time; time.sleep(60)")
    job = notebook.value
    while job.state != "running":
        time.sleep(0.01)
    assert slipway.job(job.id).id == job.id
    with pytest.raises(TimeoutError, match="it runs on"):
        job.wait(0.1)
    with pytest.raises(GridError, match="was canceled"):
        job.cancel().result()
    assert job.cancel().state == "canceled"


def test_files_are_saved(notebook: Notebook, tmp_path: Path) -> None:
    notebook.grid("", "open('h.txt', 'w').write('x')")
    file = notebook.names["_job"].files[0]
    assert file.save(tmp_path) == tmp_path / "h.txt"
    assert (tmp_path / "h.txt").read_text() == "x"


def test_in_a_kernel_the_freeze_is_one_line_that_changes(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    class Handle:
        def update(self, bundle: dict[str, str], raw: bool) -> None:
            shown[-1] = bundle["text/plain"]

    def display(bundle: dict[str, str], raw: bool, display_id: bool) -> Handle:
        shown.append(bundle["text/plain"])
        return Handle()

    monkeypatch.setattr("IPython.display.display", display)
    monkeypatch.setattr(notebook.shell, "kernel", object(), raising=False)
    out = notebook.grid("", "pass")
    assert len(shown) == 2  # the environment and the job
    assert shown[0].startswith("▸ environment abababababab frozen now")
    assert "environment" not in out
    assert shown[1] == "▸ cell done, exit code 0, 1.5 s"
    assert "▸ running" not in out
    assert "done" not in out  # the end is said once


def test_heavy_inputs_are_told(notebook: Notebook) -> None:
    notebook.names["data"], notebook.names["n"] = b"x" * 11_000_000, 1
    out = notebook.grid("--in n,data", "result = len(data) + n")
    assert "▸ data is 11 MB packed: it is kept with your jobs' files" in out
    assert notebook.names["result"] == 11_000_001


def test_a_file_is_no_variable(notebook: Notebook, tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text("")
    error = notebook.run(f"%%grid --in {tmp_path}/data.txt\nopen('data.txt')")
    assert isinstance(error, InvalidError)
    assert f"Open the file by its whole path: '{tmp_path}/data.txt'" in error.remedy


def test_what_comes_back_is_told(notebook: Notebook) -> None:
    out = notebook.grid("--name left", "for i in range(7): open(f'{i}.txt', 'w').write('ab')")
    named = ", ".join(f"{i}.txt (2 B)" for i in range(5))
    assert f"back came {named} and 2 more: _job.files, each with .read() and .save()" in out


def test_a_job_by_its_name(notebook: Notebook) -> None:
    notebook.grid("--name fit", "result = 1")
    assert slipway.job("fit").id == "j-1"
    with pytest.raises(NotFoundError, match="none of your jobs is called 'fut'"):
        slipway.job("fut")
    notebook.grid("--name fit", "result = 2")
    with pytest.raises(ConflictError) as caught:
        slipway.job("fit")
    assert caught.value.remedy == "name one by its ID; j-2 is the newest"
