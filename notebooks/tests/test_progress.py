"""What payloads say of how far they are: written seldom and wholly, and taken from tqdm's bars."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

import slipway
from fake import FakeService
from slipway import grid
from slipway._payload.progress import FILE, Reporter
from test_magic import Notebook, notebook
from test_runner import Run, run

__all__ = ["notebook"]


def said(path: Path) -> Any:
    return json.loads(path.read_text())


def test_the_first_and_the_last_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, now = tmp_path / "p", [100.0]
    monkeypatch.setattr("threading.Timer", Timer)
    monkeypatch.setenv(FILE, str(file))
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    report = Reporter()
    report(1, 1000, "a\n b")
    assert said(file) == {"done": 1, "of": 1000, "text": "a b"}
    for n in range(2, 999):
        report(n, 1000)
    assert said(file)["done"] == 1
    now[0] += 0.5
    report(999, 1000)
    assert said(file)["done"] == 999
    report(1000, 1000, "x" * 999)
    assert (said(file)["done"], len(said(file)["text"])) == (1000, 200)
    report(1, text="of how much is not known")
    report.flush()
    assert said(file)["of"] == 0
    report(float("nan"), 3)
    report.flush()
    assert said(file)["done"] == 1
    assert os.listdir(tmp_path) == ["p"]


class Timer(threading.Thread):
    """A timer that is due when the test says so."""

    made: ClassVar[list[Timer]] = []

    def __init__(self, after: float, then: Callable[[], None]) -> None:
        super().__init__(target=then)
        self.made.append(self)
        self.canceled = False

    def start(self) -> None:
        pass

    def cancel(self) -> None:
        self.canceled = True


def test_what_is_held_back_is_written_though_nothing_comes_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Timer.made.clear()
    monkeypatch.setenv(FILE, str(tmp_path / "p"))
    monkeypatch.setattr("threading.Timer", Timer)
    report = Reporter()
    monkeypatch.setattr("time.monotonic", lambda: 100.0)
    for n in (1, 2, 3):
        report(n, 10)
    assert said(tmp_path / "p")["done"] == 1
    [timer] = Timer.made
    assert timer.daemon
    timer.run()
    assert said(tmp_path / "p")["done"] == 3
    report(4, 10)
    report(10, 10)
    assert [timer.canceled for timer in Timer.made] == [True, True]


def test_a_fork_reports_by_itself(tmp_path: Path) -> None:
    cell = "import os, slipway\nslipway.progress(1, 9)\nslipway.progress(2, 9)\nchild = os.fork()\nif not child:\n"
    cell += "    slipway.progress(9, 9)\n    os._exit(0)\nresult = os.waitpid(child, 0)[1]"
    assert run(tmp_path, cell, SLIPWAY_PROGRESS=str(tmp_path / "p")).result == 0


def test_outside_of_a_job_it_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FILE, raising=False)
    grid.progress(1, 2, "x")
    assert slipway.progress is grid.progress
    with pytest.raises(TypeError):
        grid.progress([])  # type: ignore[arg-type]


def test_a_full_disk_ends_no_payload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FILE, str(tmp_path / "gone" / "p"))
    Reporter()(1, 1)


def payload(directory: Path, cell: str) -> tuple[Run, Any]:
    (directory / "w").mkdir()
    file = directory / "progress.json"
    done = run(directory / "w", cell, SLIPWAY_PROGRESS=str(file))
    assert done.code == 0, done.err
    return done, said(file)


@pytest.mark.parametrize(
    "cell",
    [
        "from slipway import grid\nfor i in range(50): grid.progress(i, 50)\ngrid.progress(49.5, 50, 'end')",
        "import slipway\nslipway.progress(49.5, 50, 'end')",
        "import slipway.grid\nslipway.grid.progress(1)\nslipway.grid.progress(49.5, 50, 'end')",
    ],
)
def test_a_payload_needs_no_wheel(tmp_path: Path, cell: str) -> None:
    _, last = payload(tmp_path, cell)
    assert last == {"done": 49.5, "of": 50, "text": "end"}


def bars(code: str) -> str:
    tqdm = pytest.importorskip("tqdm")
    return f"import sys\nsys.path.insert(0, {str(Path(tqdm.__file__).parents[1])!r})\n{code}"


@pytest.mark.parametrize("kind", ["tqdm", "tqdm.auto", "tqdm.notebook", "tqdm.std"])
def test_bars_are_one_line_and_a_progress(tmp_path: Path, kind: str) -> None:
    loop = "for i in tqdm(range(40), desc='epoch', mininterval=0): time.sleep(0.002)"
    cell = f"import time\nfrom {kind} import tqdm\n{loop}"
    done, last = payload(tmp_path, bars(cell))
    assert last == {"done": 40, "of": 40, "text": "epoch"}
    (line,) = done.err.splitlines()
    assert line.startswith("epoch: 100%|")
    assert "\r" not in done.err
    assert done.out == ""


def test_inner_bars_do_not_count(tmp_path: Path) -> None:
    cell = (
        "from tqdm import trange, tqdm\nfor i in trange(3):\n    for j in trange(5, leave=False, mininterval=0): pass\n"
    )
    done, last = payload(tmp_path, bars(cell + "    tqdm.write('between')"))
    assert last == {"done": 3, "of": 3, "text": ""}
    assert done.out == "between\n" * 3
    assert len(done.err.splitlines()) == 1


def test_bars_into_a_file_stay_as_they_are(tmp_path: Path) -> None:
    cell = "from tqdm import trange\nwith open('bars', 'w') as f:\n    for i in trange(3, file=f): pass"
    (tmp_path / "bar").mkdir()
    done = run(tmp_path / "bar", bars(cell))
    assert (done.code, done.err) == (0, "")
    assert "\r" in (tmp_path / "bar" / "bars").read_bytes().decode()


def test_the_job_tells_it(notebook: Notebook, service: FakeService) -> None:
    notebook.grid("", "from slipway import grid\ngrid.progress(3, 4, 'most of it')")
    progress = notebook.names["_job"].record.progress
    assert (str(progress), progress.share) == ("3 of 4, most of it", 0.75)
    code = (
        "from slipway import grid\n@grid.function\ndef f(n):\n    grid.progress(n, 10)\n    return n\njob = f.remote(5)"
    )
    assert notebook.run(code) is None
    assert notebook.names["job"].result() == 5
    assert str(notebook.names["job"].record.progress) == "5 of 10"
