"""What a cell says to the notebook: understood in a job, or refused with what does it there."""

from __future__ import annotations

import pytest

from fake import FakeService
from slipway._cell import instead, plain
from test_magic import Notebook, notebook

__all__ = ["notebook"]


def test_what_is_about_the_page_goes_away() -> None:
    cell = "%load_ext slipway\n%matplotlib inline\n  %config InlineBackend.figure_format = 'svg'\n%%time\nx = 1"
    assert plain(cell).splitlines() == ["pass", "pass", "  pass", "pass", "x = 1"]


def test_python_stays_as_it_is() -> None:
    cell = 's = """\n%matplotlib inline\n"""\nx = 5'
    assert plain(cell) == cell


def test_a_statement_is_timed(notebook: Notebook) -> None:
    out = notebook.grid("", "%matplotlib inline\n%time result = 6 * 7;\nif result:\n    %time print('so')\n")
    assert notebook.names["result"] == 42
    assert out.count("Wall time: ") == 2
    assert "so\n" in out


def test_lines_keep_their_numbers(notebook: Notebook) -> None:
    error = notebook.refused("", "%%time\n%time x = 1\n1 / 0")
    assert 'File "<grid cell cell>", line 4, in <module>\n    1 / 0' in error.traceback


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("!ls -l", "!command works in the notebook, not in a job: subprocess.run('ls -l', shell=True, check=True)"),
        ("files = !ls", "subprocess.run('ls', shell=True, check=True)"),
        ("%pip install uproot", "%pip works in the notebook, not in a job: install it in a cell of its own"),
        ("!pip install uproot", "!pip works in the notebook, not in a job: install it in a cell of its own"),
        ("%cd /tmp", "os.chdir"),
        ("%timeit f()", "timeit.timeit(...), or %time"),
        ("%%bash", "use Python (subprocess.run)"),
        ("x?", "use Python (subprocess.run)"),
    ],
)
def test_the_rest_is_refused_with_what_does_it(notebook: Notebook, service: FakeService, line: str, words: str) -> None:
    assert words in instead(line)
    assert words in str(notebook.refused("", f"x = 1\n{line}"))
    assert service.asked == []


def test_what_is_python_is_not_for_the_notebook() -> None:
    assert instead("x = (1") == ""
