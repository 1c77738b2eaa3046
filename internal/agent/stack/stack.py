"""Start the kernel of a software stack, or a kernel that says why it cannot be started.

    stack.py start TITLE SETUP PYTHON CONNECTION
    stack.py tell TITLE TROUBLE WHAT-THE-SCRIPT-SAID CONNECTION

Jupyter runs it with its own interpreter, which has ipykernel whatever becomes of the stack.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

PATIENCE = 20  # seconds for the script to be found: where a repository is dead, nothing ever answers
MOST = 8000  # characters of what the script said


def trouble_with(setup: str) -> str:
    """Say why a script cannot be read; empty: it can. A process that does not come back is left."""
    looker = subprocess.Popen(  # noqa: S603
        ["/usr/bin/env", "test", "-r", setup],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        code = looker.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        looker.kill()
        return f"{setup} does not answer: tell your administrator, and try again later"
    return "" if code == 0 else f"{setup} is not there, or may not be read: tell your administrator"


def start(title: str, setup: str, python: str, connection: str) -> None:
    """Become the stack's kernel."""
    trouble = trouble_with(setup)
    if trouble:
        print(f"slipway: {title}: {trouble}", file=sys.stderr)
        tell(title, trouble, "", connection)
        return
    shell = str(Path(__file__).with_name("stack.sh"))
    argv = [shell, title, setup, python, connection, sys.executable, __file__]
    os.execv("/usr/bin/env", ["env", "bash", *argv])  # noqa: S606


def tell(title: str, trouble: str, said: str, connection: str) -> None:
    """Be a kernel that answers every cell with the trouble."""
    from ipykernel.kernelapp import IPKernelApp  # type: ignore[import-not-found, unused-ignore]
    from ipykernel.kernelbase import Kernel  # type: ignore[import-not-found, unused-ignore]

    text = f"The kernel {title} could not be started: {trouble}"
    if said:
        words = Path(said).read_text(errors="replace").strip()
        text += f"\n\nThe script said:\n{words[-MOST:]}" if words else ""
        Path(said).unlink(missing_ok=True)
    fault = {"ename": "StackError", "evalue": trouble, "traceback": [text]}

    class Trouble(Kernel):  # type: ignore[misc, unused-ignore]
        """Has no interpreter, and says so."""

        implementation = "slipway-stack"
        implementation_version = "1"
        language_info = {"name": "python", "mimetype": "text/x-python", "file_extension": ".py"}  # noqa: RUF012
        banner = text

        async def do_execute(  # type: ignore[override, unused-ignore]
            self,
            code: str,
            silent: bool,
            *_args: Any,
            **_kwargs: Any,
        ) -> dict[str, Any]:
            if not silent:
                self.send_response(self.iopub_socket, "error", fault)  # type: ignore[no-untyped-call, unused-ignore]
            return {"status": "error", "execution_count": self.execution_count, **fault}

    IPKernelApp.launch_instance(argv=["-f", connection], kernel_class=Trouble)


if __name__ == "__main__":
    {"start": start, "tell": tell}[sys.argv[1]](*sys.argv[2:])
