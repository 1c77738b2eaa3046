"""The example notebooks: valid, free of outputs, and every %%grid cell in them runs against the fake service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from fake import FakeService

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.ipynb"))


def test_there_are_examples() -> None:
    assert EXAMPLES


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path: Path, service: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLIPWAY_SOCKET", service.socket)
    book: Any = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    nbformat.validate(book)
    InteractiveShell.clear_instance()
    shell: Any = InteractiveShell.instance(colors="nocolor")
    for cell in book.cells:
        if cell.cell_type != "code":
            continue
        assert not cell.outputs
        if cell.source.startswith("%pip"):
            continue
        # What the notebook installs is not here: any module with a version stands in for it.
        source = cell.source.replace("import cowsay,", "import json as cowsay,")
        with capture_output() as captured:
            done = shell.run_cell(source)
        assert done.success, f"{cell.id}: {captured.stdout}"
    InteractiveShell.clear_instance()
