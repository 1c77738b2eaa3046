"""The directory that a payload works in: the modules that came with it, the directories that do not come back.

This file is shipped with the job: it needs only the standard library.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

MODULES = "slipway-modules.zip"
"""The user's own modules, where there are some that the payload imports."""
_MOST_NAMED, _MOST_COUNTED = 20, 1000
"""How many directories are named, and files counted in each, that do not come back."""


def add_modules(home: str) -> None:
    """Let the payload, and Python programs that it starts, import the user's own modules."""
    if not os.path.exists(packed := os.path.join(home, MODULES)):
        return
    import zipfile

    directory = packed.removesuffix(".zip")
    with zipfile.ZipFile(packed) as archive:
        archive.extractall(directory)
    sys.path.insert(1, directory)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [directory, os.environ.get("PYTHONPATH")]))


def directories(home: str) -> dict[str, int]:
    """Count the files below each directory in the working directory: none of them comes back."""
    found = dict[str, int]()
    with suppress(OSError), os.scandir(home) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if not entry.is_dir(follow_symlinks=False) or entry.name.startswith((".", "__pycache__")):
                continue
            files = 0
            for _, _, names in os.walk(entry.path):
                files += len(names)
                if files >= _MOST_COUNTED:
                    break
            if files and len(found) < _MOST_NAMED:
                found[entry.name] = files
    return found
