"""Examples run in a real kernel, against the fake service, and read well afterwards; internal/e2e has real sessions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from fake import FakeService

EXAMPLES = Path(__file__).parents[1] / "src/slipway/examples"


def execute(name: str, monkeypatch: pytest.MonkeyPatch, service: FakeService, more: str = "") -> dict[str, str]:
    """Give the text of each cell's outputs by the cell's id."""
    monkeypatch.setenv("SLIPWAY_SOCKET", service.socket)
    book: Any = nbformat.read(EXAMPLES / name, as_version=4)  # type: ignore[no-untyped-call]
    nbformat.validate(book)
    assert all(not cell.get("outputs") for cell in book.cells), "examples are kept without outputs"
    for cell in book.cells:
        # What the notebook installs is not here: any module with a version stands in for it.
        cell.source = cell.source.replace("import cowsay,", "import json as cowsay,")
        cell.source = "" if cell.source.startswith("%pip") else cell.source
    if more:
        book.cells.append(nbformat.v4.new_code_cell(more, id="more"))  # type: ignore[no-untyped-call]
    place = {"metadata": {"path": str(service.directory)}}
    NotebookClient(book, timeout=60, kernel_name="python3", allow_errors=bool(more), resources=place).execute()
    return {cell.id: "".join(map(_text, cell.outputs)) for cell in book.cells if cell.cell_type == "code"}


def _text(output: Any) -> str:
    if output.output_type == "stream":
        return str(output.text)
    if output.output_type == "error":
        return "\n".join(output.traceback)
    return str(output.data["text/plain"]) + "\n"


def test_hello_grid(service: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    out = execute("hello_grid.ipynb", monkeypatch, service)
    lines = out["job"].splitlines()
    assert lines[0].startswith("▸ environment abababababab frozen now, 42 kB of yours on a base of 2.5 GB (")
    assert lines[1].startswith("▸ job first j-1 submitted")
    assert len([line for line in lines if line.startswith("▸ first done, exit code 0")]) == 1
    assert out["result"] == "42\n"
    assert out["map"] == ""
    assert out["areas"] == "[3.14159, 12.56636, 28.27431]\n"
    assert "▸ shapes.py (37 B): yours, and goes along\n" in out["shapes"]
    assert "\n49\n" in out["shapes"]
    assert "done done [<steps.txt 1 B>]" in out["later"]
    assert "step 0\nstep 1\nstep 2" in out["later"]


def test_function_map(service: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    out = execute("function_map.ipynb", monkeypatch, service)
    assert out["remote"].startswith("3.1")
    assert sorted(out["map"].splitlines()) == ["0 done", "1 done", "2 done", "3 done"]
    assert out["mean"] == "3.1\n"
    assert out["results"].startswith("[3.")
    assert out["star"] == "True\n"
    assert service.count("POST", "/freeze") == 3  # of the job and the two scans


def test_a_failure_shows_the_remote_traceback_only(service: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    out = execute("hello_grid.ipynb", monkeypatch, service, "%%grid --name bad --quiet\nx = 0\n1 / x")["more"]
    assert 'File "<grid cell bad>", line 3, in <module>\n    1 / x' in out
    assert out.rstrip().endswith(
        "the cell raised ZeroDivisionError: division by zero (result is still the value from before)"
    )
    assert "_watch.py" not in out
    assert "magic.py" not in out
