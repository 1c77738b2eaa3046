"""What can be known of a cell before it is submitted, and the plain Python of it."""

from __future__ import annotations

import ast
import builtins
import re
import symtable
import types
from collections.abc import Callable, Collection, Iterator, Mapping
from traceback import format_exception_only
from typing import IO, Any

from ._errors import InvalidError
from ._packing import large, modules_needed, refusal
from ._payload.runner import INPUTS
from ._payload.values import LARGE, Packer, has_cloudpickle, spool, weigh
from ._transport import Content, settled

_LINE = re.compile(r"(\s*)(%{1,2})(\w+)[ \t]*(.*)", re.DOTALL)
_PAGE = re.compile(r"matplotlib|config|autoreload|load_ext\s+(autoreload|slipway)|reload_ext\s+slipway")
"""Figures come back anyway, and a job loads each module once."""
_TIMED = (
    "{0}slipway_begun = __import__('time').perf_counter(); {1}; "
    "print(f\"Wall time: {{__import__('time').perf_counter() - slipway_begun:.3g}} s\")"
)
_INSTALL = "install it in a cell of its own, before this one: the environment has it then"
_INSTEAD = {
    "pip": _INSTALL,
    "conda": _INSTALL,
    "mamba": _INSTALL,
    "uv": _INSTALL,
    "cd": "use os.chdir(...)",
    "env": "use os.environ",
    "run": "use runpy.run_path(...)",
    "timeit": "use timeit.timeit(...), or %time",
}
_NOT_PYTHON = re.compile(r"\s*(%|!|\?|[\w., ]+\s*=\s*[%!]|[\w.]+\?)")


def plain(cell: str) -> str:
    """Give a cell as a job runs it; its lines keep their numbers."""
    try:
        ast.parse(cell)
    except (SyntaxError, ValueError):
        return "\n".join(map(_plain_line, cell.split("\n")))
    return cell


def _plain_line(line: str) -> str:
    found = _LINE.fullmatch(line)
    if not found:
        return line
    indent, _, word, rest = found.groups()
    if word == "time":
        return _TIMED.format(indent, rest.rstrip("; ")) if rest else f"{indent}pass"  # the job's end tells its time
    return f"{indent}pass" if _PAGE.match(f"{word} {rest}") else line


def instead(line: str) -> str:
    """Say what to write in place of a line that only a notebook understands; empty: it is none."""
    if not _NOT_PYTHON.match(line):
        return ""
    said = re.search(r"(%{1,2}|!)\s*(\w*)(.*)", line)
    sign, word, rest = said.groups() if said else ("", "", "")
    if word in _INSTEAD and (sign != "!" or _INSTEAD[word] == _INSTALL):
        return f"{sign}{word} works in the notebook, not in a job: {_INSTEAD[word]}"
    if sign == "!":
        command = f"{word}{rest}".strip()
        return f"!command works in the notebook, not in a job: subprocess.run({command!r}, shell=True, check=True)"
    return "%magic and !command lines work in the notebook, not in a job: use Python (subprocess.run)"


_GIVEN = {*dir(builtins), "__name__", "__doc__", "__builtins__", "__annotations__", "display"} - {"_", "get_ipython"}
_DYNAMIC = {"exec", "eval", "globals", "locals", "vars"}
_OWN = re.compile(r"In|Out|get_ipython|_{1,3}|_i{1,3}|_i?\d+|_[iod]h|_sh")
"""Names that a notebook has of itself."""


class CellSyntaxError(InvalidError):
    """The cell is not Python. It is no SyntaxError itself: IPython would show that with the frames of this library."""

    def __init__(self, error: SyntaxError) -> None:
        super().__init__(f"line {error.lineno}: {error.msg}", field="cell")
        self.lineno = error.lineno
        self._lines = [line.rstrip("\n") for line in format_exception_only(error)]

    def _render_traceback_(self) -> list[str]:
        return self._lines


def parse(source: str, filename: str) -> ast.Module:
    """Parse a cell; what is wrong names its line as the notebook's editor counts it."""
    try:
        tree = ast.parse(source, filename)
        compile(source, filename, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except SyntaxError as error:
        error.msg = instead(error.text or "") or error.msg
        raise CellSyntaxError(error) from None
    return tree


def missing_names(source: str, filename: str, given: Collection[str]) -> list[str]:
    """List the names that the cell uses and neither defines nor is given; empty after a star import."""
    table = symtable.symtable(source, filename, "exec")
    tree = ast.parse(source)
    if any(isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in ast.walk(tree)):
        return []
    # Of := within a comprehension newer Pythons do not say here that it is the module's.
    walrus = {node.target.id for node in ast.walk(tree) if isinstance(node, ast.NamedExpr)}
    defined, used = set(given) | _GIVEN | _guarded(tree) | walrus, set()
    for scope in _scopes(table):
        for symbol in scope.get_symbols():
            at_module = scope is table or symbol.is_global()
            if at_module and (symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()):
                defined.add(symbol.get_name())
            if at_module and symbol.is_referenced():
                used.add(symbol.get_name())
    defined -= (loose := _loose(tree) - set(given))
    return sorted(name for name in (used | loose) - defined if name.isidentifier() and not name.startswith("__"))


def dynamic(tree: ast.Module) -> bool:
    """Say whether a cell may define names in a way that is not seen before it runs."""
    return any(isinstance(node, ast.Name) and node.id in _DYNAMIC for node in ast.walk(tree))


def _loose(tree: ast.Module) -> set[str]:
    """Give the names that are only ever changed or deleted, as x in x += 1, which takes one that is there."""
    changed = [node.target for node in ast.walk(tree) if isinstance(node, ast.AugAssign)]
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    loose = {node.id for node in changed if isinstance(node, ast.Name)}
    loose |= {node.id for node in names if isinstance(node.ctx, ast.Del)}
    bound = {node.id for node in names if isinstance(node.ctx, ast.Store) and node not in changed}
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.alias):
            bound.add((node.asname or node.name).partition(".")[0])
        else:
            bound |= {str(getattr(node, key, "")) for key in ("name", "rest")}  # def, class, except, match
    return loose - bound


