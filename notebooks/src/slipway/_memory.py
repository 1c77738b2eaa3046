"""The memory of a session as the kernel counts it, and what is told when it has killed a notebook's kernel.

The figures are those of the session's control group, of either version: they are what the limit is held
against, with all that runs in the session.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

GROUP = Path("/sys/fs/cgroup")
_MOST = 1 << 50  # larger limits mean none
_RECENT = 30.0  # seconds for which a dead kernel may be the one that was killed
_LOOK_EVERY = 2000  # milliseconds
_EVENTS = "https://events.jupyter.org/jupyter_server/kernel_actions/v1"


@dataclass(frozen=True)
class Memory:
    """What a session uses of its memory, in bytes, and how many of its processes were killed for want of it."""

    used: int
    limit: int
    kills: int


def memory() -> Memory | None:
    """Give the session's memory; None where no limit is known."""
    group = GROUP
    for usage, limit, statistics, cache, events in (
        ("memory.current", "memory.max", "memory.stat", "inactive_file", "memory.events"),
        (
            "memory/memory.usage_in_bytes",
            "memory/memory.limit_in_bytes",
            "memory/memory.stat",
            "total_inactive_file",
            "memory/memory.oom_control",
        ),
    ):
        try:
            most = int((group / limit).read_text())
            used = int((group / usage).read_text())
            cached = _field((group / statistics).read_text(), cache)  # what the kernel gives back by itself
            kills = _field((group / events).read_text(), "oom_kill")
        except (OSError, ValueError):
            continue
        if 0 < most < _MOST:
            return Memory(used=max(used - cached, 0), limit=most, kills=kills)
    return None


def _field(text: str, name: str) -> int:
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return int(value)
    return 0


def size(count: int) -> str:
    """Write a number of bytes as the service does."""
    value, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1023.95 or unit == "TiB":
            break
        value /= 1024
    return f"{value:.1f}".removesuffix(".0") + f" {unit}"


def words(limit: int) -> str:
    """Say in a cell why its kernel died."""
    return (
        f"Out of memory: this session needed more than its {size(limit)}, and the kernel was killed for that. "
        "Its variables are gone.\n"
        "Load less at a time, or stop this session and start it with more memory: your changes are kept.\n"
    )


class Obituaries:
    """Tells a cell whose kernel was killed for want of memory why it has no answer."""

    def __init__(self, app: Any, read: Callable[[], Memory | None] = memory) -> None:
        self._app = app
        self._read = read
        seen = read()
        self._kills = seen.kills if seen else 0
        self._killed = float("-inf")  # when something was last seen to have been
        self._cells: dict[str, dict[str, Any]] = {}  # the request that a kernel is at, by the kernel's id

    def look(self) -> None:
        """Notice what was killed since the last look."""
        seen = self._read()
        if seen and seen.kills > self._kills:
            self._kills, self._killed = seen.kills, time.monotonic()

    async def hear(self, logger: Any, schema_id: str, data: dict[str, Any]) -> None:
        """Follow each kernel from its start."""
        if data.get("action") == "start" and data.get("kernel_id"):
            self.follow(data["kernel_id"])

    def follow(self, kernel_id: str) -> None:
        """Know which cell a kernel is at, and when the kernel is started anew because it has died."""
        manager = self._app.kernel_manager
        if kernel_id not in manager:
            return
        kernel = manager.get_kernel(kernel_id)
        stream = kernel.connect_iopub()
        session = type(kernel.session)(config=kernel.session.config, key=kernel.session.key)

        def received(parts: list[bytes]) -> None:
            message = session.deserialize(session.feed_identities(parts)[1])
            parent = message.get("parent_header") or {}
            if message["header"]["msg_type"] != "status" or parent.get("msg_type") != "execute_request":
                return
            if message["content"]["execution_state"] == "busy":
                self._cells[kernel_id] = parent
            else:
                self._cells.pop(kernel_id, None)

        def died() -> None:
            self.tell(kernel_id, kernel)

        stream.on_recv(received)
        restarter = getattr(kernel, "_restarter", None)
        for event in ("restart", "dead"):
            if restarter is None:
                manager.add_restart_callback(kernel_id, died, event)
            else:  # before those who say that it was: then a page knows its cells no more
                restarter.callbacks[event].insert(0, died)

    def tell(self, kernel_id: str, kernel: Any) -> None:
        """Write into the cell at which a kernel has died, if that was for want of memory."""
        cell = self._cells.pop(kernel_id, None)
        self.look()
        process = getattr(getattr(kernel, "provisioner", None), "process", None)
        code = getattr(process, "returncode", None)
        seen = self._read()
        short = seen is not None and time.monotonic() - self._killed < _RECENT and code in (None, -signal.SIGKILL)
        if cell is None or seen is None or not short:
            return
        self._app.log.warning("slipway: kernel %s was killed for want of memory", kernel_id)
        for page in _pages(kernel_id):
            _write(page, cell, words(seen.limit))


def _pages(kernel_id: str) -> list[Any]:
    from jupyter_server.services.kernels.connection.channels import ZMQChannelsWebsocketConnection

    return [page for page in list(ZMQChannelsWebsocketConnection._open_sockets) if page.kernel_id == kernel_id]


def _write(page: Any, cell: dict[str, Any], text: str) -> None:
    """Send a page what a kernel would have written to its error output."""
    from jupyter_server.services.kernels.connection.base import serialize_msg_to_ws_v1

    message = page.session.msg("stream", {"name": "stderr", "text": text}, parent=cell)
    if page.subprotocol == "v1.kernel.websocket.jupyter.org":
        pack: Any = serialize_msg_to_ws_v1
        page.write_message(pack(message, "iopub", page.session.pack), binary=True)
    else:
        page.write_message(json.dumps({**message, "channel": "iopub"}, default=str))


def figures() -> dict[str, int]:
    """Give what JupyterLab's meter shows; empty where no limit is known."""
    seen = memory()
    return asdict(seen) if seen else {}


def attend(app: Any) -> None:
    """Have the kernels of a Jupyter Server looked after for as long as it runs."""
    from tornado.ioloop import PeriodicCallback

    told = Obituaries(app)
    app.event_logger.add_listener(schema_id=_EVENTS, listener=told.hear)
    PeriodicCallback(told.look, _LOOK_EVERY).start()
