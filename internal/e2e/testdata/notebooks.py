"""Executes the example notebooks where it is called, all at once, each in a kernel of its own, and keeps them with their outputs.

What they install comes from here and from no index: a package of one module.
"""

import asyncio
import os
import pathlib
import sys
import tempfile
import zipfile

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError


def wheel(directory: str, name: str, version: str) -> None:
    """Write a package that has nothing but its version."""
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(f"{directory}/{name}-{version}-py3-none-any.whl", "w") as file:
        file.writestr(f"{name}.py", f'__version__ = "{version}"\n')
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")


async def execute(path: pathlib.Path) -> None:
    """Execute a notebook. One that fails is kept as far as it came."""
    book = nbformat.read(path, as_version=4)
    try:
        await NotebookClient(book, timeout=300, kernel_name="python3").async_execute()
    except CellExecutionError as error:
        print(path.name, error)
    nbformat.write(book, path)


async def main() -> None:
    """Execute those that are named, at once."""
    await asyncio.gather(*(execute(pathlib.Path(name)) for name in sys.argv[1:]))


with tempfile.TemporaryDirectory() as wheels:
    wheel(wheels, "cowsay", "6.1")
    os.environ |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": wheels}
    asyncio.run(main())
