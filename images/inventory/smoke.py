"""Import each module named on the command line in a process of its own and print what fails as one line of JSON."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

IMPORT = "import importlib, sys; importlib.import_module(sys.argv[1])"
DRIVER = (
    "libcuda.so",
    "libnvidia-ml.so",
    "cudaErrorNoDevice",
    "cudaErrorInsufficientDriver",
    "CUDA_ERROR_NO_DEVICE",
    "no CUDA-capable device",
    "no NVIDIA driver",
)
"""What libraries say where the driver of a GPU is missing."""


def attempt(module: str, seconds: float, deadline: float) -> dict[str, str] | None:
    """Import one module and return None, or what went wrong."""
    seconds = min(seconds, deadline - time.monotonic())
    if seconds <= 0:
        return {"module": module, "kind": "unchecked", "message": "no time was left"}
    try:
        done = subprocess.run(  # noqa: S603 - it runs this interpreter, on names that were checked
            [sys.executable, "-s", "-c", IMPORT, module],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        return {"module": module, "kind": "timeout", "message": f"took more than {seconds:.0f} s"}
    if done.returncode == 0:
        return None
    if done.returncode == -signal.SIGKILL:  # no module does this to itself
        return {"module": module, "kind": "unchecked", "message": "it was killed, perhaps for want of memory"}
    if done.returncode < 0:
        return {"module": module, "kind": "crash", "message": f"ended by signal {-done.returncode}"}
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or [f"exit status {done.returncode}"]
    return {"module": module, "kind": kind(lines[-1], module), "message": lines[-1][:500]}


def kind(message: str, module: str) -> str:
    """Tell a module that is not there, and a driver that only a GPU's host has, from all else."""
    if message == f"ModuleNotFoundError: No module named {module!r}":
        return "missing"
    if any(sign in message for sign in DRIVER):
        return "driver"
    return "error"


def main(each: str, total: str, *modules: str) -> None:
    """Import every module, a few at once, none for longer than each seconds and all within total."""
    own = set(getattr(sys, "stdlib_module_names", ())) | set(sys.builtin_module_names)
    names = [m for m in modules if m not in own]
    deadline = time.monotonic() + float(total)
    with tempfile.TemporaryDirectory() as empty:
        os.chdir(empty)
        with ThreadPoolExecutor(max_workers=min(2, os.cpu_count() or 1)) as pool:
            failures = [f for f in pool.map(lambda m: attempt(m, float(each), deadline), names) if f]
        os.chdir("/")
    version = ".".join(str(n) for n in sys.version_info[:3])
    print("slipway-smoke: " + json.dumps({"python": version, "modules": len(names), "failures": failures}))


main(*sys.argv[1:])
