"""Runs notebooks with nbclient and papermill, whose kernels are behind a gateway."""

import sys

import nbformat
import papermill
from jupyter_server.gateway.managers import GatewayKernelManager
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

KERNEL = {"kernelspec": {"name": "python", "display_name": "Python", "language": "python"}}


def output(cell):
    """All that a cell has written."""
    return "".join(o.get("text", "") for o in cell.outputs)


def with_nbclient():
    """Results, rich output, errors, and what is not text."""
    cells = ["x = 6", "print(x * 7)", "from IPython.display import HTML; HTML('<b>rich</b>')", "x / 0", "print('after')"]
    nb = new_notebook(cells=[new_code_cell(c) for c in cells], metadata=KERNEL)
    NotebookClient(nb, kernel_manager_class=GatewayKernelManager, allow_errors=True).execute(kernel_name="python")
    assert output(nb.cells[1]) == "42\n", nb.cells[1]
    assert nb.cells[2].outputs[0].data["text/html"] == "<b>rich</b>", nb.cells[2]
    assert nb.cells[3].outputs[0].ename == "ZeroDivisionError", nb.cells[3]
    assert output(nb.cells[4]) == "after\n", nb.cells[4]


def with_papermill(directory):
    """Parameters, and what it writes."""
    nb = new_notebook(cells=[new_markdown_cell("# A scan"), new_code_cell("a = 1", metadata={"tags": ["parameters"]}), new_code_cell("print(a + 1)")], metadata=KERNEL)
    nbformat.write(nb, f"{directory}/in.ipynb")
    done = papermill.execute_notebook(f"{directory}/in.ipynb", f"{directory}/out.ipynb", {"a": 41}, kernel_manager_class=GatewayKernelManager, progress_bar=False)
    assert output(done.cells[-1]) == "42\n", done.cells[-1]


with_nbclient()
with_papermill(sys.argv[1])
