"""What a kernel says that it uses."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from pathlib import Path

import pytest

from slipway._environments import cvmfs_repositories, imported_modules


def _module(name: str, file: str = "", path: object = None) -> types.ModuleType:
    module = types.ModuleType(name)
    if file:
        module.__file__ = file
    if path is not None:
        module.__path__ = path  # type: ignore[assignment]
    return module


class _Pretender:
    """Says that it is a module, as cffi's libraries do, and is none."""

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return types.ModuleType


def test_what_kernels_have_imported(tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    inner = site / "debugpy" / "_vendored"
    inner.mkdir(parents=True)
    modules: dict[str, object] = {
        "debugpy": _module("debugpy", str(site / "debugpy/__init__.py"), [str(site / "debugpy")]),
        "pydevd": _module("pydevd", str(inner / "pydevd.py")),
        "six": _module("six", str(site / "six.py")),
        "six.moves": _module("six.moves", str(site / "six.py")),
        "google": _module("google", path=[str(site / "google")]),
        "cython_runtime": _module("cython_runtime"),
        "_private": _module("_private", str(site / "_private.so")),
        "json": _module("json", "/usr/lib/python3/json/__init__.py"),
        "odd": _module("odd", path=7),
        "none": None,
        "thing": object(),
        "pretender": _Pretender(),
    }
    assert imported_modules(modules) == {sys.executable: ["debugpy", "google", "six"]}


def test_lazy_modules_stay_so(tmp_path: Path) -> None:
    (tmp_path / "bomb.py").write_text("raise SystemExit\n")
    spec = importlib.util.spec_from_file_location("bomb", tmp_path / "bomb.py")
    assert spec
    assert spec.loader
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert imported_modules({"bomb": module}) == {sys.executable: ["bomb"]}


def test_this_kernel() -> None:
    names = imported_modules()[sys.executable]
    assert {"pytest", "IPython"} <= {*names, *(["IPython"] if "IPython" not in sys.modules else [])}
    assert not {"sys", "__main__", "json"} & set(names)


def test_repositories(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", ["/cvmfs/sft.cern.ch/lcg/lib", "/opt/cvmfs", "/mnt/x"])
    monkeypatch.setenv("LD_LIBRARY_PATH", "/cvmfs/atlas.cern.ch:/a:/cvmfs/sw.hsf.org/lib")
    monkeypatch.setenv("HOME", "/cvmfs/home.cern.ch/x")
    assert cvmfs_repositories() == ["atlas.cern.ch", "sft.cern.ch", "sw.hsf.org"]
