"""What this kernel uses of the environment: the modules that it has imported and the CVMFS repositories."""

from __future__ import annotations

import os
import re
import sys
import types
from collections.abc import Iterable, Mapping

_MOST = 500
"""How many modules are named; the service refuses more."""
_LONGEST = 100
"""How many bytes the name of one has."""
_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX")
_REPOSITORY = re.compile(r"/cvmfs/([a-z0-9][a-z0-9-]*(?:\.[a-z0-9][a-z0-9-]*)+)(?=/|:|$)")


def imported_modules(modules: Mapping[str, object] | None = None) -> dict[str, list[str]]:
    """Name the top-level modules that came from files, by the interpreter's path.

    Left out are Python's own, what programs have made up, and what lies within another package: that is found by
    a path which the package itself has added.
    """
    found: dict[str, str] = {}
    own = sys.stdlib_module_names | {"__main__", "__mp_main__"}
    for name, module in list((sys.modules if modules is None else modules).items()):
        if "." in name or name.startswith("_") or name in own:
            continue
        if place := _place(module):
            found[name] = place
    packages = {place for place in found.values() if os.path.isdir(place)}
    names = sorted(name for name, place in found.items() if not _within(place, packages))
    return {sys.executable or "": [name for name in names if len(name.encode()) <= _LONGEST][:_MOST]}


def cvmfs_repositories() -> list[str]:
    """Name the CVMFS repositories that this kernel's paths, modules and libraries lie in."""
    texts = [*sys.path, *(os.environ.get(name, "") for name in _VARIABLES)]
    texts += [place for module in list(sys.modules.values()) if (place := _place(module))]
    return sorted({name for text in (*texts, *_mapped()) for name in _REPOSITORY.findall(text)})


def _place(module: object) -> str:
    """Give the directory of a package or the file of a module; empty when it has none."""
    # isinstance believes what an object says of itself, and cffi's libraries say that they are modules.
    if not issubclass(type(module), types.ModuleType):
        return ""
    # A module that is loaded only when it is used is not to be loaded by this.
    known = types.ModuleType.__getattribute__(module, "__dict__")
    paths = known.get("__path__")
    try:
        first = next(iter(paths), "") if paths is not None else known.get("__file__")
    except Exception:  # noqa: BLE001 - a package may make up what it likes
        return ""
    return first if isinstance(first, str) else ""


def _within(place: str, packages: Iterable[str]) -> bool:
    return any(place.startswith(os.path.join(package, "")) for package in packages)


def _mapped() -> list[str]:
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            return [line.rstrip("\n") for line in maps if " /cvmfs/" in line]
    except OSError:
        return []
