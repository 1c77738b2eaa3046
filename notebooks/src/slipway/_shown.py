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
import json
import os
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

MANIFEST = "slipway-shown.json"
MOST, MOST_BYTES = 20, 10_000_000
"""How many things come back, and how many bytes they may have together."""

_KINDS = {
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/svg+xml": "svg",
    "text/html": "html",
    "text/markdown": "md",
    "text/latex": "tex",
}
_METHODS = {
    "image/svg+xml": "_repr_svg_",
    **{kind: f"_repr_{kind[kind.index('/') + 1 :]}_" for kind in _KINDS if "+" not in kind},
}
_TEXT = 10_000  # how many characters of a text go into the output


class Recorder:
    """Takes what is displayed; ``display`` is what the payload calls."""

    def __init__(self) -> None:
        self._shown: list[dict[str, Any]] = []
        self._bytes = 0
        self._left_out = 0

    def install(self) -> None:
        """Be there for the payload: as ``display``, IPython's too, and for matplotlib's figures."""
        builtins.display = self.display  # type: ignore[attr-defined]
        if os.environ.get("MPLBACKEND", "module:").startswith("module:"):  # a notebook's own, or none
            os.environ["MPLBACKEND"] = "agg"
        hooks = {"matplotlib.pyplot": self._pyplot, "IPython.core.display_functions": self._ipython}
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
        kept = {kind: data for kind, given in bundle.items() if kind in _KINDS and (data := _data(kind, given))}
        if kept:
            self._keep(text[:200], kept)

    def finish(self) -> dict[str, int]:
        """Show the figures that are still open, as notebooks do, and say how many things there are."""
        if "matplotlib.pyplot" in sys.modules:
            self._figures(sys.modules["matplotlib.pyplot"])
        return {"shown": len(self._shown)} if self._shown or self._left_out else {}

    def _keep(self, text: str, kept: Mapping[str, bytes]) -> None:
        size = sum(map(len, kept.values()))
        if len(self._shown) >= MOST or self._bytes + size > MOST_BYTES:
            self._left_out += 1
        else:
            self._bytes += size
            files = {}
            for kind, data in kept.items():
                files[kind] = f"slipway-shown-{len(self._shown)}.{_KINDS[kind]}"
                with open(files[kind], "wb") as file:
                    file.write(data)
            self._shown.append({"text": text, "files": files})
        partial = MANIFEST + ".part"
        with open(partial, "w", encoding="utf-8") as file:
            json.dump({"shown": self._shown, "left_out": self._left_out}, file)
        os.replace(partial, MANIFEST)

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
            hook(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
