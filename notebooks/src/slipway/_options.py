"""The options of %%grid: how they are written and what is wrong with them."""

from __future__ import annotations

import argparse
import re
import shlex
from dataclasses import dataclass
from typing import Any

from ._errors import InvalidError
from ._grid_file import read_points
from ._job import JobHandle
from ._option_words import option_parser
from ._points import parse_scan
from ._scan import ScanHandle

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
    if isinstance(value, JobHandle | ScanHandle):
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
        retries=_number("retry", given.retry, 0, 100),
        after=tuple(_listed(given.after)),
        priority=_number("priority", given.priority, -100, 100),
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


def _number(option: str, text: str | None, least: int, most: int) -> int:
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
            raise InvalidError(f"--in {name}: not a name", field="in", remedy="give names of variables: --in a,b")
    return list(dict.fromkeys(names))