def _guarded(tree: ast.Module) -> set[str]:
    """Give the names that the cell itself tries: those used where a NameError is caught."""
    names = set()
    for node in ast.walk(tree):
        caught = [handler.type for handler in node.handlers] if isinstance(node, ast.Try) else []
        if any(
            isinstance(part, ast.Name) and part.id == "NameError" for kind in caught if kind for part in ast.walk(kind)
        ):
            inside = [part for statement in getattr(node, "body", []) for part in ast.walk(statement)]
            names |= {part.id for part in inside if isinstance(part, ast.Name)}
    return names


def _scopes(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from _scopes(child)


def refuse_missing(names: list[str], namespace: Mapping[str, Any]) -> None:
    """Refuse a cell that lacks names, saying for each how to give it."""
    if not names:
        return
    modules = [name for name in names if isinstance(namespace.get(name), types.ModuleType)]
    own = [name for name in names if _OWN.fullmatch(name)]
    values = [name for name in names if name in namespace and name not in modules and name not in own]
    unknown = [name for name in names if name not in namespace and name not in own]
    remedies = [f"import {name} in the cell" for name in (_import(module, namespace) for module in modules)]
    if values:
        remedies.append(f"pass {', '.join(values)} with --in {','.join(values)}")
    if unknown:
        remedies.append(f"define {', '.join(unknown)} in the cell")
    if own:
        remedies.append(
            f"{', '.join(own)}: the notebook's own; give what you need of it a name, and pass that with --in"
        )
    raise InvalidError(
        f"the cell uses {', '.join(names)}, which it does not define: a job sees nothing of the notebook",
        field="cell",
        remedy="; ".join(remedies),
    )


def _import(name: str, namespace: Mapping[str, Any]) -> str:
    module = namespace[name].__name__
    return name if module == name else f"{module} as {name}"


def refuse_result(tree: ast.Module) -> None:
    """Refuse a cell whose result is known to be something that cannot be pickled."""
    for value in _results(tree):
        if isinstance(value, ast.GeneratorExp):
            what, remedy = "a generator, which cannot be sent back", "make it a list: result = [... for ...]"
        elif isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "open":
            what, remedy = (
                "an open file, which cannot be sent back",
                "read it: result = open(...).read(), or leave the file and fetch it with _job.files",
            )
        elif isinstance(value, ast.Lambda) and not has_cloudpickle():
            what, remedy = "a lambda, which pickle cannot send back", "%pip install cloudpickle"
        else:
            continue
        raise InvalidError(f"line {value.lineno}: result is {what}", field="result", remedy=remedy)


def _results(tree: ast.Module) -> list[ast.expr]:
    """Give the value that the cell's last top-level assignment gives to result."""
    found: list[ast.expr] = []
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        value = getattr(node, "value", None)
        named = any(isinstance(target, ast.Name) and target.id == "result" for target in targets)
        if named and isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(value, ast.expr):
            found = [value]
    return found


def pickle_inputs(
    names: Collection[str], namespace: Mapping[str, Any], tell: Callable[[str], None] = lambda text: None
) -> tuple[dict[str, Content], set[str]]:
    """Pickle the values named with --in into files, and name the modules that these need.

    It refuses naming the first that is unknown or cannot be pickled. Large ones have files of their own, and are told.
    """
    for name in names:
        if name not in namespace:
            raise InvalidError(
                f"--in {name}: the notebook has no {name}", field="in", remedy="define it before this cell"
            )
    values = {name: namespace[name] for name in names}
    file, aside = spool(), dict[str, IO[bytes]]()
    try:
        packer = _pack_aside(values, file, aside, tell)
        packer.seal(first=packer.parts - 1)
    except Exception as error:  # noqa: BLE001 - a user's __reduce__ may raise anything
        culprit = next(filter(None, (_unpicklable(*item) for item in values.items())), None)
        raise culprit or InvalidError(f"--in: {error}", field="in") from None
    return {INPUTS: settled(file), **aside}, modules_needed(packer)


def _pack_aside(
    values: Mapping[str, Any], file: IO[bytes], aside: dict[str, IO[bytes]], tell: Callable[[str], None]
) -> Packer:
    packer = Packer(file, aside)
    weights = {name: weigh(value) for name, value in values.items()}
    for name in sorted(weights, key=weights.__getitem__):  # what is in another comes before that
        if weights[name] > LARGE:
            packer.share(values[name])
            tell(large(name, weights[name]))
    packer.add(values)
    return packer


def _unpicklable(name: str, value: Any) -> InvalidError | None:
    try:
        weigh(value)
    except Exception as error:  # noqa: BLE001 - a user's __reduce__ may raise anything
        return refusal(f"--in {name}", value, error, "in")
    return None
