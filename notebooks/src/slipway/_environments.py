"""Environments as a notebook holds them, and how the session that this runs in becomes one."""

from __future__ import annotations

import importlib.metadata
import os
import re
import site
import sys
import time
import types
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ._client import Client
from ._decode import JSON, decode, items, text
from ._display import Screen, Table
from ._errors import ConflictError, InvalidError, MissingError
from ._models import Difference, Environment, FreezeStep
from ._units import amount

_HEAD = ("environment", "digest", "made", "python", "packages", "size", "own", "shared with")


class Env:
    """An environment. ``record`` is what the service says of it; nothing of it but its names and shares can change."""

    def __init__(self, client: Client, record: Environment) -> None:
        self.client = client
        self.record = record

    @property
    def digest(self) -> str:
        """The digest that names its bytes."""
        return self.record.digest

    @property
    def ref(self) -> str:
        """What %%grid --env, the spawn form and other people on this site may call it."""
        return self.record.ref

    def refresh(self) -> Env:
        """Ask again: what is in it is known some seconds after the freeze."""
        self.record = self.client.environment(self.ref)
        return self

    def packages(self) -> Table:
        """List what is installed in it, by all package managers."""
        inventory = self.client.environment_details(self.digest).get("inventory")
        found = [item for item in items(_mapping(inventory), "packages") if isinstance(item, Mapping)]
        rows = [(text(p, "name"), text(p, "version"), text(p, "manager")) for p in found]
        return Table(("package", "version", "manager"), rows, () if rows else ("no packages are known of it (yet)",))

    def history(self) -> Envs:
        """List what its name has stood for, and what came from the same session."""
        return Envs(self.client, self.client.environment_history(self.ref))

    def diff(self, other: Env | str | None = None) -> Difference:
        """Tell what this one has other than ``other``; without one, other than the one before it."""
        if other is None:
            others = [env for env in self.history() if env.digest != self.digest]
            earlier = [env for env in others if env.record.created <= self.record.created]
            if not earlier:
                raise InvalidError(
                    f"there is none before {self.record.label}", field="other", remedy="name the one to compare with"
                )
            other = earlier[0]
        old = other.digest if isinstance(other, Env) else other
        return decode(Difference, self.client.environment_diff(old, self.digest))

    def share(self, with_: str = "public", group: str = "") -> Env:
        """Let others use it: ``share("public")``, ``share("group", "higgs")``, or nobody by ``share("private")``."""
        self.record = self.client.share_environment(self.ref, with_, group)
        return self

    def tag(self, name: str, tag: str = "") -> Env:
        """Give it another name, such as ``tag("ana", "v2")`` or ``tag("ana:v2")``."""
        name, tag = split_name(name, tag)
        return Env(self.client, self.client.tag_environment(self.ref, name, tag))

    def remove(self) -> None:
        """Take this name of it away; the bytes go when nothing needs them any more."""
        self.client.remove_environment(self.ref)

    def _table(self) -> Table:
        record, shared = self.record, self.record.share
        pairs = [
            ("environment", record.label + (" (the name leads to a newer one now)" if record.moved else "")),
            ("note", record.note),
            ("digest", record.digest),
            ("base", record.base),
            ("made", moment(record.created) + " UTC" if record.created else ""),
            ("size", f"{amount(record.size)}, {amount(record.own)} of it its own"),
            ("held still", f"{record.paused * 1000:.0f} ms" if record.paused else ""),
            ("python", record.python),
            ("packages", str(record.packages) if record.known else "not looked at yet: .refresh() in some seconds"),
            ("cuda", record.cuda + (f", driver {record.driver} or newer" if record.driver else "")),
            ("imports", record.imports.words if record.imports else ""),
            ("shared with", shared.words if record.mine else f"you, by {record.owner}"),
        ]
        how = ("nothing has changed since it was frozen",) if record.unchanged else ()
        wrong = record.imports.lines if record.imports else ()
        return Table(("", ""), [pair for pair in pairs if pair[1]], (*how, *wrong))

    def __repr__(self) -> str:
        """Tell what is known of it, without asking the service."""
        return repr(self._table())

    def _repr_html_(self) -> str:
        return self._table()._repr_html_()


class Envs(Sequence[Env]):
    """Environments, the newest first, as a table."""

    def __init__(self, client: Client, records: Sequence[Environment]) -> None:
        self._envs = [Env(client, record) for record in records]

    def __getitem__(self, at: Any) -> Any:
        """Give one, or a list of some."""
        return self._envs[at]

    def __len__(self) -> int:
        """Count them."""
        return len(self._envs)

    def __iter__(self) -> Iterator[Env]:
        """Go through them."""
        return iter(self._envs)

    def _table(self) -> Table:
        rows = [
            (
                e.label + (" (older)" if e.moved else ""),
                e.short,
                moment(e.created),
                e.python,
                str(e.packages) if e.known else "",
                amount(e.size),
                amount(e.own),
                e.share.words,
            )
            for e in (env.record for env in self._envs)
        ]
        return Table(_HEAD, rows, () if rows else ("there are none: %freeze makes one of this session",))

    def __repr__(self) -> str:
        """Write them in columns."""
        return repr(self._table())

    def _repr_html_(self) -> str:
        return self._table()._repr_html_()


def split_name(name: str, tag: str) -> tuple[str, str]:
    """Read name and tag, also written as one word: ana:v1."""
    if ":" not in name:
        return name, tag
    word, _, behind = name.partition(":")
    if tag and tag != behind:
        raise InvalidError(f"{name} has another tag than {tag}", field="tag", remedy="give the tag once")
    return word, behind


def moment(time: str) -> str:
    """Write a time as people read it, to the minute."""
    return time[:16].replace("T", " ")


def _mapping(value: object) -> JSON:
    return value if isinstance(value, Mapping) else {}


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


def freeze_session(
    client: Client, screen: Screen, options: FreezeOptions | None = None, magic: str = "%freeze", more: str = ""
) -> Environment:
    """Freeze the session that the notebook runs in, showing how far it is; ``magic`` is what the user has written.

    ``more`` is said behind the environment.
    """
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
    size = f"{amount(frozen.own)} of yours on a base of {amount(frozen.size - frozen.own)}"
    how = "unchanged" if frozen.unchanged else f"frozen now, {size}"
    live.done(f"environment {frozen.short} {how} ({time.monotonic() - begun:.1f} s){more}")
    return frozen


def warn_of_home(screen: Screen, told: set[str]) -> None:
    """Tell of packages in the home, once of each: they are in no environment."""
    packages = home_packages()
    if any(package.name not in told for package in packages):
        screen.line(home_warning(packages))
        told.update(package.name for package in packages)
