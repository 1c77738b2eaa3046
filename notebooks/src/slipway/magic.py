"""The %%grid cell magic: check the cell, freeze the session, submit, show, bring the result back.

Nothing is submitted that is known not to work, and every failure ends as one readable message.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable
from importlib import resources
from typing import Any

from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand

from . import _check
from ._client import Client
from ._errors import InvalidError
from ._freeze import FreezeOptions, freeze_session, warn_of_home
from ._job import GridError, JobHandle
from ._jobs import JobRequest
from ._options import HelpWanted, Options, parse_options
from ._runner import CELL, INPUTS
from ._scan import ScanHandle
from ._show import Screen
from ._site import Environment
from ._watch import WatchInterrupted, watch, watch_scan
from ._wire import amount

_MANY = 100
"""From how many results on it takes long enough to be told."""


@magics_class
class GridMagics(Magics):
    """Holds the magic; ``connect`` makes the client that a cell uses, ``told`` are packages that were warned of."""

    def __init__(self, shell: Any, connect: Callable[[], Client] = Client, told: set[str] | None = None) -> None:
        super().__init__(shell)
        self._connect = connect
        self._told = set() if told is None else told

    @no_var_expand
    @line_cell_magic
    def grid(self, line: str, cell: str | None = None) -> JobHandle | ScanHandle | None:
        """Run the cell as a batch job in this session's environment; ``%grid --help`` tells the options."""
        assert self.shell is not None  # noqa: S101 - IPython gives it to every magic
        names = self.shell.user_ns
        try:
            options = parse_options(line if cell is not None else line or "--help")
        except HelpWanted as wanted:
            print(wanted)
            return None
        if cell is None:
            raise InvalidError("%grid runs nothing by itself", remedy="write %%grid, and Python below it")
        files = cell_files(cell, options, names)
        screen = Screen(self.shell, quiet=options.quiet)
        warn_of_home(screen, self._told)
        with self._connect() as client:
            try:
                submitted = self._submit(client, options, files, screen)
            except KeyboardInterrupt:
                told = "slipway.scans()" if options.points else "slipway.jobs()"
                raise WatchInterrupted(f"interrupted; {told} tells whether it was submitted") from None
            if isinstance(submitted, ScanHandle):
                names["_scan"] = submitted
                if not options.detach:
                    self._follow_scan(submitted, screen, names)
            else:
                names["_job"] = submitted
                if not options.detach:
                    self._follow(submitted, screen, names)
            return submitted if options.detach else None

    def _follow(self, job: JobHandle, screen: Screen, names: dict[str, Any]) -> None:
        whole = watch(job, screen, connect=self._connect)
        try:
            value = job.result()
        except GridError as error:
            error.shown, error.stale = whole, "result" in names
            raise
        if value is not None or job.report().get("result") == "kept":
            names["result"] = value
        elif "result" in names:
            screen.line("the cell has set no result: result is still the value from before")

    def _follow_scan(self, scan: ScanHandle, screen: Screen, names: dict[str, Any]) -> None:
        watch_scan(scan, screen)
        line, count = screen.live(), scan.record.points

        def tell(done: int) -> None:
            if count > _MANY:
                line.update("results", f"results {done:,} of {count:,}")

        try:
            names["result"] = scan.results(each=tell)
        except GridError as error:
            error.stale = "result" in names
            raise

    def _submit(
        self, client: Client, options: Options, files: dict[str, bytes], screen: Screen
    ) -> JobHandle | ScanHandle:
        request = JobRequest(
            name=options.name,
            environment="",
            argv=[sys.executable, "runner.py"],
            env={"PYTHONUNBUFFERED": "1", "SLIPWAY_CELL_NAME": options.name},
            files=files,
            cpus=options.cpus,
            memory=options.memory,
            time_limit=options.time_limit,
            gpu=options.gpu,
            preemptible=options.preemptible,
            backend=options.backend,
            request_id=str(uuid.uuid4()),
        )
        client.check_job(**request)  # before a freeze that would be for nothing
        request["environment"] = choose_environment(client, options, screen).digest
        jobs = client.submit_scan(options.points, **request) if options.points else [client.submit(**request)]
        record = jobs[0]
        size = amount(sum(map(len, files.values())))
        cpus = f"{record.cpus:g} CPU" if record.cpus else ""
        gpu = f"{record.gpu} of a GPU" if record.gpu not in ("", "none") else ""
        asked = [text for text in (cpus, record.memory, gpu, record.time_limit) if text]
        what = (
            f"scan {options.name} {record.scan}, {len(jobs):,} points,"
            if options.points
            else f"job {options.name} {record.id}"
        )
        to = f" to {record.backend}" if options.backend else ""
        screen.line(f"{what} submitted{to}: {', '.join([*asked, size + ' sent'])}")
        if not options.points:
            return JobHandle(self._connect(), record)
        connection = self._connect()
        return ScanHandle(connection, connection.scan(record.scan))


def cell_files(cell: str, options: Options, names: dict[str, Any]) -> dict[str, bytes]:
    """Check a cell and make the files that its job needs. It raises rather than let a wrong cell go."""
    # Line 1 of the editor is the %%grid line, so that tracebacks speak of the lines that she sees.
    source, filename = "\n" + cell, f"<grid cell {options.name}>"
    tree = _check.parse(source, filename)
    if not tree.body:
        raise InvalidError("the cell is empty", field="cell", remedy="write Python below the %%grid line")
    given = {*options.inputs, *(name for point in options.points[:1] for name in point)}
    _check.refuse_missing(_check.missing_names(source, filename, given), names)
    _check.refuse_result(tree)
    files = {CELL: source.encode(), "runner.py": resources.files(__package__).joinpath("_runner.py").read_bytes()}
    if options.inputs:
        files[INPUTS] = _check.pickle_inputs(options.inputs, names)
    return files


def choose_environment(client: Client, options: Options, screen: Screen) -> Environment:
    """Give the environment that --env names, or freeze the session that the notebook runs in."""
    if options.environment:
        chosen = client.environment(options.environment)
        _refuse_other_python(chosen)
        screen.line(f"environment {chosen.short} {chosen.label if chosen.name else ''}".rstrip())
        return chosen
    return freeze_session(client, screen, FreezeOptions(allow_secret=options.allow_secret), "%%grid")


def _refuse_other_python(environment: Environment) -> None:
    here = "{}.{}".format(*sys.version_info[:2])
    there = ".".join(environment.python.split(".")[:2])
    if there and there != here:
        raise InvalidError(
            f"environment {environment.short} has Python {there}, this notebook {here}: values cannot travel",
            field="environment",
            remedy="use an environment with the same Python, or submit a script with: slipway submit",
        )
