"""The modules of the package stand in layers: of two that need each other neither can be read alone."""

import ast
import graphlib
from pathlib import Path

import slipway

PACKAGE = Path(slipway.__file__).parent


def imports(path: Path) -> set[str]:
    """Return the modules of the package that one imports, also within a function or for its types alone."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.level == 1 or (node.module or "").startswith("slipway.")):
            start = path.parent if node.level else PACKAGE
            names = [(node.module or "").removeprefix("slipway.")] if node.module else [one.name for one in node.names]
            found |= {str(start.joinpath(*name.split(".")).relative_to(PACKAGE)) for name in names}
    return found


def test_no_module_needs_one_that_needs_it() -> None:
    modules = {str(path.relative_to(PACKAGE).with_suffix("")): imports(path) for path in PACKAGE.rglob("*.py")}
    assert len(modules) > 20
    assert "_client" in modules["_jobs"]
    order = list(graphlib.TopologicalSorter(modules).static_order())  # it raises CycleError and names the circle
    assert order.index("_errors") < order.index("_client") < order.index("_jobs") < order.index("_scans")
