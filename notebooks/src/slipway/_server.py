"""Jupyter Server's part in a session: what JupyterLab asks the service for, through the session's own socket.

The browser asks Jupyter Server, which has checked who it is and that no other page forged the request. Jupyter Server
asks the service through the socket of the session. The service knows the session by its socket, so there is no token,
neither here nor in the browser, and users reach what is theirs alone. The other ways are worse: the pages of the
service have cookies of their own, and another origin where each user has a domain; a kernel is busy while it computes.

Only the routes that JupyterLab's part uses are passed on. Outside a session there is nothing to serve, and nothing is
said about it.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import re
import shutil
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from jupyter_server.utils import ensure_async, url_path_join
from tornado import web
from tornado.iostream import StreamClosedError

from . import _memory
from ._async import AsyncService
from ._errors import SlipwayError
from ._transport import SOCKET

OWN_KERNEL = "Python 3 (this session)"
"""What launchers call the session's own Python: the service's kernels beside it run in containers of their own."""

_STOCK = "Python 3 (ipykernel)"

_NAME = r"\w[\w.:-]*"  # an ID, a digest or a name: one segment of a path, and no way up
_READS = re.compile(rf"gpus|jobs(/{_NAME}/log)?|environments(/{_NAME}/diff)?")
_CHANGES = re.compile(rf"(jobs|scans)/{_NAME}/(cancel|retry)|environments/{_NAME}/share")
_STREAMS = re.compile(r"sessions/self/freeze|servers")
_PARAMETERS = ("from", "limit", "points", "scan", "state", "tail")

_FOLLOWED = 30
"""How many jobs and scans one page may follow at once."""

_HEARTBEAT = 15.0
"""Seconds between two signs of life of a stream: a reader that has gone is noticed by them."""

EXAMPLES = Path(__file__).with_name("examples")
EXAMPLES_FOLDER = "slipway-examples"


class _Handler(APIHandler):
    auth_resource = "slipway"

    def initialize(self, service: AsyncService) -> None:
        self._service = service

    async def relay(self, method: str, path: str, body: object = None) -> None:
        try:
            doc = await self._service.json(method, path, body=body)
            doc["now"] = datetime.now(UTC).isoformat()  # a browser's clock may be wrong
            doc["vscode"] = shutil.which("code-server") is not None  # the agent starts it, at vscode/
            self.finish(doc)
        except SlipwayError as error:
            self.refuse(error)

    def refuse(self, error: SlipwayError) -> None:
        self.set_status(error.status)
        self.finish(_told(error))

    def begin_stream(self) -> None:
        self.set_header("Content-Type", "text/event-stream")
        self.set_header("Cache-Control", "no-cache")

    async def send(self, event: str, doc: object) -> None:
        self.write(f"event: {event}\ndata: {json.dumps(doc)}\n\n")
        await self.flush()


def _told(error: SlipwayError) -> dict[str, str]:
    return {"message": error.message, "remedy": error.remedy}


class SessionHandler(_Handler):
    """``GET slipway/session``: the session as the service sees it, with when and why it will be stopped."""

    _track_activity = False  # a page that only looks does not make the session busy

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Answer with the session."""
        await self.relay("GET", "/sessions/self")


class KeepHandler(_Handler):
    """``POST slipway/keep {"for": "4h"}``: keep the session from being stopped for that time."""

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Pass the wish on, and the session as it is then back."""
        body = self.get_json_body()
        time = body.get("for") if isinstance(body, dict) else None
        if not isinstance(time, str) or not time:
            raise web.HTTPError(422, 'for: not a time; send {"for": "4h"}')
        await self.relay("POST", "/sessions/self/keep", {"for": time})


class RelayHandler(_Handler):
    """``GET`` and ``POST slipway/api/PATH``: those routes of the service's API that the panel uses."""

    _track_activity = False  # the panel looks by itself

    @web.authenticated
    @authorized
    async def get(self, path: str) -> None:
        """Pass on the service's answer."""
        self._check(_READS, path)
        await self._pass("GET", path)

    @web.authenticated
    @authorized
    async def post(self, path: str) -> None:
        """Pass on the service's answer, or its events one by one."""
        self._track_activity = True  # somebody has pressed a button
        if _STREAMS.fullmatch(path):
            await self._pass_events(path)
            return
        self._check(_CHANGES, path)
        await self._pass("POST", path)

    def _check(self, allowed: re.Pattern[str], path: str) -> None:
        if not allowed.fullmatch(path):
            raise web.HTTPError(404, f"{path}: JupyterLab's part of Slipway does not use this")

    async def _pass(self, method: str, path: str) -> None:
        given = {name: self.get_query_argument(name, "") for name in _PARAMETERS}
        params = {name: value for name, value in given.items() if value}
        try:
            answer = await self._service.call(method, f"/{path}", params=params, body=self.get_json_body())
        except SlipwayError as error:
            self.refuse(error)
            return
        self.set_status(answer.status_code)
        text = "application/json" if not path.endswith("/log") else "text/plain; charset=utf-8"
        self.finish(answer.content, set_content_type=text)

    async def _pass_events(self, path: str) -> None:
        self.begin_stream()
        try:
            async with aclosing(self._service.stream("POST", f"/{path}", body=self.get_json_body())) as stream:
                async for event in stream:
                    await self.send(event.event, event.json())
        except SlipwayError as error:
            await self.send("error", {"error": _told(error)})
        except StreamClosedError:
            return  # what was asked for goes on
        self.finish(set_content_type="text/event-stream")


