"""The %%grid cell magic: check the cell, freeze the session, submit, show, bring the result back.

Nothing is submitted that is known not to work, and every failure ends as one readable message.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand

from . import _check
from ._beside import files_beside, modules_of
from ._client import Client
from ._content import Content
from ._errors import InvalidError, SlipwayError
from ._freezing import warn_of_home
from ._gallery import display_shown
from ._job import GridError, JobHandle
from ._options import HelpWanted, Options, parse_options
from ._plain import plain
from ._runner import CELL
from ._scan import ScanHandle
from ._show import Screen
from ._shown import MOST_BYTES
from ._submit import submit
from ._watch import watch
from ._watch_scan import watch_scan

_MANY = 100
"""From how many results on it takes long enough to be told."""
_SHOWN = 30
"""Of up to how many points it is looked what they have displayed; of more, each has ``show()``."""


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
        screen = Screen(self.shell, quiet=options.quiet)
        files = cell_files(cell, options, names, screen.line)
        options = replace(options, after=tuple(_id(word, names) for word in options.after))
        warn_of_home(screen, self._told)
        submitted = submit(self._connect, options, files, screen, magic="%%grid", points=options.points or None)
        if isinstance(submitted, ScanHandle):
            _name("_scan", submitted, names)
            if not options.detach:
                self._follow_scan(submitted, screen, names, options.points)
        else:
            _name("_job", submitted, names)
            if not options.detach:
                self._follow(submitted, screen, names)
        return submitted if options.detach else None

    def _follow(self, job: JobHandle, screen: Screen, names: dict[str, Any]) -> None:
        whole = watch(job, screen, connect=self._connect)
        try:
            value = job.result()
            if value is not None or job.report().get("result") == "kept":
                names["result"] = value
            elif "result" in names:
                screen.line("the cell has set no result: result is still the value from before")
        except GridError as error:
            error.shown, error.stale = whole, "result" in names
            raise
        finally:
            _show(job, screen)
            _tell_left(job, screen)

    def _follow_scan(
        self, scan: ScanHandle, screen: Screen, names: dict[str, Any], points: Sequence[Mapping[str, str]]
    ) -> None:
        watch_scan(scan, screen, points)
        line, count = screen.live(), scan.record.points

        def tell(done: int) -> None:
            if count > _MANY:
                line.update("results", f"results {done:,} of {count:,}")

        try:
            names["result"] = list(scan.results(each=tell))
        except GridError as error:
            error.stale, error.carded = "result" in names, screen.card(error)
            raise
        finally:
            if count <= _SHOWN:
                _show(scan, screen)


def _tell_left(job: JobHandle, screen: Screen) -> None:
    """Say which directories a job has left: they do not come back."""
    try:
        left = job.report().get("directories")
    except SlipwayError:
        return  # what there is to say of it is said already
    for name, files in left.items() if isinstance(left, dict) else ():
        screen.line(f"{name}/ does not come back ({files:,} file{'s' * (files != 1)}): pack it into one")


def _show(of: JobHandle | ScanHandle, screen: Screen) -> None:
    """Show what a job or the points of a scan have displayed. It comes last, and is not worth an error of its own."""
    room = MOST_BYTES
    try:
        for job in of.points if isinstance(of, ScanHandle) else [of]:
            if not job.report().get("shown"):
                continue
            if job.record.scan:
                given = ", ".join(f"{name}={value}" for name, value in job.arguments.items())
                screen.line(f"point {job.record.point} ({given}) has displayed:")
            size, remark = display_shown(job, room)
            room -= size
            if remark:
                screen.line(remark)
    except SlipwayError as error:
        screen.line(f"what was displayed cannot be shown: {error}")


def _name(word: str, submitted: JobHandle | ScanHandle, names: dict[str, Any]) -> None:
    """Give the notebook a name for what was submitted last; advice says it, and no more of the one before."""
    before = names.get(word)
    if isinstance(before, JobHandle | ScanHandle):
        before.called = f"slipway.{'job' if isinstance(before, JobHandle) else 'scan'}({before.id!r})"
    names[word], submitted.called = submitted, word


def _id(word: str, names: Mapping[str, Any]) -> str:
    """Give the id of a job or scan, which may be a variable of the notebook."""
    found = names.get(word)
    return found.id if isinstance(found, JobHandle | ScanHandle) else word


def cell_files(cell: str, options: Options, names: dict[str, Any], tell: Callable[[str], None]) -> dict[str, Content]:
    """Check a cell and make the files that its job needs. It raises rather than let a wrong cell go."""
    # Line 1 of the editor is the %%grid line, so that tracebacks speak of the lines that she sees.
    source, filename = "\n" + plain(cell), f"<grid cell {options.name}>"
    tree = _check.parse(source, filename)
    if not tree.body:
        raise InvalidError("the cell is empty", field="cell", remedy="write Python below the %%grid line")
    given = {*options.inputs, *(name for point in options.points[:1] for name in point)}
    missing = _check.missing_names(source, filename, given)
    if missing and _check.dynamic(tree):
        tell(f"the cell uses {', '.join(missing)}, which it has to make itself: a job sees nothing of the notebook")
    else:
        _check.refuse_missing(missing, names)
    for name in sorted(given & {*dir(builtins)}):
        tell(f"{name} hides Python's own {name} in the cell")
    _check.refuse_result(tree)
    files: dict[str, Content] = {CELL: source.encode()}
    modules = modules_of(tree)
    if options.inputs:
        inputs, needed = _check.pickle_inputs(options.inputs, names, tell)
        files, modules = files | inputs, modules | needed
    return files | files_beside(modules, tell)
