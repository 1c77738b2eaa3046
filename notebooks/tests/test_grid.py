"""@grid.function in a real IPython, its jobs in real processes."""

from __future__ import annotations

import functools
import io
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import slipway
from fake import FakeService
from slipway import GridError, InvalidError, JobHandle, ScanHandle, grid
from slipway._packing import Calls
from slipway._payload.runner import INPUTS
from slipway._payload.values import Cargo, UnfitError, dump, pack
from slipway._transport import digest, length, pieces
from test_magic import Notebook, notebook

__all__ = ["notebook"]

ASIDE = "slipway-input-0.pkl"


def define(notebook: Notebook, code: str) -> None:
    assert notebook.run(f"from slipway import grid\n{code}") is None


def test_a_function_runs_here_and_elsewhere(notebook: Notebook, service: FakeService) -> None:
    define(
        notebook,
        "k = 3\n@grid.function\ndef f(x, *, by=1):\n    'Say.'\n    import os\n    return x * k * by, os.getpid()",
    )
    f = notebook.names["f"]
    assert (f.__name__, f.__doc__, repr(f)) == ("f", "Say.", "<grid function f(x, *, by=1)>")
    here = f(2)
    assert here == f.local(2)
    assert notebook.run("job = f.remote(2, by=5)") is None
    job = notebook.names["job"]
    assert isinstance(job, JobHandle)
    value, process = job.result()
    assert value == 30
    assert process != here[1]
    assert "▸ environment abababababab frozen now" in notebook.out
    assert "▸ job f j-1 submitted\n" in notebook.out
    assert service.checked[0]["name"] == "f"


def test_options_are_those_of_the_magic(notebook: Notebook, service: FakeService) -> None:
    options = (
        "name='fit', gpu='1g.18gb', cpus=2, mem='1G', time='1h', env='gpu:1', to='local', preemptible=True, quiet=True"
    )
    define(notebook, f"@grid.function({options})\ndef f():\n    return 1")
    assert notebook.run("job = f.remote().wait()") is None
    assert notebook.out == ""
    asked = service.jobs["j-1"].body
    keys = ("name", "gpu", "cpus", "memory", "time_limit", "backend", "preemptible")
    assert [asked[key] for key in keys] == ["fit", "1g.18gb", 2, "1G", "1h", "local", True]
    assert asked["environment"] == "sha256:" + "cd" * 32
    assert service.freezes == 0
    assert grid.function(lambda: 1).with_options(cpus=0.5).options.cpus == 0.5


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"gpus": 1}, "there is no option gpus"),
        ({"mem": "lots"}, "--mem lots"),
        ({"cpus": 0}, "--cpus 0"),
        ({"preemptible": True}, "--preemptible without --gpu"),
        ({"scan": ["k=1"]}, "there is no option scan"),
        ({"retry": -1}, "--retry -1"),
        ({"priority": 101}, "--priority 101"),
        ({"out": "a/b"}, "--out a/b"),
        ({"local": True, "to": "slurm"}, "--local and --to slurm"),
    ],
)
def test_options_that_are_wrong(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidError, match=words):
        grid.function(**options)


async def later() -> int:
    return 1


def several() -> Any:
    yield 1


@pytest.mark.parametrize("wrapped", [3, print, int, later, several, "4G"])
def test_what_is_no_function_is_refused(wrapped: Any) -> None:
    with pytest.raises(InvalidError):
        grid.function(wrapped)


def test_a_map_is_one_scan(notebook: Notebook, service: FakeService) -> None:
    define(notebook, "@grid.function\ndef f(x, y=1):\n    return x * y")
    assert notebook.run("m = f.map(range(4)); s = f.starmap([(1, 2), ('ab', 2)])") is None
    scan = notebook.names["m"]
    assert isinstance(scan, ScanHandle)
    assert service.freezes == 2
    assert service.count("POST", "/jobs") == 4  # two checks, two scans
    assert list(scan) == [0, 1, 2, 3]
    assert scan.results() == [0, 1, 2, 3]
    assert {job.record.point: job.result() for job in scan.as_completed(30)} == {0: 0, 1: 1, 2: 2, 3: 3}
    assert [dict(job.arguments) for job in scan.points] == [{"x": str(x)} for x in range(4)]
    assert notebook.names["s"].results() == [2, "abab"]
    assert list(slipway.scan(scan.id)) == [0, 1, 2, 3]


def test_results_come_as_they_end(notebook: Notebook, service: FakeService, tmp_path: Path) -> None:
    go = str(tmp_path / "go")
    code = f"import os, time\n@grid.function\ndef f(x):\n    while x == 0 and not os.path.exists({go!r}):\n"
    define(notebook, code + "        time.sleep(0.02)\n    return x")
    assert notebook.run("m = f.map([0, 1])") is None
    ended = notebook.names["m"].as_completed(60)
    assert next(ended).result() == 1
    with pytest.raises(TimeoutError, match="it runs on"):
        list(notebook.names["m"].as_completed(0))
    (tmp_path / "go").touch()
    assert [job.result() for job in ended] == [0]


