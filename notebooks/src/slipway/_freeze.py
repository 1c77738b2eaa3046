"""%freeze: make an environment of the session that the notebook runs in."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable
from typing import Any, NoReturn

from IPython.core.magic import Magics, line_magic, magics_class, no_var_expand

from ._client import Client
from ._envs import Env, split_name
from ._errors import InvalidError
from ._freezing import FreezeOptions, freeze_session, warn_of_home
from ._show import Screen
from ._watch import WatchInterrupted

_HELP = """\
Make an environment out of this session: what is installed here now, exact to the last bit, for jobs and for
sessions to start from. The session goes on meanwhile. If nothing has changed since the last time, that one is
given at once. Your home is not in it.
"""
_EXAMPLE = """\
example:
  %freeze --name ana --tag v1 --note "with uproot"
"""


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