class EventsHandler(_Handler):
    """``GET slipway/events?job=ID&scan=ID``: what happens to all of these, as one stream.

    A browser opens six connections to a server at most, and JupyterLab needs some of them.
    """

    _track_activity = False

    def initialize(self, service: AsyncService) -> None:
        """Begin with nothing to tell."""
        super().initialize(service)
        self._changes: asyncio.Queue[dict[str, Any]] = asyncio.Queue(100)

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Tell what happens until the reader leaves."""
        followed = [(kind, name) for kind in ("job", "scan") for name in self.get_query_arguments(kind)]
        if len(followed) > _FOLLOWED or not all(re.fullmatch(_NAME, name) for _, name in followed):
            raise web.HTTPError(422, f"job, scan: not IDs, or more than {_FOLLOWED}")
        self.begin_stream()
        tasks = [asyncio.create_task(self._follow(kind, name)) for kind, name in followed]
        try:
            await self._tell()
        except StreamClosedError:
            pass
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _tell(self) -> None:
        await self.send("begin", {})
        while True:
            try:
                doc = await asyncio.wait_for(self._changes.get(), _HEARTBEAT)
            except TimeoutError:
                self.write(": \n\n")
                await self.flush()
                continue
            await self.send("change", doc)

    async def _follow(self, kind: str, name: str) -> None:
        """Tell how it stands. Points are left out: a scan may have ten thousand, and its sum changes with each."""
        try:
            async with aclosing(self._service.stream("GET", f"/{kind}s/{name}/events")) as stream:
                async for event in stream:
                    if event.event != "point":
                        await self._changes.put({kind: name, "data": event.json()})
        except SlipwayError:
            pass  # the page learns of it as it asks for the list
        await self._changes.put({kind: name, "data": None})


class ExamplesHandler(APIHandler):
    """``POST slipway/examples``: put the example notebooks into the user's home. One that is there stays as it is."""

    auth_resource = "slipway"

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Answer with the folder, and the notebook to begin with."""
        contents: Any = self.contents_manager
        if not await ensure_async(contents.dir_exists(EXAMPLES_FOLDER)):
            await ensure_async(contents.save({"type": "directory"}, EXAMPLES_FOLDER))
        for source in sorted(EXAMPLES.glob("*.ipynb")):
            path = f"{EXAMPLES_FOLDER}/{source.name}"
            if not await ensure_async(contents.file_exists(path)):
                content = json.loads(source.read_text(encoding="utf-8"))
                await ensure_async(contents.save({"type": "notebook", "format": "json", "content": content}, path))
        self.finish({"folder": EXAMPLES_FOLDER, "first": f"{EXAMPLES_FOLDER}/hello_grid.ipynb"})


class MemoryHandler(APIHandler):
    """``GET slipway/memory``: what the session uses of its memory, as pages ask every few seconds."""

    auth_resource = "slipway"
    _track_activity = False

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Answer with the figures of the session's control group."""
        self.finish(_memory.figures())


def name_own_kernel(manager: Any) -> None:
    """Have a kernel spec manager call the session's own Python so. A name that somebody has chosen stays.

    Its kernel.json is not changed, and no other put before it: the image's package and its user write those.
    """
    get_spec, get_all = manager.get_kernel_spec, manager.get_all_specs
    if inspect.iscoroutinefunction(get_all):  # of a gateway: its kernels are not of this session
        return

    def get_kernel_spec(name: str, *args: Any, **kwargs: Any) -> Any:
        spec = get_spec(name, *args, **kwargs)
        if spec.display_name == _STOCK:
            spec.display_name = OWN_KERNEL
        return spec

    def get_all_specs() -> Any:
        found = get_all()
        for one in found.values():
            spec = one.get("spec")
            if isinstance(spec, dict) and spec.get("display_name") == _STOCK:
                spec["display_name"] = OWN_KERNEL
        return found

    manager.get_kernel_spec, manager.get_all_specs = get_kernel_spec, get_all_specs


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": "slipway._server"}]


def _load_jupyter_server_extension(app: Any) -> None:
    socket = os.environ.get("SLIPWAY_SOCKET") or SOCKET
    if not os.path.exists(socket):
        app.log.debug("slipway: this is no Slipway session: there is no %s", socket)
        return
    name_own_kernel(app.kernel_spec_manager)
    service = {"service": AsyncService("http://slipway", socket=socket)}
    base = url_path_join(app.web_app.settings["base_url"], "slipway")
    routes: list[Any] = [(f"{base}/session", SessionHandler, service), (f"{base}/keep", KeepHandler, service)]
    routes += [(f"{base}/api/(.+)", RelayHandler, service), (f"{base}/events", EventsHandler, service)]
    routes += [(f"{base}/memory", MemoryHandler), (f"{base}/examples", ExamplesHandler)]
    app.web_app.add_handlers(".*$", routes)
    _memory.attend(app)