def test_a_call_that_raises_says_with_what(notebook: Notebook) -> None:
    define(notebook, "def half(x):\n    return 1 / x\n@grid.function\ndef f(x):\n    return half(x)")
    assert notebook.run("m = f.map([1, 0, 2])") is None
    scan = notebook.names["m"]
    with pytest.raises(GridError) as failed:
        scan.wait(60).failed[0].result()
    assert dict(failed.value.arguments) == {"x": "0"}
    assert "(j-2, x=0) failed with exit code 1: the function raised ZeroDivisionError" in str(failed.value)
    assert "    return half(x)\n" in failed.value.traceback
    assert "    return 1 / x\n" in failed.value.traceback
    assert "runner.py" not in failed.value.traceback
    with pytest.raises(GridError, match=r"the first of them, point 1 \(x=0\)"):
        scan.results()


def test_functions_of_a_file_beside_the_notebook(
    notebook: Notebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "beside_it.py").write_text("def deep(x): return x + 1\ndef f(x): return deep(x) if x else 1 / x\n")
    monkeypatch.syspath_prepend(tmp_path)
    define(notebook, "import beside_it\ng = grid.function(beside_it.f)\nm = g.map([1, 0])")
    monkeypatch.undo()
    jobs = notebook.names["m"].wait(60).points
    assert jobs[0].result() == 2
    with pytest.raises(GridError) as failed:
        jobs[1].result()
    assert "in f" in failed.value.traceback


def test_recursion_and_functions_that_use_others(notebook: Notebook) -> None:
    code = "@grid.function\ndef f(n): return 1 if n < 2 else n * f(n - 1)\n"
    define(notebook, code + "@grid.function\ndef g(n): return [f(i) for i in range(n)]\njob = g.remote(5)")
    assert notebook.names["job"].result() == [1, 1, 2, 6, 24]


# --- refused before anything is submitted


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("f.map([])", "no calls to make"),
        ("f.map(range(10**12))", "more than 10,000 calls"),
        ("f.remote()", "missing a required argument: 'x'"),
        ("f.starmap([(1,), (1, 2, 3)])", "of call 1: too many positional arguments"),
        ("g.remote(1)", "g uses nowhere, which is defined nowhere"),
        ("f.remote((i for i in []))", "x: a value of type generator cannot be pickled"),
        ("f.map([1, {'a': [0, lock]}])", "x of call 1['a'][1]: a value of type lock cannot be pickled"),
        ("f.remote(C())", "x.inner[0]: a value of type lock cannot be pickled"),
        ("f.remote(lambda: lock)", "x (uses lock): a value of type lock"),
        ("h.remote(1)", "the function h (uses lock): a value of type lock"),
        ("f.remote(open('/dev/null'))", "an open file stays where it is"),
        (
            "f.remote([tensor])",
            "x[0]: a value of type Tensor cannot be pickled (it lies in the memory of a GPU (cuda:0)",
        ),
    ],
)
def test_refused(notebook: Notebook, service: FakeService, code: str, words: str) -> None:
    class Tensor:
        is_cuda, device = True, "cuda:0"

    Tensor.__module__ = "torch"
    notebook.names["tensor"] = Tensor()
    define(
        notebook,
        "import threading\nlock = threading.Lock()\n@grid.function\ndef f(x, y=1): return x\n"
        "@grid.function\ndef g(x): return nowhere\n@grid.function\ndef h(x): return lock\n"
        "class C:\n    def __init__(self): self.inner = [lock]",
    )
    error = notebook.run(code)
    assert isinstance(error, InvalidError), error
    assert words in str(error)
    assert error.remedy
    assert service.asked == []


def test_names_that_a_function_sets_itself(notebook: Notebook) -> None:
    code = "@grid.function\ndef f(x):\n    global made\n    made = [i for i in range(x)]\n"
    code += "    class A:\n        a = 1\n        b = a\n"
    define(notebook, code + "    if (n := len(made)) > 1:\n        return made, A.b, n\njob = f.remote(2)")
    assert notebook.names["job"].result() == ([0, 1], 1, 2)


