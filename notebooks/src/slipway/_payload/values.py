"""Values that travel between a notebook and its job, with a record of what they need to be read again.

This file is shipped with the job: it needs only the standard library, and cloudpickle where there is one. A cargo is
pickles, one behind another, and a record behind them: who has only ``pickle`` reads the first as if it were alone.
"""

from __future__ import annotations

import importlib.util
import io
import json
import os
import pickle
import shutil
import struct
import sys
import tempfile
import types
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import IO, Any

LARGE = 10_000_000
"""From how many bytes on a value is a file of its own, which is sent once."""
_ASIDE = 3  # how many such files there are: a scan's points have few files each

_MAGIC = b"slipway1"
_END = struct.Struct(">Q8s")
_FILES = (io.TextIOWrapper, io.BufferedReader, io.BufferedWriter, io.BufferedRandom, io.FileIO)
_ON_GPU = ("torch", "cupy", "jaxlib", "cudf")


class UnfitError(Exception):
    """A cargo cannot be read here; ``lacking`` are modules that it needs and that are not installed here."""

    def __init__(self, message: str, lacking: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.lacking = tuple(lacking)


class CannotTravelError(pickle.PicklingError):
    """A value that could be pickled, and would not be the same on the other side."""


class Cargo:
    """A file of values: ``record`` says what they need, ``value`` gives one of them."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._home = os.path.dirname(os.path.abspath(str(getattr(file, "name", "."))))
        self.record = _record(file)

    def check(self) -> None:
        """Refuse what this Python cannot read or would read wrongly; it loads nothing."""
        there, here = str(self.record.get("python", "")), _python()
        if there and there.split(".")[:2] != here.split(".")[:2]:
            raise UnfitError(f"Python {there} has packed them, and this is {here}: use an environment with the same")
        packages = _packages(self.record)
        if lacking := [name for name in packages if not _there(name)]:
            raise UnfitError(f"they need {', '.join(lacking)}, which is not installed here", lacking)
        packed, ours = packages.get("cloudpickle", ""), _version("cloudpickle")
        if packed.split(".")[0] != ours.split(".")[0] and packed and ours:
            raise UnfitError(f"cloudpickle {packed} has packed them, and this is {ours}: install cloudpickle=={packed}")

    def differences(self) -> list[str]:
        """Name the packages that have another version here than where the values were packed."""
        found = [(name, there, _version(name)) for name, there in _packages(self.record).items()]
        return [f"{name} {there} there, {here} here" for name, there, here in found if there and here and there != here]

    def value(self, part: int = 0) -> Any:
        """Read one value; those that it shares with others, and they among themselves, are read with it, once each."""
        return self._read(part, {})

    def _read(self, part: int, shared: dict[int, Any]) -> Any:
        def other(part: int) -> Any:
            if part not in shared:
                shared[part] = self._read(part, shared)
            return shared[part]

        start, size = (self.record.get("parts") or [[0, -1]])[part]
        if isinstance(start, str):
            with open(os.path.join(self._home, start), "rb") as file:
                return _Unpickler(file, other).load()
        self._file.seek(start)
        if len(self.record.get("parts") or [[]]) == 1:  # nothing else is read meanwhile, and no copy is made
            return _Unpickler(self._file, other).load()
        return _Unpickler(io.BytesIO(self._file.read(size)), other).load()


class _Unpickler(pickle.Unpickler):
    """Reads a value; ``part`` gives those that it shares with others."""

    def __init__(self, file: IO[bytes], part: Callable[[int], Any]) -> None:
        super().__init__(file)
        self._part = part

    def persistent_load(self, part: int) -> Any:
        return self._part(part)


class Needs:
    """What values need where they are read: ``modules`` by name, and the ``functions`` that travel by value."""

    def __init__(self) -> None:
        self.modules: set[str] = set()
        self.functions: list[types.FunctionType] = []


class Packer:
    """Makes a cargo, part by part. A value of ``shared`` (its part by its id) is not packed again where it occurs.

    Where there is ``aside``, the largest of those come into files of their own, by name.
    """

    def __init__(self, file: IO[bytes], aside: dict[str, IO[bytes]] | None = None) -> None:
        self._file, self._aside = file, aside
        self._needs = Needs()
        self._parts: list[tuple[int | str, int]] = []
        self.shared: dict[int, int] = {}

    @property
    def size(self) -> int:
        """How many bytes there are so far."""
        return self._file.tell()

    @property
    def parts(self) -> int:
        """How many parts there are so far."""
        return len(self._parts)

    @property
    def roots(self) -> set[str]:
        """Which modules of the outermost level have to be there where this is read."""
        return {name.partition(".")[0] for name in self._needs.modules - _by_value()} - _everywhere()

    @property
    def functions(self) -> list[types.FunctionType]:
        """Which functions travel by value: what they import when they run is not among the ``roots``."""
        return self._needs.functions

    def add(self, value: Any) -> int:
        """Pack a value and say how many bytes it takes."""
        start = self._file.tell()
        dump(value, self._file, self._needs, self.shared)
        self._parts.append((start, self._file.tell() - start))
        return self._parts[-1][1]

    def share(self, value: Any) -> int:
        """Pack a value that occurs in others."""
        file = spool()
        dump(value, file, self._needs, self.shared)
        size = file.tell()
        if self._aside is not None and size > LARGE and len(self._aside) < _ASIDE:
            name = f"slipway-input-{len(self._aside)}.pkl"
            self._aside[name] = file
            self._parts.append((name, size))
        else:
            self._parts.append((self._file.tell(), size))
            file.seek(0)
            shutil.copyfileobj(file, self._file)
        self.shared[id(value)] = len(self._parts) - 1
        return size

    def seal(self, **more: Any) -> None:
        """Write the record behind the values."""
        packages = {root: _version(root) for root in sorted(self.roots)}
        record = json.dumps({"python": _python(), "packages": packages, "parts": self._parts, **more}).encode()
        self._file.write(record + _END.pack(len(record), _MAGIC))


def spool() -> IO[bytes]:
    """Give a temporary file that is in memory as long as it is small, and has no name."""
    return _Spool(max_size=LARGE)


class _Spool(tempfile.SpooledTemporaryFile[bytes]):
    """One that does not take into memory first what is too large for it."""

    def write(self, data: Any) -> int:
        if self.tell() + memoryview(data).nbytes > LARGE:
            self.rollover()
        return super().write(data)


def weigh(value: Any) -> int:
    """Say how many bytes a value takes packed."""
    scale = _Scale()
    dump(value, scale)
    return scale.weight


class _Scale(io.RawIOBase):
    """A file that keeps nothing and counts."""

    weight = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        self.weight += size
        return size


def pack(value: Any) -> bytes:
    """Make a cargo of one value."""
    file = io.BytesIO()
    packer = Packer(file)
    packer.add(value)
    packer.seal()
    return file.getvalue()


def dump(
    value: Any, file: IO[bytes] | io.RawIOBase, needs: Needs | None = None, shared: Mapping[int, int] | None = None
) -> None:
    """Pickle a value: functions and classes of the notebook by value where there is cloudpickle."""
    pickler = _pickler(has_cloudpickle(), bool(shared))(file)
    pickler.needs, pickler.shared = needs or Needs(), shared or {}
    pickler.dump(value)


def has_cloudpickle() -> bool:
    """Say whether functions and classes of the notebook can be pickled by value."""
    return _there("cloudpickle")


@cache
def _pickler(by_value: bool, sharing: bool) -> Any:
    if by_value:
        import cloudpickle

        base: Any = cloudpickle.Pickler
    else:
        base = pickle.Pickler

    class Pickler(base):  # type: ignore[misc]
        def reducer_override(self, value: Any) -> Any:
            kind = value if isinstance(value, type) or callable(value) else type(value)
            _refuse(value, type(value))
            module = value.__name__ if isinstance(value, types.ModuleType) else getattr(kind, "__module__", "")
            self.needs.modules.add(str(module or ""))
            if not by_value:
                return NotImplemented
            reduced = base.reducer_override(self, value)
            if isinstance(reduced, tuple):
                self.needs.modules.add("cloudpickle")
                self.needs.functions += [value] if isinstance(value, types.FunctionType) else []
            return reduced

    class Sharing(Pickler):
        def persistent_id(self, value: Any) -> int | None:
            part: int | None = self.shared.get(id(value))
            return part

    return Sharing if sharing else Pickler


def _refuse(value: Any, kind: type) -> None:
    if isinstance(value, _FILES):
        if value is not sys.stdout and value is not sys.stderr:
            raise CannotTravelError("an open file stays where it is: pass its path, or what is in it")
        return
    root = kind.__module__.partition(".")[0] if isinstance(kind.__module__, str) else ""
    if root in _ON_GPU and (place := _gpu(value, root)):
        raise CannotTravelError(f"it lies in the memory of a GPU ({place}): pass it from the CPU's, as value.cpu()")


def _gpu(value: Any, root: str) -> str:
    """Say on which GPU a value lies; empty: on none."""
    try:
        if root == "torch":
            return str(value.device) if getattr(value, "is_cuda", False) is True else ""
        if root == "jaxlib":
            return next((str(device) for device in value.devices() if device.platform != "cpu"), "")
    except Exception:  # noqa: BLE001 - not an array then
        return ""
    return root if hasattr(value, "__cuda_array_interface__") or root == "cudf" else ""


def _record(file: IO[bytes]) -> dict[str, Any]:
    """Read the record; a file of a plain pickle has none."""
    size = file.seek(0, io.SEEK_END)
    if size < _END.size:
        return {}
    file.seek(size - _END.size)
    length, magic = _END.unpack(file.read(_END.size))
    if magic != _MAGIC or length > size - _END.size:
        return {}
    file.seek(size - _END.size - length)
    record = json.loads(file.read(length))
    return record if isinstance(record, dict) else {}


def _packages(record: Mapping[str, Any]) -> dict[str, str]:
    packages = record.get("packages")
    return dict(packages) if isinstance(packages, Mapping) else {}


def _everywhere() -> set[str]:
    """Name what needs no package: Python's own modules."""
    return {"", "__main__", "__mp_main__", *sys.stdlib_module_names}


def _by_value() -> set[str]:
    """Name the modules whose contents travel by value."""
    module = sys.modules.get("cloudpickle")
    return set(module.list_registry_pickle_by_value()) if module else set()


def _there(name: str) -> bool:
    if name in sys.modules:
        return sys.modules[name] is not None
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


@cache
def _version(name: str) -> str:
    version = getattr(sys.modules.get(name), "__version__", "")
    if isinstance(version, str) and version:
        return version
    try:
        from importlib import metadata  # takes a while, and most packages have said it themselves

        return metadata.version(name)
    except Exception:  # noqa: BLE001 - not a package's name, or half an installation
        return ""


def _python() -> str:
    return "{}.{}.{}".format(*sys.version_info[:3])
