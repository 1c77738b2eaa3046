"""JupyterLab's part: what the wheel ships, and the script itself in node with a fake application."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from conftest import ROOT

NOTEBOOKS = ROOT / "notebooks"
LAB = NOTEBOOKS / "lab"


def entry() -> Path:
    package = json.loads((LAB / "package.json").read_text())
    load: str = package["jupyterlab"]["_build"]["load"]
    return LAB / load


def test_the_name_of_the_script_changes_with_it() -> None:
    # Browsers keep it for long, and the files of an image all carry the same old time.
    digest = hashlib.sha256(entry().read_bytes()).hexdigest()[:8]
    assert entry().name == f"remoteEntry.{digest}.js"
    assert [path.name for path in (LAB / "static").iterdir()] == [entry().name]


def test_it_is_of_the_wheels_version() -> None:
    project = tomllib.loads((NOTEBOOKS / "pyproject.toml").read_text())
    assert json.loads((LAB / "package.json").read_text())["version"] == project["project"]["version"]
    data = project["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-data"]
    assert all((NOTEBOOKS / source).is_dir() for source in data)


@pytest.mark.skipif(not shutil.which("node"), reason="node is not there")
def test_the_script() -> None:
    script = Path(__file__).with_name("lab.mjs")
    done = subprocess.run(
        ["node", "--test", "--test-reporter=tap", str(script)],
        env={"ENTRY": str(entry())},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "# fail 0" in done.stdout
