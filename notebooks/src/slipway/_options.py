"""The options of %%grid, @grid.function, retry and resubmit: their words, and what is wrong with what is written."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

from ._client import Changes
from ._errors import InvalidError, SlipwayError
from ._points import parse_scan, read_points

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

While it runs, `from slipway import grid; grid.progress(i + 1, n, "epoch")` in the cell says how far
it is; tqdm's bars say so by themselves. --local tries it: the first point only, on the service's
own host, in the same environment.

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


class RetryWords(TypedDict, total=False):
    """What may be other when something is tried again."""

    cpus: float | None
    mem: str | int | None
    time: str | None


class ResubmitWords(RetryWords, total=False):
    """What may be other when something is submitted anew. ``after`` is a job or scan, or several."""

    name: str | None
    env: Any
    gpu: str | None
    to: str | None
    retry: int | None
    after: Any
    priority: int | None


def retry_changes(words: RetryWords) -> dict[str, Any]:
    """Give what is to be other as the client says it."""
    return _spell(dict(words), "retry", RetryWords.__annotations__)


def resubmit_changes(words: ResubmitWords) -> Changes:
    """Give what is to be other as the client says it."""
    spelled = _spell(dict(words), "resubmit", {**RetryWords.__annotations__, **ResubmitWords.__annotations__})
    if (after := spelled.get("after")) is not None:
        several = after if isinstance(after, Sequence) and not isinstance(after, str) else [after]
        spelled["after"] = [getattr(one, "id", one) for one in several]
    if environment := spelled.get("environment"):
        spelled["environment"] = getattr(environment, "ref", environment)
    changes: Changes = spelled  # type: ignore[assignment]  # by these words
    return changes


def _spell(words: dict[str, Any], what: str, known: Any) -> dict[str, Any]:
    if unknown := sorted(set(words) - set(known)):
        meant = OPTIONS.get(unknown[0], "")
        meant = meant if meant in known else ""
        raise InvalidError(
            f"{what} has no option {unknown[0]}",
            field=unknown[0],
            remedy=f"did you mean {meant}?" if meant else f"its options are {', '.join(sorted(known))}",
        )
    fields = {option: field for field, option in OPTIONS.items()}
    return {fields.get(word, word): value for word, value in words.items()}


def states(*, failed: bool, canceled: bool, done: bool = False) -> list[str]:
    """Name the states that are meant; none is a mistake."""
    meant = {"failed": failed, "canceled": canceled, "done": done}
    chosen = [state for state, yes in meant.items() if yes]
    if not chosen:
        raise InvalidError(
            "retry: nothing is meant", field="states", remedy="say failed=True, canceled=True or done=True"
        )
    return chosen


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
    points_given: int
    backend: str | None
    first_only: bool
    retries: int
    after: tuple[str, ...]
    priority: int
    out: tuple[str, ...]
    quiet: bool
    detach: bool


class HelpWanted(Exception):  # noqa: N818 - no error: the user has asked
    """The user has asked for the help text, which this carries."""


def parse_options(line: str) -> Options:
    """Read the line after %%grid."""
    parser = option_parser()
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
    spelled = option_parser().parse_args([])
    spelled.name = name
    for key, value in given.items():
        setattr(spelled, key, _spelled(value))
    return _options(spelled)


KEYWORDS = (
    *("gpu", "cpus", "mem", "time", "env", "to", "local", "retry", "after", "priority", "out"),
    *("preemptible", "allow_secret", "quiet"),
)
"""The options of @grid.function, beside its name."""


def _spelled(value: Any) -> Any:
    """Give a keyword's value as the line has it."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if isinstance(getattr(value, "id", None), str):
        return value.id
    return [_spelled(part) for part in value] if isinstance(value, list | tuple) else value


def _listed(given: Any) -> list[str]:
    """Give the words of an option that may be repeated, and of a keyword that may be one word or several."""
    several = given if isinstance(given, list) else [given] if given else []
    return list(dict.fromkeys(word.strip() for text in several for word in str(text).split(",") if word.strip()))


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
    if given.local and given.to not in (None, "local"):
        raise InvalidError(f"--local and --to {given.to}", field="to", remedy="leave one of them out")
    inputs = tuple(_names(given.inputs))
    points = tuple(read_points(given.grid_file) if given.grid_file else parse_scan(given.scan))
    count = len(points)
    points = points[:1] if given.local else points
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
        first_only=given.local,
        retries=_whole("retry", given.retry, 0, 100),
        after=tuple(_listed(given.after)),
        priority=_whole("priority", given.priority, -100, 100),
        out=_out(_listed(given.out)),
        inputs=inputs,
        points=points,
        points_given=count,
        backend="local" if given.local else given.to,
        quiet=given.quiet,
        detach=given.detach,
    )


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


def _whole(option: str, text: str | None, least: int, most: int) -> int:
    value = 0 if text is None else int(text) if re.fullmatch(r"-?\d{1,9}", text) else most + 1
    if text is not None and re.fullmatch(r"-?\d{1,9}", text) and not least <= value <= most:
        raise InvalidError(
            f"--{option} {text} is {'more' if value > most else 'less'} than the {most if value > most else least} "
            "that it may be",
            field=option,
            remedy=f"write a whole number from {least} to {most}",
        )
    if not least <= value <= most:
        raise InvalidError(
            f"--{option} {text}: not understood", field=option, remedy=f"write a whole number from {least} to {most}"
        )
    return value


def _out(names: list[str]) -> tuple[str, ...]:
    for name in names:
        if "/" in name or name in (".", ".."):
            raise InvalidError(
                f"--out {name}: not a file in the working directory",
                field="out",
                remedy="name files that lie directly in it, as hist.root or *.png; pack directories into one",
            )
    return tuple(names)


def _match(option: str, text: str | None, pattern: re.Pattern[str], remedy: str) -> str | None:
    if text is not None and not pattern.fullmatch(text):
        raise InvalidError(f"--{option} {text}: not understood", field=option, remedy=remedy)
    return text


def _names(given: list[str]) -> list[str]:
    names = [name.strip() for text in given for name in text.split(",") if name.strip()]
    for name in names:
        if not name.isidentifier():
            remedy = "give names of variables: --in a,b"
            if (file := Path(name).expanduser()).exists():
                remedy = f"--in takes variables. Open the file by its whole path: {str(file.resolve())!r}"
            raise InvalidError(f"--in {name}: not a name", field="in", remedy=remedy)
    return list(dict.fromkeys(names))
