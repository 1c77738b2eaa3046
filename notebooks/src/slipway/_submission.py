"""From a payload's files to its job or scan: one way for %%grid and @grid.function."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from importlib import resources

from . import _payload
from ._client import Cargoes, Client, JobRequest
from ._display import Screen
from ._environments import FreezeOptions, freeze_session
from ._errors import InvalidError
from ._jobs import JobHandle
from ._models import Environment, Job, Scan
from ._options import DEFAULT_NAME, Options, called
from ._scans import ScanHandle
from ._transport import Content
from ._units import memory_words
from ._watch import WatchInterrupted

_SHIPPED = {
    "runner.py": "runner.py",
    **{f"slipway_{name}.py": f"{name}.py" for name in ("folder", "progress", "shown", "values")},
}


def runner_files() -> dict[str, bytes]:
    """Give the files by which a payload runs in its job, under the names that they have there."""
    package = resources.files(_payload)
    return {name: package.joinpath(source).read_bytes() for name, source in _SHIPPED.items()}


def submit(
    connect: Callable[[], Client],
    options: Options,
    files: Mapping[str, Content],
    screen: Screen,
    *,
    magic: str,
    points: Sequence[Mapping[str, str]] | None = None,
) -> JobHandle | ScanHandle:
    """Submit a job or, where there are points, a scan; ``magic`` is what the user has written."""
    try:
        with connect() as client, called("--{}" if magic == "%%grid" else "{}="):
            made = _submit(client, options, {**files, **runner_files()}, screen, magic, points)
        connection = connect()
        return (
            ScanHandle(connection, made, quiet=options.quiet) if isinstance(made, Scan) else JobHandle(connection, made)
        )
    except KeyboardInterrupt:
        listed = "slipway.jobs()" if points is None else "slipway.scans()"
        raise WatchInterrupted(f"interrupted; {listed} tells whether it was submitted") from None


def _submit(
    client: Client,
    options: Options,
    files: Mapping[str, Content],
    screen: Screen,
    magic: str,
    points: Sequence[Mapping[str, str]] | None,
) -> Job | Scan:
    cargoes = Cargoes(files)
    request = JobRequest(
        name=options.name,
        environment="",
        argv=[sys.executable, "runner.py"],
        env={"PYTHONUNBUFFERED": "1", "SLIPWAY_CELL_NAME": options.name},
        files=cargoes.files,
        blobs=cargoes.blobs,
        cpus=options.cpus,
        memory=options.memory,
        time_limit=options.time_limit,
        gpu=options.gpu,
        preemptible=options.preemptible,
        backend=options.backend,
        retries=options.retries,
        after=options.after,
        priority=options.priority,
        out=options.out,
        request_id=str(uuid.uuid4()),
    )
    plan = client.check_job(points, **request)  # before a freeze that would be for nothing
    count = 1 if points is None else len(points)
    told = [
        cargoes.look(client),
        plan.words(count, gpu=options.gpu not in (None, "none"), known=options.name != DEFAULT_NAME),
    ]
    request["environment"] = choose_environment(client, options, screen, magic, "; ".join(filter(None, told))).digest
    cargoes.send(client, screen.live())
    if points is None:
        job = client.submit(**request)
        screen.line(_told(options, f"job {options.name} {job.id}", job))
        return job
    scan, job = client.submit_scan(points, **request)
    size = f"{scan.points:,} point{'s' * (scan.points != 1)}"
    if options.first_only and options.points_given > 1:
        size = f"the first of {options.points_given:,} points"
    screen.line(_told(options, f"scan {options.name} {scan.id}, {size},", job))
    return scan


def _told(options: Options, what: str, record: Job) -> str:
    """Say in a line what was submitted, and what it asks for; the record is its own or that of its first point."""
    cpus = f"{record.cpus:g} CPU" if record.cpus else ""
    gpu = f"{record.gpu} of a GPU" if record.gpu not in ("", "none") else ""
    asked = [text for text in (cpus, memory_words(record.memory), gpu, record.time_limit, _turn(record)) if text]
    to = f" to {record.backend}" if options.backend else ""
    return f"{what} submitted{to}{': ' if asked else ''}{', '.join(asked)}"


def _turn(record: Job) -> str:
    """Say where a job stands in line."""
    if record.queue is None or not record.queue.place:
        return ""
    seconds = record.queue.estimate
    minutes = f"{seconds / 60:.0f} min" if seconds >= 60 else "a minute"
    until = f", begins in about {minutes}" if seconds >= 0 else ""
    return f"number {record.queue.place:,} in line{until}"


def choose_environment(client: Client, options: Options, screen: Screen, magic: str, more: str) -> Environment:
    """Give the environment that was named, or freeze the session that this runs in; ``more`` is said behind it."""
    if options.environment:
        chosen = client.environment(options.environment)
        _refuse_other_python(chosen)
        screen.line(f"environment {chosen.short} {chosen.label if chosen.name else ''}".rstrip() + f"; {more}")
        return chosen
    return freeze_session(client, screen, FreezeOptions(allow_secret=options.allow_secret), magic, f"; {more}")


def _refuse_other_python(environment: Environment) -> None:
    here = "{}.{}".format(*sys.version_info[:2])
    there = ".".join(environment.python.split(".")[:2])
    if there and there != here:
        raise InvalidError(
            f"environment {environment.short} has Python {there}, this notebook {here}: values cannot travel",
            field="environment",
            remedy="use an environment with the same Python, or submit a script with: slipway submit",
        )
