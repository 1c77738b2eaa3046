"""%slipway: what the kernel of a notebook has, and what the next one is to have."""

from __future__ import annotations

import argparse
import datetime
import shlex
from collections.abc import Callable
from typing import Any, NoReturn

from IPython.core.magic import Magics, line_magic, magics_class, no_var_expand

from ._client import Client
from ._errors import InvalidError
from ._kernels import DEFAULT, PARTS, KernelSpec
from ._models import Session
from ._wire import memory, memory_words

_HELP = """\
Without a word: what the kernel of this notebook has. With `switch`: have the next kernels of it on another slice, with
other processors or memory, or in an environment, until you switch back with the value `default`. With
`kernel --from-session`, in a cell by itself: freeze the session, and start this kernel on another slice anew from it.
"""
_EXAMPLE = """\
examples:
  %slipway
  %slipway switch gpu 3g.71gb
  %slipway switch memory default --kernel python-gpu
  %slipway kernel --from-session
"""
_HOW = "Shut this kernel down and start it again (in JupyterLab: Kernel > Shut Down Kernel, then run a cell)."


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InvalidError(f"%slipway: {message}", remedy="%slipway --help lists what there is")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="%slipway",
        description=_HELP,
        epilog=_EXAMPLE,
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
                "%slipway kernel --from-session starts a kernel on another slice anew, and this is none",
                remedy="run it in a cell by itself, in a notebook of your session on a kernel '... on another slice'",
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
