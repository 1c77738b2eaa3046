"""The magics: %%grid, %freeze and %slipway."""

from __future__ import annotations

import argparse
import builtins
import datetime
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from IPython.core.magic import Magics, line_cell_magic, line_magic, magics_class, no_var_expand

from . import _cell
from ._cell import plain
from ._client import Client
from ._display import Screen
from ._environments import Env, FreezeOptions, freeze_session, split_name, warn_of_home
from ._errors import InvalidError, SlipwayError
from ._jobs import GridError, JobHandle, display_shown
from ._models import KernelSpec, Session
from ._options import HelpWanted, Options, parse_options
from ._packing import files_beside, modules_of
from ._payload.runner import CELL
from ._payload.shown import MOST_BYTES
from ._scans import ScanHandle
from ._submission import submit
from ._transport import Content
from ._units import amount, memory, memory_words
from ._watch import WatchInterrupted, watch, watch_scan

_MANY = 100
"""From how many results on it takes long enough to be told."""
_NAMED = 5  # files of a job that are named where it ends
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
    """Say which files a job has left, and which directories: these do not come back."""
    try:
        left, files = job.report().get("directories"), job.files
    except SlipwayError:
        return  # what there is to say of it is said already
    if files:
        named = ", ".join(f"{file.name} ({amount(file.size)})" for file in files[:_NAMED])
        more = f" and {len(files) - _NAMED:,} more" if len(files) > _NAMED else ""
        screen.line(f"back came {named}{more}: {job.called}.files, each with .read() and .save()")
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
    tree = _cell.parse(source, filename)
    if not tree.body:
        raise InvalidError("the cell is empty", field="cell", remedy="write Python below the %%grid line")
    given = {*options.inputs, *(name for point in options.points[:1] for name in point)}
    missing = _cell.missing_names(source, filename, given)
    if missing and _cell.dynamic(tree):
        tell(f"the cell uses {', '.join(missing)}, which it has to make itself: a job sees nothing of the notebook")
    else:
        _cell.refuse_missing(missing, names)
    for name in sorted(given & {*dir(builtins)}):
        tell(f"{name} hides Python's own {name} in the cell")
    _cell.refuse_result(tree)
    files: dict[str, Content] = {CELL: source.encode()}
    modules = modules_of(tree)
    if options.inputs:
        inputs, needed = _cell.pickle_inputs(options.inputs, names, tell)
        files, modules = files | inputs, modules | needed
    return files | files_beside(modules, tell)


_FREEZE_HELP = """\
Make an environment out of this session: what is installed here now, exact to the last bit, for jobs and for
sessions to start from. The session goes on meanwhile. If nothing has changed since the last time, that one is
given at once. Your home is not in it.
"""
_FREEZE_EXAMPLE = """\
example:
  %freeze --name ana --tag v1 --note "with uproot"
"""


class _HelpWanted(Exception):  # noqa: N818 - no error: the user has asked
    pass


class _FreezeParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InvalidError(f"%freeze: {message}", remedy="%freeze --help lists the options")


def parse_freeze(line: str) -> FreezeOptions:
    """Read the line after %freeze."""
    parser = _FreezeParser(
        prog="%freeze",
        description=_FREEZE_HELP,
        epilog=_FREEZE_EXAMPLE,
        add_help=False,
        allow_abbrev=False,
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=24, width=100),
    )
    add = parser.add_argument
    add("-h", "--help", action="store_true", help="show this")
    add("--name", default="", metavar="N", help="what to call it; also as N:TAG")
    add("--tag", default="", metavar="T", help="which of that name it is")
    add("--note", default="", metavar="TEXT", help="a word to those who look at it later")
    add(
        "--allow-secret",
        action="append",
        default=[],
        metavar="PATH",
        help="publish this file though it looks like a secret; a slash at the end means all below it",
    )
    add("--quiet", action="store_true", help="show the result only")
    try:
        given = parser.parse_args(shlex.split(line, comments=True))
    except ValueError as error:  # an open quote
        raise InvalidError(f"%freeze {line}: {error}", remedy="close the quote") from None
    if given.help:
        raise _HelpWanted(parser.format_help())
    name, tag = split_name(given.name, given.tag)
    if tag and not name:
        raise InvalidError("--tag without --name", field="name", remedy="say of which name it is the tag")
    return FreezeOptions(name, tag, given.note, tuple(given.allow_secret), given.quiet)


@magics_class
class FreezeMagics(Magics):
    """Holds the magic; ``connect`` makes the client that a line uses, ``told`` are packages that were warned of."""

    def __init__(self, shell: Any, connect: Callable[[], Client] = Client, told: set[str] | None = None) -> None:
        super().__init__(shell)
        self._connect = connect
        self._told = set() if told is None else told

    @no_var_expand
    @line_magic
    def freeze(self, line: str) -> Env | None:
        """Make an environment out of this session; ``%freeze --help`` tells the options."""
        try:
            options = parse_freeze(line)
        except _HelpWanted as wanted:
            print(wanted)
            return None
        screen, client = Screen(self.shell, quiet=options.quiet), self._connect()
        warn_of_home(screen, self._told)
        try:
            return Env(client, freeze_session(client, screen, options))
        except KeyboardInterrupt:
            raise WatchInterrupted("interrupted; the freeze goes on, slipway.envs() lists what came of it") from None


