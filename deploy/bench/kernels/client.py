"""One client of Jupyter's kernels for all that is measured: the REST calls, and a websocket in either framing."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import aiohttp

V1 = "v1.kernel.websocket.jupyter.org"
PATIENCE = 60.0


class LostError(Exception):
    """The websocket ended before the kernel had said all."""


@dataclass(frozen=True)
class Message:
    """What a client looks at of a message."""

    channel: str
    kind: str
    parent: str
    content: dict[str, Any]


@dataclass(frozen=True)
class Gateway:
    """An address below which there is /api/kernels."""

    url: str
    token: str = ""
    kernel: str = ""

    @property
    def headers(self) -> dict[str, str]:
        """Give what says who is calling."""
        return {"Authorization": f"token {self.token}"} if self.token else {}

    async def start(self, http: aiohttp.ClientSession) -> str:
        """Start a kernel and give its id."""
        body = {"name": self.kernel} if self.kernel else {}
        async with http.post(f"{self.url}/api/kernels", json=body, headers=self.headers) as answer:
            if answer.status != 201:
                raise LostError(f"{self.url}: {answer.status} {await answer.text()}")
            return str((await answer.json())["id"])

    async def stop(self, http: aiohttp.ClientSession, kernel: str) -> None:
        """Shut a kernel down."""
        async with http.delete(f"{self.url}/api/kernels/{kernel}", headers=self.headers) as answer:
            if answer.status not in (204, 404):
                raise LostError(f"{self.url}: {answer.status} {await answer.text()}")

    async def connect(self, http: aiohttp.ClientSession, kernel: str, framing: str = "") -> Channels:
        """Open a kernel's websocket, which ends with the session."""
        session = uuid.uuid4().hex
        url = f"{self.url}/api/kernels/{kernel}/channels?session_id={session}"
        offered = [framing] if framing else []
        patience = aiohttp.ClientWSTimeout(ws_close=2.0)
        ws = await http.ws_connect(url, headers=self.headers, protocols=offered, max_msg_size=0, timeout=patience)
        if (ws.protocol or "") != framing:
            raise LostError(f"{self.url}: it does not speak {framing}")
        return Channels(ws, session, bool(framing))

    @asynccontextmanager
    async def open(self, http: aiohttp.ClientSession, kernel: str, framing: str = "") -> AsyncIterator[Channels]:
        """Open a kernel's websocket, and close it at the end."""
        channels = await self.connect(http, kernel, framing)
        reading = asyncio.create_task(channels.read())
        try:
            yield channels
        finally:
            reading.cancel()
            await channels.ws.close()


@dataclass
class Output:
    """What came of one execution."""

    seconds: float = 0.0  # until the kernel was idle again
    reply: float = 0.0  # until the answer
    printed: int = 0  # characters
    shown: int = 0  # outputs that were displayed
    messages: int = 0


@dataclass
class Channels:
    """A kernel's websocket."""

    ws: aiohttp.ClientWebSocketResponse
    session: str
    v1: bool
    count: int = 0
    came: asyncio.Queue[aiohttp.WSMessage] = field(default_factory=asyncio.Queue)

    async def read(self) -> None:
        """Take what comes, also while nobody waits for it: pings are answered on the way."""
        while True:
            got = await self.ws.receive()
            self.acknowledge()
            self.came.put_nowait(got)
            if got.type in (
                aiohttp.WSMsgType.CLOSE,
                aiohttp.WSMsgType.CLOSING,
                aiohttp.WSMsgType.CLOSED,
                aiohttp.WSMsgType.ERROR,
            ):
                return

    def acknowledge(self) -> None:
        """Acknowledge what comes at once: servers that leave Nagle's algorithm on wait 40 ms for it otherwise."""
        line = self.ws.get_extra_info("socket")
        if line is not None:
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)  # for the next few packets

    async def send(self, kind: str, content: dict[str, Any]) -> str:
        """Send a request on the shell and give its id."""
        self.count += 1
        name = f"{self.session}_{self.count}"
        header = {
            "msg_id": name,
            "msg_type": kind,
            "session": self.session,
            "username": "bench",
            "version": "5.3",
            "date": "2026-01-01T00:00:00.000000Z",
        }
        if self.v1:
            await self.ws.send_bytes(encode([b"shell", *(json.dumps(p).encode() for p in (header, {}, {}, content))]))
        else:
            body = {"channel": "shell", "header": header, "parent_header": {}, "metadata": {}, "content": content}
            await self.ws.send_str(json.dumps({**body, "buffers": []}))
        return name

    async def receive(self) -> Message:
        """Give the next message."""
        async with asyncio.timeout(PATIENCE):
            got = await self.came.get()
        if got.type is aiohttp.WSMsgType.TEXT:
            m = json.loads(got.data)
            return Message(m["channel"], m["header"]["msg_type"], m["parent_header"].get("msg_id", ""), m["content"])
        if got.type is aiohttp.WSMsgType.BINARY and self.v1:
            channel, header, parent, _, content, *_ = decode(got.data)
            about = json.loads(parent).get("msg_id", "")
            return Message(channel.decode(), json.loads(header)["msg_type"], about, json.loads(content))
        raise LostError(f"the websocket ended: {got.type.name} {got.data} {got.extra}")

    async def ask(self) -> float:
        """Ask for kernel_info; give the seconds until its answer."""
        begun = time.perf_counter()
        name = await self.send("kernel_info_request", {})
        while (m := await self.receive()).parent != name or m.kind != "kernel_info_reply":
            pass
        return time.perf_counter() - begun

    async def settle(self) -> None:
        """Wait until nothing of what was asked before is on its way: a kernel is idle behind its answer."""
        await self.run("pass")

    async def run(self, code: str) -> Output:
        """Execute code and take all that comes of it."""
        out, begun = Output(), time.perf_counter()
        content = {"code": code, "silent": False, "store_history": False, "user_expressions": {}, "allow_stdin": False}
        name = await self.send("execute_request", content)
        idle = False
        while not (idle and out.reply):
            m = await self.receive()
            if m.parent != name:
                continue
            out.messages += 1
            match m.kind:
                case "stream":
                    out.printed += len(m.content["text"])
                case "display_data":
                    out.shown += 1
                case "execute_reply":
                    out.reply = time.perf_counter() - begun
                    if m.content["status"] != "ok":
                        raise LostError(f"the kernel answers {m.content}")
                case "status":
                    idle = idle or m.content["execution_state"] == "idle"
        out.seconds = time.perf_counter() - begun
        return out


def encode(parts: list[bytes]) -> bytes:
    """Give a message in the framing v1."""
    at = 8 * (len(parts) + 2)
    offsets = [at]
    for part in parts:
        at += len(part)
        offsets.append(at)
    return struct.pack(f"<{len(offsets) + 1}Q", len(offsets), *offsets) + b"".join(parts)


def decode(data: bytes) -> list[bytes]:
    """Give the parts of a message in the framing v1."""
    (n,) = struct.unpack_from("<Q", data)
    offsets = struct.unpack_from(f"<{n}Q", data, 8)
    return [data[a:b] for a, b in pairwise(offsets)]
