"""The words of %%grid's first line, and the help that tells them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

from ._errors import InvalidError, SlipwayError

_HELP = """\
The cell runs as a batch job in this session's environment: what is installed here now is installed
there too. It is frozen first if it has changed. Interrupting the cell stops the watching, not the
job: _job.cancel() does that.

What goes there: the values given with --in, and what the cell imports from files of your own beside
the notebook or in your home, up to 10 MB of each; nothing else of the notebook. On the site's own
hosts your home directory is mounted in the job, though it is not the working directory; a job in a
pool whose workers do not have it gets an empty home that goes with the job. In a job there is no
IPython: of the magics, %time is understood.

What comes back: set `result` in the cell and it is set here when the job is done.
The last expression, display(...) and matplotlib's figures are shown here too. Files that lie in
the working directory itself are in `_job.files`; directories do not come back: pack them.

Nothing is lost when the notebook is closed. In any later session slipway.jobs() and slipway.scans()
list what you have; slipway.job("j-...") and slipway.scan("scan-...") give one back, with its state,
log, result and files.

A scan: with --scan or --grid-file the cell runs once for each point, all submitted together.
`result` is then a list with the points' results in order, and `_scan.points` a table of them.
Values may be given as 'lr=log(1e-4,1e-1,7)', 'x=linear(0,1,11)' and 'n=range(0,10,2)', whose end is
not in it; one in quotes is text as it stands: --scan "mode='a,b','7'".

While it runs, `from slipway import grid; grid.progress(i, n, "epoch")` in the cell says how far it
is; tqdm's bars say so by themselves. --local tries it: the first point only, on the service's own
host, in the same environment.

What fails is tried again with --retry 2, or afterwards with `_job.retry(mem="8G")`, of a scan with
`_scan.retry()`; `_job.resubmit(gpu="2g.35gb")` makes a new job of it. With --out hist.root,*.png
these files have to be there at the end, and no others come back.

What you leave out is the site's default; without --gpu there is no GPU, and slipway.gpus() lists
what there is of them.
"""
DEFAULT_NAME = "cell"
"""What a job is called that has been given no name: with others of that name it has nothing in common."""
_EXAMPLE = """\
examples:
  %%grid --name fit --cpus 4 --mem 8G --time 2h --in data
  import analysis
  result = analysis.fit(data)

  %%grid --name train --gpu 1g.18gb --scan 'lr=log(1e-4,1e-1,7)' --scan depth=2,4
  from my_package import train
  result = train(lr, depth)
"""


OPTIONS = {"memory": "mem", "time_limit": "time", "environment": "env", "backend": "to", "retries": "retry"}
"""What the user calls a field of a request that has another name there."""
_SAME = ("name", "cpus", "gpu", "preemptible", "after", "priority", "out")


@contextmanager
def called(form: str) -> Iterator[None]:
    """Let what the service refuses be called as the user has: by ``form``, such as --{} or {}=."""
    try:
        yield
    except SlipwayError as error:
        option = OPTIONS.get(error.field, error.field if error.field in _SAME else "")
        if option and error.message.startswith(f"{error.field}: "):
            error.message = form.format(option) + error.message.removeprefix(error.field)
        error.field = option or error.field
        raise


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]  # argparse exits here
        raise InvalidError(f"%%grid: {message}", remedy="%grid --help lists the options")


def option_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="%%grid",
        description=_HELP,
        epilog=_EXAMPLE,
        add_help=False,
        allow_abbrev=False,
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=20, width=100),
    )
    add = parser.add_argument
    add("-h", "--help", action="store_true", help="show this")
    add("--name", default=DEFAULT_NAME, metavar="N", help="what the job is called (cell)")
    add("--cpus", metavar="N", help="CPU cores")
    add("--mem", metavar="2G", help="memory; K, M, G and T are powers of 1024")
    add("--time", metavar="1h", help="how long it may run: 90s, 30m, 1h30m")
    add(
        "--gpu",
        metavar="1g.18gb",
        help="a slice of a GPU: whole, 1g.18gb, 1g, mps:25%%/20G, shared; in a pool any,capability>=8.0",
    )
    add("--preemptible", action="store_true", help="borrow an idle session's slice; start anew when it is wanted back")
    add("--env", metavar="REF", help="run in this environment (digest, name:tag, owner/name:tag) and freeze nothing")
    add(
        "--allow-secret",
        action="append",
        default=[],
        metavar="PATH",
        help="freeze this file though it looks like a secret",
    )
    add(
        "--in",
        dest="inputs",
        action="append",
        default=[],
        metavar="a,b",
        help="values of the notebook to take along; large ones are kept, and sent once",
    )
    add(
        "--scan",
        action="append",
        default=[],
        metavar="k=1,2,3",
        help="run the cell once for each value, as a job each, with k set to it; repeated: for each combination",
    )
    add(
        "--grid-file",
        metavar="points.csv",
        help="run the cell once for each line of a table, whose first line names the columns; or points.json",
    )
    add("--out", action="append", default=[], metavar="a,b*", help="files that it has to leave; no others come back")
    add(
        "--to",
        metavar="BACKEND",
        help="where to run it: local, htcondor, ..., or any that has room (the site's choice)",
    )
    add("--local", action="store_true", help="try it: the first point only, on this host")
    add("--retry", metavar="N", help="how often what fails is tried again by itself (0)")
    add(
        "--after",
        action="append",
        default=[],
        metavar="JOB",
        help="begin when this job or scan is done: _job, j-..., scan-...",
    )
    add("--priority", metavar="N", help="which of your own jobs go first: from -100 to 100 (0)")
    add("--quiet", action="store_true", help="show the cell's output only")
    add("--detach", action="store_true", help="submit, give the job or the scan, and do not watch it")
    return parser
