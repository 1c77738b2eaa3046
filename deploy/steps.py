"""How check.py says what it does: steps with their times, lines that were seen, claims that must hold."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator

from jupyterapi import CheckError

ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def show(text: str) -> None:
    """Print one line that was seen."""
    print(f"            {ANSI.sub('', text)}", flush=True)


@contextlib.contextmanager
def step(name: str) -> Iterator[None]:
    """Print a step's name when it begins and its time when it has held."""
    begun = time.monotonic()
    print(f"{name} ...", flush=True)
    yield
    print(f"{time.monotonic() - begun:8.1f} s  {name}", flush=True)


def expect(holds: object, claim: str) -> None:
    """Fail the check unless the claim holds."""
    if not holds:
        raise CheckError(claim)
