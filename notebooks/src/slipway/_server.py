"""Jupyter Server's part in a session: what JupyterLab asks the service for, through the session's own socket.

The service knows the session by its socket, so nothing here holds a token, and a user reaches her own
session alone. Outside a session there is nothing to serve, and nothing is said about it.
"""

from __future__ import annotations

import inspect
import os
import shutil
from datetime import UTC, datetime
from typing import Any

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from jupyter_server.utils import url_path_join
from tornado import web

from . import _memory
from ._async import AsyncService
from ._errors import SlipwayError
from ._transport import SOCKET

OWN_KERNEL = "Python 3 (this session)"
"""What launchers call the session's own Python: the service's kernels beside it run on another slice."""

_STOCK = "Python 3 (ipykernel)"


class _Handler(APIHandler):
    auth_resource = "slipway"

    def initialize(self, service: AsyncService) -> None:
        self._service = service

    async def relay(self, method: str, path: str, body: object = None) -> None:
        try:
            doc = await self._service.json(method, path, body=body)
            doc["now"] = datetime.now(UTC).isoformat()  # a browser's clock may be wrong
            doc["vscode"] = shutil.which("code-server") is not None  # the agent starts it, at vscode/
        except SlipwayError as error:
            self.set_status(error.status)
            doc = {"message": error.message, "remedy": error.remedy}
        self.finish(doc)


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
    routes.append((f"{base}/memory", MemoryHandler))
    app.web_app.add_handlers(".*$", routes)
    _memory.attend(app)
