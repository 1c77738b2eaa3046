"""Python packages in the user's home: this kernel sees them, an environment does not have them."""

from __future__ import annotations

import importlib.metadata
import os
import re
import site
import sys
from collections.abc import Collection
from dataclasses import dataclass

_NAMED = 8
"""How many packages a warning names."""


@dataclass(frozen=True)
class HomePackage:
    """A package that pip has put into the home; ``used``: this kernel has imported it from there.

    ``there`` is the version that this Python would find without the home; empty: none.
    """

    name: str
    version: str
    used: bool
    there: str = ""


def home_packages(directory: str | None = None) -> list[HomePackage]:
    """List the packages that this Python has from the home alone, those in use first."""
    directory = directory or _user_site()
    if not directory or not os.path.isdir(directory):
        return []
    imported = _imported(directory)
    found: dict[str, HomePackage] = {}
    for dist in importlib.metadata.distributions(path=[directory]):
        try:
            name, version = dist.metadata["Name"], dist.version
            used = not imported.isdisjoint(_modules(dist))
        except Exception:  # noqa: BLE001, S112 - half an installation is no reason to stop a job
            continue
        if name and (there := _elsewhere(name, directory)) != version:
            found.setdefault(_normal(name), HomePackage(name, version or "", used, there))
    return sorted(found.values(), key=lambda package: (not package.used, package.name.lower()))


def home_warning(packages: Collection[HomePackage]) -> str:
    """Say what is in the home alone and how it comes into the environment; empty when there is nothing."""
    if not packages:
        return ""
    named = list(packages)[:_NAMED]
    shown = ", ".join(f"{p.name} {p.version}".rstrip() + _remark(p) for p in named)
    more = f" and {len(packages) - len(named)} more" if len(packages) > len(named) else ""
    command = "%pip install --no-user --ignore-installed " + " ".join(p.name for p in named)
    return (
        f"in your home and not in the environment, so a job that runs without your home would miss: {shown}{more}; "
        f"install what it needs into the environment: {command}"
    )


def _remark(package: HomePackage) -> str:
    said = ["imported here"] if package.used else []
    said += [f"the environment has {package.there}"] if package.there else []
    return f" ({', '.join(said)})" if said else ""


def _elsewhere(name: str, directory: str) -> str:
    """Give the version of a package that is found when the home is not looked into; empty when there is none."""
    home = os.path.join(os.path.expanduser("~"), "")
    paths = [entry for entry in sys.path if entry and entry != directory and not entry.startswith(home)]
    for dist in importlib.metadata.distributions(name=name, path=paths):
        try:
            return dist.version or ""
        except Exception:  # noqa: BLE001 - half an installation has no version
            return ""
    return ""


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _user_site() -> str:
    directory = site.getusersitepackages()
    return directory if directory in sys.path else ""


def _imported(directory: str) -> set[str]:
    """Give the top-level modules that have been imported from a directory."""
    below = os.path.join(directory, "")
    names = set()
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and file.startswith(below):
            names.add(name.partition(".")[0])
    return names


def _modules(dist: importlib.metadata.Distribution) -> set[str]:
    """Give the top-level modules of a package: as it names them, else as its list of files does."""
    if listed := dist.read_text("top_level.txt"):
        return set(listed.split())
    return {file.parts[0].removesuffix(".py") for file in dist.files or [] if file.parts}
