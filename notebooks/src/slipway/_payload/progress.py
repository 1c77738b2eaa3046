"""How far a payload is, as it says itself or as its tqdm bars do. This file is shipped with the job.

``progress(i, n, "text")`` is for payloads: in a job as ``slipway.progress`` and ``slipway.grid.progress``, whether or
not its environment has this wheel; anywhere else it does nothing.
"""

from __future__ import annotations

import atexit
import importlib.abc
import importlib.machinery
import importlib.util
import json
import math
import os
import sys
import threading
import time
import types
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

FILE = "SLIPWAY_PROGRESS"
"""Names the file to write into; where it is not set there is no job."""
_RATE = 0.5  # the least time, in seconds, between two writings
_LINE = 10.0  # and between two lines of a bar in the log
_TEXT = 200  # how many characters of a text are taken


class Reporter:
    """Says how far the payload is, at most twice a second; what came last is always written."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._process, self._last = 0, -math.inf
        self._held: bytes | None = None
        self._later: threading.Timer | None = None
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forked)

    def __call__(self, done: float, of: float | None = None, text: str = "") -> None:
        """Say that ``done`` of ``of`` is done; without ``of`` nobody knows of how much."""
        done, of = float(done), float(of or 0)
        if not (math.isfinite(done) and math.isfinite(of)) or FILE not in os.environ:
            return
        line = " ".join(str(text).split())[:_TEXT]
        with self._lock:
            if self._process != os.getpid():  # a fork has its own end
                self._process = os.getpid()
                atexit.register(self.flush)
            self._held = json.dumps({"done": done, "of": of, "text": line}).encode("utf-8", "replace")
            if time.monotonic() - self._last >= _RATE or (of > 0 and done >= of):
                self.flush()
            elif self._later is None:
                self._write_later()

    def flush(self) -> None:
        """Write what was held back."""
        with self._lock:
            if self._later is not None:
                self._later.cancel()
                self._later = None
            held, self._held = self._held, None
            if held is None or self._process != os.getpid():
                return
            self._last = time.monotonic()
            with suppress(OSError, KeyError):  # a full disk ends no payload
                _write(os.environ[FILE], held)

    def _write_later(self) -> None:
        """Write what is held back though nothing more comes: what follows may be long and say nothing."""
        later = threading.Timer(_RATE, self.flush)
        later.daemon = True
        with suppress(RuntimeError):  # at the limit of threads, or at the end
            later.start()
            self._later = later

    def _forked(self) -> None:
        """Begin anew in a fork, where a thread that held the lock is no more."""
        self._lock, self._later = threading.RLock(), None


def _write(path: str, data: bytes) -> None:
    partial = f"{path}.{os.getpid()}.part"
    try:
        with open(partial, "wb") as file:
            file.write(data)
        os.replace(partial, path)
    except OSError:
        with suppress(OSError):
            os.remove(partial)
        raise


progress = Reporter()


class Stand(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Stands for the wheel where the environment has none: only ``progress`` is there. It is asked last."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find the two modules that have it."""
        known = name in ("slipway", "slipway.grid")
        return importlib.util.spec_from_loader(name, self, is_package=name == "slipway") if known else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        """Leave that to Python."""

    def exec_module(self, module: types.ModuleType) -> None:
        """Fill it."""
        module.__dict__["progress"] = progress
        if module.__name__ == "slipway":
            import importlib

            module.__dict__["grid"] = importlib.import_module("slipway.grid")


def quieten(module: types.ModuleType) -> None:
    """Let tqdm's bars say how far they are: in the log as a line now and then, and to who watches the job."""
    bar = module.__dict__["tqdm"]
    close, display, clear = bar.close, bar.display, bar.clear

    def plain(self: Any) -> bool:
        return self.fp in (sys.stdout, sys.stderr)

    def show(self: Any, msg: Any = None, pos: int | None = None) -> Any:
        if isinstance(self.fp, _Nowhere):
            return True
        if not plain(self):
            return display(self, msg, pos)
        _report(self)
        now = time.monotonic()
        if now - self.__dict__.setdefault("slipway_line", now - _LINE / 2) >= _LINE:
            self.__dict__["slipway_line"] = now
            _say(self)
        return True

    def end(self: Any) -> None:
        if self.disable or not plain(self):
            close(self)
            return
        _report(self)
        if self.leave or (self.leave is None and self.pos == 0):
            _say(self)
        self.fp, fp = _Nowhere(), self.fp
        try:
            close(self)
        finally:
            self.fp = fp

    def wipe(self: Any, nolock: bool = False) -> None:
        if not plain(self):
            clear(self, nolock)

    bar.display, bar.close, bar.clear = show, end, wipe


def plain_notebook(module: types.ModuleType) -> None:
    """Let tqdm's bars for notebooks be those for the log: a job has no notebook."""
    from tqdm import std  # type: ignore[import-untyped, import-not-found, unused-ignore]

    module.__dict__.update(tqdm=std.tqdm, tqdm_notebook=std.tqdm, trange=std.trange, tnrange=std.trange)


def _report(bar: Any) -> None:
    """Report the outermost bar; those within it begin anew all the time."""
    if bar.pos == 0:
        with suppress(Exception):
            progress(bar.n, bar.total, (bar.desc or "").rstrip(": "))


def _say(bar: Any) -> None:
    with suppress(Exception):
        bar.fp.write(f"{bar}\n")
        bar.fp.flush()


class _Nowhere:
    """A file for what nobody is to see."""

    encoding = "utf-8"

    def write(self, text: str) -> int:
        """Drop it."""
        return len(text)

    def flush(self) -> None:
        """Do nothing."""
