"""Modules of the user's own, which no environment has, go along with what imports them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fake import FakeService
from slipway import InvalidError
from slipway._packing import files_beside
from test_magic import Notebook, notebook

__all__ = ["notebook"]

OWN = ("cuts", "tools", "helper", "deep", "broken")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder beside which a notebook runs, with a module that needs another, and a package."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))  # type: ignore[no-untyped-call, unused-ignore]
    (tmp_path / "cuts.py").write_text(
        "import json, helper\nclass Cut:\n    def __init__(self, at): self.at = at\n"
        "def passes(x):\n    from tools.table import most\n    return helper.twice(x) < most()\n"
    )
    (tmp_path / "helper.py").write_text("def twice(x):\n    return 2 * x\n")
    (tmp_path / "tools" / "__pycache__").mkdir(parents=True)
    (tmp_path / "tools" / "__init__.py").write_text("")
    (tmp_path / "tools" / "__pycache__" / "old.pyc").write_text("old")
    (tmp_path / "tools" / "table.py").write_text(
        "from pathlib import Path\ndef most(): return int((Path(__file__).parent / 'most.txt').read_text())\n"
    )
    (tmp_path / "tools" / "most.txt").write_text("10")
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] in OWN]:
        del sys.modules[name]


def test_a_cell_imports_a_file_beside_the_notebook(notebook: Notebook, folder: Path) -> None:
    cell = "import cuts\nresult = [cuts.passes(4), cuts.passes(5)]\nimport os; print(os.listdir('.'))"
    out = notebook.grid("", cell)
    assert notebook.names["result"] == [True, False]
    assert "▸ cuts.py (" in out
    assert "helper.py (31 B), tools/ (3 files, " in out
    assert "yours, and goes along" in out
    assert "does not come back" not in out


def test_programs_of_a_cell_have_it_too(notebook: Notebook, folder: Path) -> None:
    cell = (
        "import sys, subprocess, helper\nprogram = [sys.executable, '-c', 'import helper; print(helper.twice(21))']\n"
    )
    assert "42\n" in notebook.grid("", cell + "subprocess.run(program, check=True)")


def test_values_bring_their_classes(notebook: Notebook, folder: Path) -> None:
    notebook.run("from cuts import Cut\ncut = Cut(3)")
    notebook.grid("--in cut", "cut.at += 1\nresult = cut")
    assert notebook.names["result"].at == 4
    assert isinstance(notebook.names["result"], notebook.names["Cut"])


@pytest.mark.parametrize(
    "code",
    [
        "import cuts\n@grid.function\ndef f(x): return cuts.passes(x)",
        "from cuts import passes\n@grid.function\ndef f(x): return passes(x)",
        "@grid.function\ndef f(x):\n    import cuts\n    return cuts.passes(x)",
        "def g(x):\n    from cuts import passes\n    return passes(x)\n@grid.function\ndef f(x): return g(x)",
        "import cuts\nf = grid.function(cuts.passes)",
        "import helper\nf = grid.function(lambda x: helper.twice(x) < 10)",
    ],
)
def test_functions_bring_what_they_import(notebook: Notebook, folder: Path, code: str) -> None:
    assert notebook.run(f"from slipway import grid\n{code}\nresults = f.map([4, 5]).results()") is None
    assert notebook.names["results"] == [True, False]
    assert notebook.out.count("goes along") == 1


def test_what_is_installed_stays(notebook: Notebook, service: FakeService) -> None:
    assert files_beside({"httpx", "json", "slipway", "no_such_module", "__main__"}, print) == {}
    assert "goes along" not in notebook.grid("", "import httpx, json")


def test_nothing_is_imported_to_find_it(folder: Path) -> None:
    (folder / "broken.py").write_text("raise RuntimeError\nimport helper")
    (folder / "deep.py").write_text("import broken, helper\nthis is no Python")
    said: list[str] = []
    assert files_beside({"broken"}, said.append) == files_beside({"broken"}, said.append)
    assert said[0] == "broken.py (32 B), helper.py (31 B): yours, and goes along"
    (folder / "plots").mkdir()
    files_beside({"deep", "plots"}, said.append)
    assert said[-1] == "deep.py (39 B): yours, and goes along"


def test_large_ones_are_refused(notebook: Notebook, service: FakeService, folder: Path) -> None:
    (folder / "tools" / "events.bin").write_bytes(b"x" * 11_000_000)
    error = notebook.refused("", "import tools")
    assert isinstance(error, InvalidError)
    assert f"tools is imported from {folder}/tools, which no environment has and is more than 10 MB" in str(error)
    assert f"%pip install {folder}/tools" in error.remedy
    assert service.asked == []
