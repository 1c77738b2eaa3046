"""A Jupyter kernel for a notebook in VS Code: JSON lines on standard input and output.

It runs one kernel with the Python that runs it, in the directory in which it was started, and ends
with its input or with the kernel. It is told one JSON object a line:

``{"do": "execute", "id": 1, "code": "..."}``, ``{"do": "input", "value": "..."}``, ``{"do": "interrupt"}``

and tells ``{"event": ...}``: ``ready`` with what the kernel says of its ``language``; ``output`` with the ``id``
of the execution, and ``type`` and ``content`` of the kernel's message; ``done`` with ``id``, ``status`` and
``count``; ``input`` with a ``prompt`` that asks its user; ``failed`` with ``why``, before it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.manager import AsyncKernelManager

LONGEST = 256 << 20  # a line that is told: a cell's code
START = 120  # seconds; a busy machine imports slowly

OUTPUTS = {"stream", "display_data", "update_display_data", "execute_result", "error", "clear_output"}


class Failed(Exception):  # noqa: N818 - it tells what happened
    """The kernel did not start, or ended by itself."""


@dataclass
class Execution:
    """One cell that runs: it has ended when the kernel has answered and is idle again, in either order."""

    id: int
    reply: dict[str, Any] | None = None
    idle: bool = False


class Kernel:
    """The kernel, and what it was asked."""

    def __init__(self, manager: AsyncKernelManager, client: AsyncKernelClient, out: BinaryIO) -> None:
        self._manager = manager
        self._client = client
        self._out = out
        self._asked: dict[str, Execution] = {}

    async def start(self) -> None:
        """Wait for it and say when it is ready."""
        self._client.start_channels()
        try:
            await self._client.wait_for_ready(timeout=START)
        except RuntimeError as error:
            raise Failed(f"the kernel did not start: {error}") from error
        self._tell("ready", language=await self._language())

    async def _language(self) -> dict[str, Any]:
        reply = await self._client.kernel_info(reply=True, timeout=START)
        info: dict[str, Any] = reply["content"]["language_info"]
        return info

    async def serve(self, lines: asyncio.StreamReader) -> None:
        """Do what is asked until the input ends; raise if the kernel ends before."""
        works = (self._listen(lines), self._outputs(), self._replies(), self._questions(), self._watch())
        tasks = [asyncio.create_task(work) for work in works]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def end(self) -> None:
        """End the kernel, asking it first."""
        self._client.stop_channels()
        if self._manager.has_kernel:
            await self._manager.shutdown_kernel()

    async def _listen(self, lines: asyncio.StreamReader) -> None:
        while line := await lines.readline():
            await self._do(json.loads(line))

    async def _do(self, asked: dict[str, Any]) -> None:
        match asked["do"]:
            case "execute":
                self._asked[self._client.execute(asked["code"], allow_stdin=True)] = Execution(asked["id"])
            case "input":
                self._client.input(asked["value"])
            case "interrupt":
                await self._manager.interrupt_kernel()
            case other:
                raise Failed(f"{other}: nobody knows how to do that")

    async def _outputs(self) -> None:
        while True:
            message = await self._client.get_iopub_msg()
            execution = self._asked.get(message["parent_header"].get("msg_id", ""))
            if execution is None:
                continue
            if message["msg_type"] in OUTPUTS:
                self._tell("output", id=execution.id, type=message["msg_type"], content=message["content"])
            elif message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                execution.idle = True
                self._settle()

    async def _replies(self) -> None:
        while True:
            message = await self._client.get_shell_msg()
            execution = self._asked.get(message["parent_header"].get("msg_id", ""))
            if execution is not None and message["msg_type"] == "execute_reply":
                execution.reply = message["content"]
                self._settle()

    def _settle(self) -> None:
        for key, execution in list(self._asked.items()):
            if execution.idle and execution.reply is not None:
                del self._asked[key]
                count = execution.reply.get("execution_count")
                self._tell("done", id=execution.id, status=execution.reply["status"], count=count)

    async def _questions(self) -> None:
        while True:
            message = await self._client.get_stdin_msg()
            if message["msg_type"] == "input_request":
                content = message["content"]
                self._tell("input", prompt=content["prompt"], password=content["password"])

    async def _watch(self) -> None:
        while await self._manager.is_alive():  # noqa: ASYNC110 - a process, which sets no event
            await asyncio.sleep(1)
        raise Failed("the kernel has ended; the next cell that is run starts another")

    def _tell(self, event: str, **more: Any) -> None:
        tell(self._out, event, **more)


def tell(out: BinaryIO, event: str, **more: Any) -> None:
    """Write one line."""
    out.write(json.dumps({"event": event, **more}, default=str).encode() + b"\n")
    out.flush()


async def standard_input() -> asyncio.StreamReader:
    """Give standard input as a stream of lines."""
    reader = asyncio.StreamReader(limit=LONGEST)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


async def run(out: BinaryIO, directory: str) -> None:
    """Run one kernel from start to end, with its connection in a directory of its user alone."""
    # Unix sockets: on a worker of a pool, its loopback is everybody's.
    manager = AsyncKernelManager(transport="ipc", connection_file=str(Path(directory) / "kernel.json"))
    # What the kernel's own child processes print bypasses its messages: it must not mix with the lines here.
    await manager.start_kernel(stdout=subprocess.DEVNULL)
    kernel = Kernel(manager, manager.client(), out)
    try:
        await kernel.start()
        await kernel.serve(await standard_input())
    finally:
        await kernel.end()


def main() -> int:
    """Run a kernel; the exit code says whether it ended in order."""
    # The lines get a descriptor of their own; whatever else prints goes to the log.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    with tempfile.TemporaryDirectory(prefix="slipway-kernel-") as directory, contextlib.suppress(BrokenPipeError):
        try:
            asyncio.run(run(out, directory))
        except Failed as failed:
            tell(out, "failed", why=str(failed))
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
