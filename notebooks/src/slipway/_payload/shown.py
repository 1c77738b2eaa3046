"""What a payload displays, kept for the notebook. This file is shipped with the job.

Each thing is a text in the job's output and, where it has a richer form, a file beside ``slipway-shown.json``, which
lists them. IPython and matplotlib are used where the payload uses them, and not needed.
"""

from __future__ import annotations

import base64
import builtins
import importlib.abc
import importlib.machinery
import importlib.util
import io
import itertools
import json
import os
import sys
import threading
import types
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

MANIFEST, PREFIX = "slipway-shown.json", "slipway-shown-"
MOST, MOST_BYTES = 20, 10_000_000
"""How many things come back, and how many bytes they may have together."""

KINDS = {
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/svg+xml": "svg",
    "text/html": "html",
    "text/markdown": "md",
    "text/latex": "tex",
}
_METHODS = {
    "image/svg+xml": "_repr_svg_",
    **{kind: f"_repr_{kind[kind.index('/') + 1 :]}_" for kind in KINDS if "+" not in kind},
}
_TEXT = 10_000  # how many characters of a text go into the output


class Recorder:
    """Takes what is displayed into the directory ``home``; ``display`` is what the payload calls, in any thread.

    Of a process that the payload has forked only the texts come back.
    """

    def __init__(self, home: str) -> None:
        self._home, self._process = home, os.getpid()
        self._lock = threading.RLock()  # a signal's handler may display too
        self._shown: list[dict[str, Any]] = []
        self._bytes = 0
        self._left_out = 0
        self._numbers = itertools.count()

    def install(self, more: Mapping[str, Callable[[types.ModuleType], None]]) -> None:
        """Be there for the payload: as ``display``, IPython's too, and for matplotlib's figures.

        ``more`` is done to modules right after they have been imported.
        """
        builtins.display = self.display  # type: ignore[attr-defined]
        if os.environ.get("MPLBACKEND", "module:").startswith("module:"):  # a notebook's own, or none
            os.environ["MPLBACKEND"] = "agg"
        hooks = {"matplotlib.pyplot": self._pyplot, "IPython.core.display_functions": self._ipython, **more}
        sys.meta_path.insert(0, _AfterImport(hooks))

    def display(self, *values: Any, **options: Any) -> Any:
        """Show values, as IPython's function does."""
        for value in values:
            self.show(value, raw=options.get("raw") is True)
        return _Handle(self) if options.get("display_id") else None

    def show(self, value: Any, *, raw: bool = False) -> None:
        """Write a value's text and keep its richer forms."""
        bundle = dict(value) if raw and isinstance(value, Mapping) else _bundle(value)
        text = str(bundle.pop("text/plain", ""))
        if text:
            print(text if len(text) <= _TEXT else f"{text[:_TEXT]}... (of {len(text):,} characters)", flush=True)
        kept = {kind: data for kind, given in bundle.items() if kind in KINDS and (data := _data(kind, given))}
        if kept and os.getpid() == self._process:
            self._keep(text[:200], kept)

    def finish(self) -> dict[str, int]:
        """Show the figures that are still open, as notebooks do, and say how many things there are."""
        if "matplotlib.pyplot" in sys.modules:
            self._figures(sys.modules["matplotlib.pyplot"])
        return {"shown": len(self._shown)} if self._shown or self._left_out else {}

    def _keep(self, text: str, kept: Mapping[str, bytes]) -> None:
        """Keep a thing, or count it as left out: neither too much of it nor a full disk ends the payload."""
        size = sum(map(len, kept.values()))
        with self._lock:
            number = next(self._numbers)
            files = {kind: f"{PREFIX}{number}.{KINDS[kind]}" for kind in kept}
            fits = len(self._shown) < MOST and self._bytes + size <= MOST_BYTES
            if fits and self._save({name: kept[kind] for kind, name in files.items()}):
                self._shown.append({"text": text, "files": files})
                self._bytes += size
            else:
                self._left_out += 1
            self._save({MANIFEST: json.dumps({"shown": self._shown, "left_out": self._left_out}).encode()})

    def _save(self, files: Mapping[str, bytes]) -> bool:
        """Write files, each as a whole or not, and say whether that went well."""
        for name, data in files.items():
            path = os.path.join(self._home, name)
            partial = path + ".part"
            try:
                with open(partial, "wb") as file:
                    file.write(data)
                os.replace(partial, path)
            except OSError:
                with suppress(OSError):
                    os.remove(partial)
                return False
        return True

    def _pyplot(self, module: types.ModuleType) -> None:
        module.__dict__["show"] = lambda *args, **options: self._figures(module)

    def _figures(self, pyplot: Any) -> None:
        for number in pyplot.get_fignums():
            self.show(pyplot.figure(number))
        pyplot.close("all")

    def _ipython(self, module: types.ModuleType) -> None:
        module.__dict__["display"] = self.display


class _Handle:
    """What display gives when it is asked for a handle: what changes is shown again."""

    def __init__(self, recorder: Recorder) -> None:
        self.display = self.update = recorder.display


def _bundle(value: Any) -> dict[str, Any]:
    """Give the forms that a value has. What fails is left out: a broken form must not end a job."""
    found: dict[str, Any] = {}
    if not isinstance(value, type):
        for kind, method in _METHODS.items():
            _try(found, kind, getattr(value, method, None))
        if callable(given := getattr(value, "_repr_mimebundle_", None)):
            _try(found, "", given)
            bundle = found.pop("", {})
            bundle = bundle[0] if isinstance(bundle, tuple) and bundle else bundle
            found.update(bundle if isinstance(bundle, Mapping) else {})
        if any((kind.__module__, kind.__name__) == ("matplotlib.figure", "Figure") for kind in type(value).__mro__):
            _try(found, "image/png", lambda: _png(value))
    if "text/plain" not in found:
        _try(found, "text/plain", lambda: repr(value))
    return found


def _try(found: dict[str, Any], kind: str, form: Callable[[], Any] | None) -> None:
    if not callable(form):
        return
    try:
        given = form()
    except Exception:  # noqa: BLE001 - the user's code may raise anything
        return
    given = given[0] if kind and isinstance(given, tuple) and given else given  # with its metadata
    if given is not None:
        found[kind] = given


def _png(figure: Any) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="png", bbox_inches="tight")
    return file.getvalue()


def _data(kind: str, given: Any) -> bytes:
    """Give a form as bytes; pictures that are text are in base 64."""
    if isinstance(given, bytes | bytearray):
        return bytes(given)
    if not isinstance(given, str):
        return b""
    if kind in ("image/png", "image/jpeg"):
        try:
            return base64.b64decode(given, validate=False)
        except ValueError:
            return b""
    return given.encode("utf-8", "replace")


class _AfterImport(importlib.abc.MetaPathFinder):
    """Does something to a module right after the payload has imported it."""

    def __init__(self, hooks: Mapping[str, Callable[[types.ModuleType], None]]) -> None:
        self._hooks = dict(hooks)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find what others find, and act when it has been executed."""
        hook = self._hooks.pop(name, None)
        spec = importlib.util.find_spec(name) if hook else None
        if hook is None or spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: types.ModuleType) -> None:
            execute(module)
            with suppress(Exception):  # of a version that is built otherwise: it stays as it is
                hook(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
