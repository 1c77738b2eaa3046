"""What check.py says to JupyterHub and to a JupyterLab server: their own APIs, nothing of Slipway's."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import httpx
from tornado.httpclient import HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

Show = Callable[[str], None]


class CheckError(Exception):
    """Something that must hold did not; the message says what was seen."""


class Hub:
    """The Hub, seen by a service of its own and by a browser."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self._http = httpx.AsyncClient(timeout=60, trust_env=False)
        self._token = token

    async def __aenter__(self) -> Hub:
        """Use the client as a context that closes it."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the client."""
        await self._http.aclose()

    async def api(self, method: str, path: str, body: object = None, *, allow: tuple[int, ...] = ()) -> httpx.Response:
        """Call the Hub's REST API; a status that is neither a success nor allowed is an error."""
        response = await self._http.request(
            method, f"{self.url}/hub/api{path}", json=body, headers={"Authorization": f"token {self._token}"}
        )
        if not response.is_success and response.status_code not in allow:
            raise CheckError(f"{method} {path}: {response.status_code} {_reason(response)}")
        return response

    @contextlib.asynccontextmanager
    async def browser(self, user: str, password: str) -> AsyncIterator[Browser]:
        """Log in as a browser does."""
        async with httpx.AsyncClient(timeout=60, trust_env=False, follow_redirects=True, base_url=self.url) as http:
            await http.get("/hub/login")
            form = {"username": user, "password": password, "_xsrf": http.cookies.get("_xsrf", path="/hub/") or ""}
            page = await http.post("/hub/login", params={"next": "/hub/home"}, data=form)
            if page.status_code != 200 or page.url.path != "/hub/home":
                raise CheckError(f"after the login: {page.status_code} {page.url.path}")
            yield Browser(http)

    async def progress(self, server: str) -> AsyncIterator[Mapping[str, Any]]:
        """Follow a start, by its server's path: the events that the Hub's spawn page shows, the last its end."""
        url = f"{self.url}/hub/api{server}/progress"
        headers = {"Authorization": f"token {self._token}"}
        async with self._http.stream("GET", url, headers=headers, timeout=600) as response:
            if response.status_code != 200:
                await response.aread()
                raise CheckError(f"progress: {response.status_code} {_reason(response)}")
            async for line in response.aiter_lines():
                if line.startswith("data:"):
                    yield json.loads(line[5:])


class Browser:
    """Somebody who has logged in to the Hub, with her cookies."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def page(self, path: str) -> str:
        """Open a page and give what it says; it must be the one that was asked for, not another login."""
        page = await self._http.get(path)
        if page.status_code != 200 or page.url.path != path:
            raise CheckError(f"{path}: {page.status_code} {page.url.path}")
        return page.text


def _reason(response: httpx.Response) -> str:
    try:
        return str(response.json().get("message"))
    except (ValueError, AttributeError):
        return response.text[:300]


class Lab:
    """One user's JupyterLab, or a gateway to kernels, through the Hub's proxy, with a token of hers."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self._headers = {"Authorization": f"token {token}"}

    async def get(self, path: str) -> httpx.Response:
        """Fetch a page or an API path."""
        async with httpx.AsyncClient(timeout=60, trust_env=False, headers=self._headers) as http:
            return await http.get(self.url + path)

    async def kernel(self, show: Show, name: str = "python3") -> Kernel:
        """Start a kernel and connect to it."""
        async with httpx.AsyncClient(timeout=60, trust_env=False, headers=self._headers) as http:
            response = await http.post(f"{self.url}/api/kernels", json={"name": name})
        if response.status_code != 201:
            raise CheckError(f"start a kernel: {response.status_code} {_reason(response)}")
        path = f"/api/kernels/{response.json()['id']}/channels?session_id={uuid.uuid4().hex}"
        request = HTTPRequest("ws" + self.url.removeprefix("http") + path, headers=self._headers)
        return Kernel(await websocket_connect(request, ping_interval=20), show)

    async def shutdown(self) -> None:
        """Shut all kernels down."""
        async with httpx.AsyncClient(timeout=60, trust_env=False, headers=self._headers) as http:
            listed = await http.get(f"{self.url}/api/kernels")
            for kernel in listed.json() if listed.is_success else []:
                await http.delete(f"{self.url}/api/kernels/{kernel['id']}")


@dataclass
class Cell:
    """What a cell did."""

    output: str = ""
    error: str = ""


class Kernel:
    """A kernel's websocket: cells go in, what they print is shown as it comes."""

    def __init__(self, socket: WebSocketClientConnection, show: Show) -> None:
        self._socket = socket
        self._show = show

    def close(self) -> None:
        """Close the connection; the kernel ends with its server."""
        self._socket.close()

    async def run(self, code: str, *, fails: bool = False, quiet: bool = False) -> str:
        """Run a cell and give what it printed. It must succeed, or fail when that is expected."""
        cell = await asyncio.wait_for(self._execute(code, quiet), timeout=600)
        if bool(cell.error) != fails:
            raise CheckError(f"the cell {code.splitlines()[0]!r}: {cell.error or 'did not fail'}\n{cell.output}")
        return cell.error if fails else cell.output

    async def _execute(self, code: str, quiet: bool) -> Cell:
        sent = uuid.uuid4().hex
        await self._socket.write_message(json.dumps(_execute_request(sent, code)))
        cell, idle, replied = Cell(), False, False
        while not (idle and replied):
            raw = await self._socket.read_message()
            if raw is None:
                raise CheckError(f"the kernel's websocket was closed during {code.splitlines()[0]!r}")
            if isinstance(raw, bytes):
                continue  # a message with buffers: widgets, of which there are none here
            message = json.loads(raw)
            if message["parent_header"].get("msg_id") != sent:
                continue
            content = message["content"]
            match message["msg_type"]:
                case "stream":
                    self._take(cell, content["text"], quiet)
                case "execute_result" | "display_data" | "update_display_data":
                    self._take(cell, content["data"].get("text/plain", "") + "\n", quiet)
                case "error":
                    cell.error = f"{content['ename']}: {content['evalue']}"
                case "execute_reply":
                    replied = True
                case "status":
                    idle = content["execution_state"] == "idle"
        return cell

    def _take(self, cell: Cell, text: str, quiet: bool) -> None:
        cell.output += text
        if quiet:
            return
        for line in re.split(r"[\r\n]+", text):
            if line.strip():
                self._show(line.rstrip())


def _execute_request(sent: str, code: str) -> dict[str, object]:
    header = {"msg_id": sent, "username": "", "session": sent, "msg_type": "execute_request", "version": "5.3"}
    content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}}
    return {
        "channel": "shell",
        "header": header,
        "parent_header": {},
        "metadata": {},
        "content": {**content, "allow_stdin": False, "stop_on_error": True},
    }
