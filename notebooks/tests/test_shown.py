"""What payloads display: kept by the runner, shown in the notebook."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import slipway
from fake import FakeService, Fault
from slipway._payload import shown as _shown
from test_magic import Notebook, notebook
from test_runner import Run, run

__all__ = ["notebook"]

PICTURE = (
    "class P:\n    def _repr_png_(self): return b'PNG' + bytes(SIZE)\n    def __repr__(self): return 'a picture'\n"
)

PYPLOT = """
_figures = {}
def figure(number=None):
    from matplotlib.figure import Figure
    return _figures.setdefault(number or len(_figures) + 1, Figure())
def get_fignums(): return sorted(_figures)
def close(which): _figures.clear()
def show(): raise RuntimeError("there is no screen")
"""
FIGURE = """
class Figure:
    def savefig(self, file, **options): file.write(b"DRAWN")
    def __repr__(self): return "<Figure>"
"""


def manifest(done: Run) -> Any:
    return json.loads((done.directory / _shown.MANIFEST).read_text())


def test_the_last_expression_is_shown(tmp_path: Path) -> None:
    done = run(tmp_path, "x = 6\nx * 7")
    assert (done.out, done.report.get("shown")) == ("42\n", None)
    assert not (tmp_path / _shown.MANIFEST).exists()


@pytest.mark.parametrize("cell", ["x = 6\nx;", "None", "x = 1", "if 1:\n    5"])
def test_what_notebooks_do_not_show(tmp_path: Path, cell: str) -> None:
    assert run(tmp_path, cell).out == ""


def test_an_error_in_the_last_expression_has_its_line(tmp_path: Path) -> None:
    done = run(tmp_path, "x = 0\n1 / x")
    assert "line 3, in <module>\n    1 / x" in done.report["traceback"]


def test_rich_forms_are_files(tmp_path: Path) -> None:
    cell = PICTURE.replace("SIZE", "1") + "class T:\n    def _repr_html_(self): return '<b>é</b>'\n    _repr_svg_ = 3\n"
    cell += "class B:\n    def _repr_html_(self): raise ValueError\n    def _repr_png_(self): return 'UE5H', {}\n"
    done = run(tmp_path, cell + "display(P(), T())\ndisplay(T)\nB()")
    first, second, third = manifest(done)["shown"]
    assert first == {"text": "a picture", "files": {"image/png": "slipway-shown-0.png"}}
    assert (tmp_path / "slipway-shown-0.png").read_bytes() == b"PNG\0"
    assert (tmp_path / second["files"]["text/html"]).read_text(encoding="utf-8") == "<b>é</b>"
    assert (tmp_path / third["files"]["image/png"]).read_bytes() == b"PNG"
    assert done.report["shown"] == 3
    assert done.out.startswith("a picture\n<__main__.T object")


def test_number_and_bytes_are_bounded(tmp_path: Path) -> None:
    done = run(tmp_path, PICTURE.replace("SIZE", "10") + "for i in range(25): display(P())")
    assert len(manifest(done)["shown"]) == _shown.MOST
    assert manifest(done)["left_out"] == 5
    done = run(tmp_path, PICTURE.replace("SIZE", "6_000_000") + "display(P(), P())")
    assert (len(manifest(done)["shown"]), manifest(done)["left_out"]) == (1, 1)
    long = run(tmp_path, "'x' * 1_000_000").out
    assert long.endswith("... (of 1,000,002 characters)\n")


def test_a_payload_may_leave_its_directory(tmp_path: Path) -> None:
    cell = PICTURE.replace("SIZE", "1") + "import os\nos.mkdir('else')\nos.chdir('else')\ndisplay(P())\nresult = 41"
    done = run(tmp_path, cell)
    assert (done.code, done.result, done.report["result"], done.report["shown"]) == (0, 41, "kept", 1)
    assert (tmp_path / "slipway-shown-0.png").read_bytes() == b"PNG\0"
    assert list((tmp_path / "else").iterdir()) == []


def test_threads_may_display(tmp_path: Path) -> None:
    cell = "class P:\n    def __init__(self, x): self.x = x\n    def _repr_png_(self): return bytes([self.x])\n"
    cell += "from concurrent.futures import ThreadPoolExecutor\n"
    cell += "with ThreadPoolExecutor(20) as pool: list(pool.map(lambda x: display(P(x)), range(20)))"
    done = run(tmp_path, cell)
    assert (done.code, done.err) == (0, "")
    kept = [(tmp_path / item["files"]["image/png"]).read_bytes() for item in manifest(done)["shown"]]
    assert sorted(kept) == [bytes([x]) for x in range(20)]


def test_a_forked_process_displays_its_text(tmp_path: Path) -> None:
    cell = PICTURE.replace("SIZE", "1") + "import os\ndisplay(P())\nif not (child := os.fork()):\n"
    done = run(tmp_path, cell + "    display(P()); os._exit(0)\nos.waitpid(child, 0);")
    assert (done.code, done.out) == (0, "a picture\na picture\n")
    assert len(manifest(done)["shown"]) == 1


def test_a_full_disk_does_not_end_the_payload(tmp_path: Path) -> None:
    cell = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (1000, -1))\n"
    cell += PICTURE.replace("SIZE", "5000") + "display(P())\nSIZE = 1\ndisplay(T())\nresult = 1\n"
    done = run(tmp_path, "class T:\n    def _repr_html_(self): return 'x'\n" + cell)
    assert (done.code, done.result) == (0, 1)
    assert (len(manifest(done)["shown"]), manifest(done)["left_out"]) == (1, 1)
    assert sorted(path.name for path in tmp_path.glob("slipway-shown*")) == ["slipway-shown-1.html", _shown.MANIFEST]


def test_figures(tmp_path: Path) -> None:
    package = tmp_path / "matplotlib"
    package.mkdir()
    for name, text in {"__init__": "", "pyplot": PYPLOT, "figure": FIGURE}.items():
        (package / f"{name}.py").write_text(text)
    done = run(
        tmp_path,
        "import os\nimport matplotlib.pyplot as plt\nplt.figure()\nplt.show()\nplt.figure(); plt.figure()\n"
        "assert os.environ['MPLBACKEND'] == 'agg'",
    )
    assert (done.code, done.err) == (0, "")
    assert [item["text"] for item in manifest(done)["shown"]] == ["<Figure>"] * 3
    assert (tmp_path / "slipway-shown-2.png").read_bytes() == b"DRAWN"
    assert run(tmp_path, "import matplotlib.pyplot as plt\nplt.figure()\n1 / 0").report["shown"] == 1


def test_the_display_of_ipython(tmp_path: Path) -> None:
    cell = "from IPython.display import HTML, Markdown, display\n"
    cell += "h = display(HTML('<i>x</i>'), display_id=True)\nh.update(Markdown('*y*'))"
    done = run(tmp_path, cell)
    assert (done.code, done.err) == (0, "")
    kinds = [set(item["files"]) for item in manifest(done)["shown"]]
    assert kinds == [{"text/html"}, {"text/markdown"}]


# --- in the notebook


def test_what_a_job_has_displayed(notebook: Notebook) -> None:
    out = notebook.grid("--name p", PICTURE.replace("SIZE", "1") + "display(P())\nresult = 1")
    assert out.count("a picture") == 2  # in the output, and where the picture would stand
    job = notebook.names["_job"]
    (thing,) = job.shown
    assert thing.data() == {"text/plain": "a picture", "image/png": "UE5HAA=="}
    assert repr(thing) == "<shown by j-1: a picture>"
    assert job.files == []
    assert slipway.job("j-1").shown[0]._repr_mimebundle_() == thing.data()
    notebook.grid("", PICTURE.replace("SIZE", "1") + "for i in range(22): display(P())")
    assert "▸ 2 more were displayed than are shown: at most 20 of a job, 10 MB together" in notebook.out


def test_only_what_notebooks_show_is_taken(notebook: Notebook, service: FakeService) -> None:
    notebook.grid("", PICTURE.replace("SIZE", "1") + "display(P())\nopen('own.png', 'w').write('x')")
    directory = service.jobs["j-1"].directory
    with (directory / "slipway-shown-1.png").open("wb") as file:
        file.truncate(_shown.MOST_BYTES)
    listed: list[Any] = [
        {"files": {"application/javascript": "slipway-shown-0.png"}},
        {"files": {"image/png": "own.png"}},
        {"files": {"image/png": "slipway-shown-7.png", "text/html": ["x"]}},
        {"files": {"image/png": "slipway-shown-0.png", "application/javascript": "slipway-shown-0.png"}},
        {"files": {"image/png": "slipway-shown-1.png"}},
        "x",
    ]
    (directory / _shown.MANIFEST).write_text(json.dumps({"shown": listed, "left_out": -7}))
    (thing,) = slipway.job("j-1").shown
    assert (thing.files, thing.size) == ({"image/png": "slipway-shown-0.png"}, 4)
    for wrong in ["[" * 100_000, "[]", "{", "x" * 10_000_001]:
        (directory / _shown.MANIFEST).write_text(wrong)
        assert slipway.job("j-1").shown == []


def test_what_cannot_be_fetched_is_told(notebook: Notebook, service: FakeService) -> None:
    service.fail("slipway-shown-0.png", *[Fault("internal", 500, "broken there")] * 2)
    cell = PICTURE.replace("SIZE", "1") + "display(P())\nresult = 3"
    assert "▸ what was displayed cannot be shown: broken there" in notebook.grid("", cell)
    assert notebook.names["result"] == 3
    assert isinstance(notebook.refused("", cell + " / 0"), slipway.GridError)


def test_an_interrupt_of_the_showing_loses_nothing(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("slipway.magic.display_shown", interrupt)
    cell = PICTURE.replace("SIZE", "1") + "display(P())\nresult = 3"
    assert isinstance(notebook.refused("", cell), KeyboardInterrupt)
    assert notebook.names["result"] == 3
    assert isinstance(notebook.refused("--scan k=1,2", cell), KeyboardInterrupt)
    assert notebook.names["result"] == [3, 3]


def test_what_points_have_displayed(notebook: Notebook) -> None:
    out = notebook.grid("--scan k=1,2", PICTURE.replace("SIZE", "1") + "if k == 2: display(P())\nresult = k")
    assert "▸ point 1 (k=2) has displayed:\na picture" in out
    assert "point 0" not in out
    assert notebook.names["_scan"].points[0].shown == []


def test_the_points_of_a_scan_share_the_room(notebook: Notebook) -> None:
    out = notebook.grid("--scan k=1,2", PICTURE.replace("SIZE", "6_000_000") + "display(P())\nresult = k")
    assert out.count("a picture") == 1
    assert "▸ point 1 (k=2) has displayed:\n▸ 1 more were displayed than are shown" in out
    assert [len(point.shown) for point in notebook.names["_scan"].points] == [1, 1]


def test_functions_display_too(notebook: Notebook) -> None:
    code = "from slipway import grid\n@grid.function\ndef f(x):\n    display(x)\n    return 1\n"
    assert notebook.run(code + PICTURE.replace("SIZE", "1") + "job = f.remote(P())") is None
    assert notebook.names["job"].result() == 1
    assert len(notebook.names["job"].shown) == 1
