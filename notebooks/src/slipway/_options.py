"""The options of %%grid: how they are written and what is wrong with them."""

from __future__ import annotations

import argparse
import re
import shlex
from dataclasses import dataclass
from typing import Any

from ._errors import InvalidError
from ._grid_file import read_points
from ._points import parse_scan

_HELP = """\
The cell runs as a batch job in this session's environment: what is installed here now is installed
there too. It is frozen first if it has changed. Interrupting the cell stops the watching, not the job.

What goes there: the values given with --in, and nothing else of the notebook. On the site's own hosts
your home directory is mounted in the job, though it is not the working directory; a job in a pool whose
workers do not have it gets an empty home that goes with the job.

What comes back: set `result` in the cell and it is set here when the job is done.
The last expression, display(...) and matplotlib's figures are shown here too. Files written directly into
the working directory are in `_job.files`; directories do not come back: pack them into a file.

A scan: with --scan or --grid-file the cell runs once for each point, all submitted together. `result` is
then a list with the points' results in order, and `_scan.points` a table of them. Values may be given as
'lr=log(1e-4,1e-1,7)', 'x=linear(0,1,11)' and 'n=range(0,10,2)', whose end is not in it; one in quotes is
text as it stands: --scan "mode='a,b','7'".

What you leave out is the site's default; without --gpu there is no GPU, and slipway.gpus() lists what
there is of them.
"""
_EXAMPLE = """\
examples:
  %%grid --name fit --cpus 4 --mem 8G --time 2h --in data
  import analysis
  result = analysis.fit(data)

  %%grid --name train --gpu 1g.18gb --scan 'lr=log(1e-4,1e-1,7)' --scan depth=2,4
  from my_package import train
  result = train(lr, depth)
"""
_GPU = re.compile(
    r"none|(any|whole|[1-9]\d?g(\.\d{1,4}gb)?([+-][a-z.]{1,8})?|mps:\d{1,3}%/[\d.]+([KMGT](i?B)?|B)?"
    r"|shared(/[\d.]+([KMGT](i?B)?|B)?)?)"
    r"(,\s*(optional|(count=|(capability|memory|runtime|driver)>=)[\w.]+))*",
    re.IGNORECASE,
)
_GPU_REMEDY = (
    "write it as whole, 1g.18gb, mps:25%/20G or shared, of a batch system also any,capability>=8.0,memory>=40G; "
    "slipway.gpus() lists what there is here"
)
_MEMORY = re.compile(r"\d+(\.\d+)?\s*([KMGT](i?B)?|B)?", re.IGNORECASE)
_TIME = re.compile(r"\d+|(\d+(\.\d+)?(h|ms|m|s))+")


@dataclass(frozen=True)
class Options:
    """What the first line of a %%grid cell says."""

    name: str
    cpus: float | None
    memory: str | None
    time_limit: str | None
    gpu: str | None
    preemptible: bool
    environment: str | None
    allow_secret: tuple[str, ...]
    inputs: tuple[str, ...]
    points: tuple[dict[str, str], ...]
    backend: str | None
    quiet: bool
    detach: bool


class HelpWanted(Exception):  # noqa: N818 - no error: the user has asked
    """The user has asked for the help text, which this carries."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]  # argparse exits here
        raise InvalidError(f"%%grid: {message}", remedy="%grid --help lists the options")


def parse_options(line: str) -> Options:
    """Read the line after %%grid."""
    parser = _parser()
    try:
        given = parser.parse_args(shlex.split(line, comments=True))
    except ValueError as error:  # an open quote
        raise InvalidError(f"%%grid {line}: {error}", remedy="close the quote") from None
    if given.help:
        raise HelpWanted(parser.format_help())
    return _options(given)


def keyword_options(name: str, **given: Any) -> Options:
    """Read the options of @grid.function: those of %%grid that have a meaning for a function, by the same words."""
    if unknown := sorted(set(given) - set(KEYWORDS)):
        raise InvalidError(
            f"@grid.function: there is no option {unknown[0]}",
            field=unknown[0],
            remedy=f"there are name, {', '.join(KEYWORDS)}",
        )
    spelled = _parser().parse_args([])
    spelled.name = name
    for key, value in given.items():
        setattr(spelled, key, _spelled(value))
    return _options(spelled)


KEYWORDS = ("gpu", "cpus", "mem", "time", "env", "to", "preemptible", "allow_secret", "quiet")
"""The options of @grid.function, beside its name."""


def _spelled(value: Any) -> Any:
    """Give a keyword's value as the line has it."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return list(value) if isinstance(value, tuple) else value


def _options(given: argparse.Namespace) -> Options:
    gpu = _match("gpu", given.gpu, _GPU, _GPU_REMEDY)
    if given.preemptible and gpu in (None, "none"):
        raise InvalidError(
            "--preemptible without --gpu", field="preemptible", remedy="say which slice, as --gpu 1g.18gb"
        )
    if given.scan and given.grid_file:
        raise InvalidError(
            "--scan and --grid-file", field="scan", remedy="give one of them: the file can have all points"
        )
    inputs = tuple(_names(given.inputs))
    points = tuple(read_points(given.grid_file) if given.grid_file else parse_scan(given.scan))
    if both := sorted(set(inputs) & {name for point in points[:1] for name in point}):
        raise InvalidError(
            f"{both[0]} is in --in and in {'--grid-file' if given.grid_file else '--scan'}",
            field="scan",
            remedy="leave it out of one of them",
        )
    return Options(
        name=given.name,
        cpus=_cpus(given.cpus),
        memory=_match("mem", given.mem, _MEMORY, "write it as 500M or 2G"),
        time_limit=_match("time", given.time, _TIME, "write it as 90s, 30m, 1h or 1h30m"),
        gpu=gpu,
        preemptible=given.preemptible,
        environment=given.env,
        allow_secret=tuple([given.allow_secret] if isinstance(given.allow_secret, str) else given.allow_secret),
        inputs=inputs,
        points=points,
        backend=given.to,
        quiet=given.quiet,
        detach=given.detach,
    )


def _parser() -> _Parser:
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
    add("--name", default="cell", metavar="N", help="what the job is called (cell)")
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
    add("--in", dest="inputs", action="append", default=[], metavar="a,b", help="values of the notebook to take along")
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
    add("--to", metavar="BACKEND", help="where to run it: local, htcondor, ... (the site's choice)")
    add("--quiet", action="store_true", help="show the cell's output only")
    add("--detach", action="store_true", help="submit, give the job or the scan, and do not watch it")
    return parser


def _cpus(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise InvalidError(f"--cpus {text}: not a number of cores", field="cpus", remedy="write it as 1, 4 or 0.5")
    return int(value) if value.is_integer() else value


def _match(option: str, text: str | None, pattern: re.Pattern[str], remedy: str) -> str | None:
    if text is not None and not pattern.fullmatch(text):
        raise InvalidError(f"--{option} {text}: not understood", field=option, remedy=remedy)
    return text


def _names(given: list[str]) -> list[str]:
    names = [name.strip() for text in given for name in text.split(",") if name.strip()]
    for name in names:
        if not name.isidentifier():
            raise InvalidError(f"--in {name}: not a name", field="in", remedy="give names of variables: --in a,b")
    return list(dict.fromkeys(names))
