"""The user's own modules, which lie in her home or beside the notebook and so in no environment: they go along.

What a payload imports of them is known before it is submitted: from what its cell and its functions import, from what
the values that it gets need, and from what those modules import in turn. Nothing is imported to find it.
"""

from __future__ import annotations

import ast
import dis
import importlib
import importlib.util
import io
import os
import site
import sys
import sysconfig
import types
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ._errors import InvalidError
from ._folder import MODULES
from ._values import Packer
from ._wire import amount

MOST = 10_000_000
"""How many bytes of her own modules go with a payload: what is more is worth a place in the environment."""


def modules_of(tree: ast.AST) -> set[str]:
    """Name the outermost modules that code imports."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def modules_within(code: types.CodeType) -> set[str]:
    """Name the outermost modules that a function imports when it runs, or one within it."""
    found = {str(op.argval).partition(".")[0] for op in dis.get_instructions(code) if op.opname == "IMPORT_NAME"}
    inner = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return found.union(*map(modules_within, inner))


def modules_needed(packer: Packer) -> set[str]:
    """Name the outermost modules that what was packed needs."""
    return packer.roots.union(*(modules_within(function.__code__) for function in packer.functions))


def files_beside(names: Iterable[str], tell: Callable[[str], None]) -> dict[str, bytes]:
    """Give the file that brings those of some modules that are her own, and what these import, and tell of it."""
    found = dict[str, dict[str, bytes]]()
    todo = sorted(names)
    importlib.invalidate_caches()  # a cell may have written one just now
    while todo:
        name = todo.pop()
        if name in found or (place := _place(name)) is None:
            continue
        found[name] = _read(name, place)
        for file, data in found[name].items():
            todo += _imports(data) if file.endswith(".py") else []
    if not found:
        return {}
    tell(f"{', '.join(map(_said, sorted(found), (found[name] for name in sorted(found))))}: yours, and goes along")
    return {MODULES: _packed({file: data for files in found.values() for file, data in files.items()})}


def is_installed(file: str) -> bool:
    """Say whether a file is one of the environment's, and not her own."""
    places = {*map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib")), *site.getsitepackages()}
    return any(_below(file, place) for place in places if place)


def _below(file: str, directory: str) -> bool:
    return os.path.realpath(file).startswith(os.path.join(os.path.realpath(directory), ""))


def _place(name: str) -> Path | None:
    """Find a module of her own: its file, or its package's directory. None: it is none, or is nowhere."""
    if name in sys.stdlib_module_names or name in ("__main__", __package__):
        return None
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):  # one that was made here, and is nowhere else
        return None
    places = list(spec.submodule_search_locations or []) if spec else []
    if spec and not spec.origin and not any(next(Path(place).glob("*.py"), None) for place in places):
        return None  # any directory could be that
    file = places[0] if places else spec.origin if spec else None
    return Path(file) if file and os.path.exists(file) and _is_hers(file) else None


def _is_hers(file: str) -> bool:
    """Say whether a file is her own. What pip has put into the home is not: of that she is warned, see ``_home``."""
    around = [os.path.expanduser("~"), *([os.getcwd()] if os.getcwd() != "/" else [])]
    packages = is_installed(file) or _below(file, site.getusersitepackages())
    return not packages and any(_below(file, at) for at in around)


def _read(name: str, place: Path) -> dict[str, bytes]:
    """Read a module's files, by their names from where it is imported; refuse what is too large."""
    files, size = dict[str, bytes](), 0
    for path in _files(place):
        size += path.stat().st_size
        if size > MOST:
            raise InvalidError(
                f"{name} is imported from {place}, which no environment has and is more than {amount(MOST)}",
                field="modules",
                remedy=f"keep data apart from it, or install it into the environment: %pip install {place}"
                if place.is_dir()
                else "make it smaller, or a package that is installed into the environment",
            )
        files[str(path.relative_to(place.parent))] = path.read_bytes()
    return files


def _files(place: Path) -> Iterator[Path]:
    if place.is_file():
        yield place
        return
    for directory, inner, names in os.walk(place):
        inner[:] = sorted(name for name in inner if not name.startswith(".") and name != "__pycache__")
        paths = (Path(directory, name) for name in sorted(names) if not name.startswith("."))
        yield from (path for path in paths if path.is_file() and os.access(path, os.R_OK))


def _imports(data: bytes) -> set[str]:
    try:
        return modules_of(ast.parse(data))
    except (SyntaxError, ValueError):  # for who imports it to see
        return set()


def _said(name: str, files: dict[str, bytes]) -> str:
    size = amount(sum(map(len, files.values())))
    only = next(iter(files), "")
    return f"{only} ({size})" if [only] == [*files] and "/" not in only else f"{name}/ ({len(files):,} files, {size})"


def _packed(files: dict[str, bytes]) -> bytes:
    """Pack files; the same give the same bytes."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    return file.getvalue()