PARTS = ("gpu", "cpus", "memory", "environment")
"""What of a kernelspec can be switched."""

DEFAULT = "default"
"""Goes back to what is usual."""

_SLIPWAY_HELP = """\
Without a word: what the kernel of this notebook has. With `switch`: have the next kernels of it on another slice, with
other processors or memory, or in an environment, until you switch back with the value `default`. With
`kernel --from-session`, in a cell by itself: freeze the session, and start this kernel, in a container of its own,
anew from it.
"""
_SLIPWAY_EXAMPLE = """\
examples:
  %slipway
  %slipway switch gpu 3g.71gb
  %slipway switch memory default --kernel python-gpu
  %slipway kernel --from-session
"""
_HOW = "Shut this kernel down and start it again (in JupyterLab: Kernel > Shut Down Kernel, then run a cell)."


class _SlipwayParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InvalidError(f"%slipway: {message}", remedy="%slipway --help lists what there is")


def _parser() -> argparse.ArgumentParser:
    parser = _SlipwayParser(
        prog="%slipway",
        description=_SLIPWAY_HELP,
        epilog=_SLIPWAY_EXAMPLE,
        add_help=False,
        allow_abbrev=False,
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=24, width=100),
    )
    parser.add_argument("-h", "--help", action="store_true", help="show this")
    parser.add_argument("word", nargs="?", choices=("switch", "kernel"), help="what to do")
    parser.add_argument("part", nargs="?", choices=PARTS, help="what to switch")
    parser.add_argument("value", nargs="?", help=f"to what; {DEFAULT}: back to the usual")
    parser.add_argument("--from-session", action="store_true", help="with kernel: start this one from the session")
    parser.add_argument("--kernel", default="self", metavar="NAME", help="of which kernelspec")
    return parser


@magics_class
class KernelMagics(Magics):
    """Holds the magic; ``connect`` makes the client that a line uses."""

    def __init__(self, shell: Any, connect: Callable[[], Client] = Client) -> None:
        super().__init__(shell)
        self._connect = connect

    @no_var_expand
    @line_magic
    def slipway(self, line: str) -> None:
        """Tell what this kernel has, or switch the next one; ``%slipway --help`` tells more."""
        parser = _parser()
        try:
            given = parser.parse_args(shlex.split(line, comments=True))
        except ValueError as error:  # an open quote
            raise InvalidError(f"%slipway {line}: {error}", remedy="close the quote") from None
        if given.help:
            print(parser.format_help())
            return
        if given.word == "kernel" or given.from_session:
            # In a session the kernel on a slice never sees this line: what stands for it there does as it says.
            raise InvalidError(
                "%slipway kernel --from-session starts a kernel in a container of its own anew, and this is none",
                remedy="run it in a cell by itself, in a notebook of your session on a kernel '..., own container'",
            )
        if given.word and not given.value:
            raise InvalidError(
                "%slipway switch needs what to switch and to what",
                field="value",
                remedy=f"such as %slipway switch gpu 3g.71gb; of {', '.join(PARTS)}",
            )
        with self._connect() as client:
            if given.word:
                print(switched_words(client.switch_kernel(given.kernel, **{given.part: given.value})))
            else:
                print(kernel_words(client.session()))


def switched_words(spec: KernelSpec) -> str:
    """Say what was switched, and what is to be done."""
    back = " and ".join(f"%slipway switch {part} {DEFAULT}" for part in spec.switched)
    until = f"; {back} {'go' if len(spec.switched) > 1 else 'goes'} back" if back else ", as usual"
    now = f"\nNow: {spec.available.words}" if spec.available.words else ""
    inside = f", in environment {spec.environment}" if spec.environment else ""
    return f"Your next kernels of {spec.name} have {spec.words}{inside}{until}.\n{_HOW}{now}"


def kernel_words(session: Session) -> str:
    """Say what the kernel of a notebook has: of one on a slice its own, else what its session has."""
    alone = session.kind == "kernel"
    what = f"kernel   {session.name}" if alone else f"session  {session.name or 'default'}"
    lines = [f"{what} ({session.id})"]
    if not alone:
        lines.append("         it shares what the session has; the launcher has kernels with slices of their own")
    held = session.slice
    if held:
        apart = held.isolation + (", simulated" if held.simulated else "")
        lines.append(f"slice    {held.name} of {held.model}, {memory(held.memory)}, isolation: {apart}")
    elif session.gpu in ("", "none"):
        lines.append("slice    none")
    lines.append(f"memory   {memory_words(session.memory)}, {session.cpus or 0:g} CPU")
    lines.append(f"where    {': '.join(filter(None, (session.backend, session.host)))}")
    if session.up:
        lines.append(f"since    {_local(session.up)}")
    if session.stops:
        lines.append(f"until    {_local(session.stops.at)}: {session.stops.why}")
    return "\n".join(lines)


def _local(moment: str) -> str:
    """Write a moment as people here read it."""
    try:
        return f"{datetime.datetime.fromisoformat(moment).astimezone():%Y-%m-%d %H:%M:%S}"
    except ValueError:
        return moment
