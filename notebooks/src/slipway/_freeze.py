"""%freeze: make an environment of the session that the notebook runs in."""

from __future__ import annotations

import argparse
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from IPython.core.magic import Magics, line_magic, magics_class, no_var_expand

from ._client import Client
from ._envs import Env, split_name
from ._errors import ConflictError, InvalidError, MissingError
from ._home import home_packages, home_warning
from ._show import Screen
from ._site import Environment, FreezeStep
from ._use import cvmfs_repositories, imported_modules
from ._watch import WatchInterrupted
from ._wire import amount

_HELP = """\
Make an environment out of this session: what is installed here now, exact to the last bit, for jobs and for
sessions to start from. The session goes on meanwhile. If nothing has changed since the last time, that one is
given at once. Your home is not in it.
"""
_EXAMPLE = """\
example:
  %freeze --name ana --tag v1 --note "with uproot"
"""


class SecretsError(ConflictError):
    """What looks like a secret would be published: the message names the files."""

    def _render_traceback_(self) -> list[str]:
        """One file a line."""
        listed = [f"  {detail}" for detail in self.details]
        return [f"{type(self).__name__}: {self.message}", *listed, f"{self.remedy[:1].upper()}{self.remedy[1:]}."]


@dataclass(frozen=True)
class FreezeOptions:
    """What the line after %freeze says."""

    name: str = ""
    tag: str = ""
    note: str = ""
    allow_secret: tuple[str, ...] = ()
    quiet: bool = False


class _HelpWanted(Exception):  # noqa: N818 - no error: the user has asked
    pass


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InvalidError(f"%freeze: {message}", remedy="%freeze --help lists the options")


def parse_freeze(line: str) -> FreezeOptions:
    """Read the line after %freeze."""
    parser = _Parser(
        prog="%freeze",
        description=_HELP,
        epilog=_EXAMPLE,
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


def freeze_session(
    client: Client, screen: Screen, options: FreezeOptions | None = None, magic: str = "%freeze"
) -> Environment:
    """Freeze the session that the notebook runs in, showing how far it is; ``magic`` is what the user has written."""
    options = options or FreezeOptions()
    if not client.me().session:
        raise MissingError(
            "this notebook does not run in a Slipway session, so there is nothing to freeze",
            remedy="name an environment with --env (slipway.envs() lists them)",
        )
    begun, live = time.monotonic(), screen.live()

    def progress(step: FreezeStep) -> None:
        done = f" {step.percent:.0f} %" if step.percent >= 0 else ""
        size = f" {amount(step.bytes)}" if step.bytes else ""
        live.update(step.stage, f"freezing: {step.message or step.stage}{done}{size}")

    try:
        frozen = client.freeze(
            name=options.name,
            tag=options.tag,
            note=options.note,
            allow_secret=options.allow_secret,
            imported=imported_modules(),
            cvmfs=cvmfs_repositories(),
            progress=progress,
        )
    except ConflictError as error:
        if not error.details:
            raise
        remedy = error.remedy.replace("slipway freeze --allow-secret", f"{magic} --allow-secret")
        raise SecretsError(
            error.message, code=error.code, field=error.field, remedy=remedy, details=error.details
        ) from None
    how = "unchanged" if frozen.unchanged else f"frozen now, {amount(frozen.size)}"
    live.done(f"environment {frozen.short} {how} ({time.monotonic() - begun:.1f} s)")
    return frozen


def warn_of_home(screen: Screen, told: set[str]) -> None:
    """Tell of packages in the home, once of each: they are in no environment."""
    packages = home_packages()
    if any(package.name not in told for package in packages):
        screen.line(home_warning(packages))
        told.update(package.name for package in packages)