def test_what_is_heavy_is_told_and_packed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    f: Any = lambda x, y: (len(x), y)  # noqa: E731
    data, told = {"a": b"x" * 11_000_000}, list[str]()
    calls = [((data, n), dict[str, Any]()) for n in range(100)]
    packed = Calls(f, calls).pack(told.append)
    assert {name: length(content) > 11_000_000 for name, content in packed.items()} == {INPUTS: False, ASIDE: True}
    assert told == ["x is 11 MB packed: it is kept with your jobs' files, and the same is not sent twice"]
    for name, content in packed.items():
        (tmp_path / name).write_bytes(b"".join(pieces(content)))
    with open(tmp_path / INPUTS, "rb") as file:
        cargo = Cargo(file)
        assert cargo.value(cargo.record["first"] + 7) == ((data, 7), {})
    assert Calls(f, calls[:1]).parameters() == [{"x": "<dict of 1>", "y": "0"}]
    assert digest(Calls(f, calls[:1]).pack()[ASIDE]) == digest(packed[ASIDE])
    monkeypatch.setattr("slipway._packing.FILE_LIMIT", 64 << 20)
    with pytest.raises(InvalidError, match=r"the arguments of the first 7 of 9 calls are 77 MB, at most 64 MiB go"):
        Calls(f, [((bytes([n]) * 11_000_000, n), {}) for n in range(9)]).pack()
    assert len(told) == 1


def test_what_shared_arguments_share_is_one_thing() -> None:
    f: Any = lambda x, y: None  # noqa: E731
    x: list[int] = []
    y = {"x": x}
    cargo = Cargo(io.BytesIO(b"".join(pieces(Calls(f, [((x, y), {})] * 2).pack()[INPUTS]))))
    (x, y), _ = cargo.value(cargo.record["first"])
    assert y["x"] is x
    (other, _), _ = cargo.value(cargo.record["first"] + 1)
    assert other is not x


def test_many_calls_are_packed_fast() -> None:
    f: Any = lambda x: x  # noqa: E731
    packed = b"".join(pieces(Calls(f, [((n,), {}) for n in range(10_000)]).pack()[INPUTS]))
    assert len(packed) < 1_000_000


# --- what travels, and what it needs


def reopened(value: Any, **change: Any) -> Cargo:
    cargo = Cargo(io.BytesIO(pack(value)))
    cargo.record.update(change)
    return cargo


def test_versions_are_recorded_and_looked_at() -> None:
    cargo = reopened(pytest.raises)
    assert cargo.record["python"] == "{}.{}.{}".format(*sys.version_info)
    assert cargo.record["packages"].keys() >= {"_pytest"}
    cargo.check()
    assert cargo.differences() == []
    assert cargo.value() is pytest.raises
    assert "cloudpickle" in reopened(lambda: 1).record["packages"]
    assert reopened({"a": [1, 2.5, "x"]}).record["packages"] == {}
    for change, words in {
        ("python", "3.99.0"): "Python 3.99.0 has packed them",
        ("packages", (("no_such_module", "1.0"),)): "they need no_such_module, which is not installed here",
        ("packages", (("cloudpickle", "99.1"),)): "cloudpickle 99.1 has packed them",
    }.items():
        value: Any = dict(change[1]) if isinstance(change[1], tuple) else change[1]
        with pytest.raises(UnfitError, match=words):
            reopened(1, **{change[0]: value}).check()
    assert reopened(1, packages={"pytest": "0.1"}).differences() == [f"pytest 0.1 there, {pytest.__version__} here"]


def test_a_plain_pickle_is_a_cargo_too() -> None:
    file = io.BytesIO()
    dump([1], file)
    cargo = Cargo(file)
    cargo.check()
    assert cargo.value() == [1]
    assert Cargo(io.BytesIO(b"x")).record == {}


def test_what_pickles_by_value(notebook: Notebook) -> None:
    define(notebook, "@grid.function\ndef f(x): return x(2)")
    notebook.names["p"] = functools.partial(pow, 3)
    assert notebook.run("a, b = f.remote(lambda y: y + 1), f.remote(p)") is None
    assert (notebook.names["a"].result(), notebook.names["b"].result()) == (3, 9)


def test_an_environment_that_lacks_a_package(
    notebook: Notebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import types

    module = types.ModuleType("only_here")
    module.__dict__["T"] = type("T", (), {"__module__": "only_here"})
    monkeypatch.setitem(sys.modules, "only_here", module)
    define(notebook, "import only_here\n@grid.function\ndef f(x): return 1\njob = f.remote(only_here.T())")
    with pytest.raises(GridError, match="they need only_here, which is not installed here"):
        notebook.names["job"].result()


def test_an_interrupt_before_the_submission(notebook: Notebook, service: FakeService) -> None:
    define(notebook, "@grid.function\ndef f(x): return x")
    service.fail("freeze", 1.0)
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    assert "slipway.scans() tells whether" in str(notebook.run("f.map([1])"))
    assert service.jobs == {}


def test_a_file_in_memory_may_travel() -> None:
    assert reopened(io.BytesIO(b"x")).value().read() == b"x"


def test_threads_may_submit(notebook: Notebook) -> None:
    define(notebook, "@grid.function(quiet=True)\ndef f(x): return x")
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda n=n: found.append(notebook.names["f"].remote(n).result())) for n in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [0, 1, 2]
