"""The Hub's way to the service: asynchronous requests that never block the Hub and fail as SlipwayErrors."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx

from ._errors import InternalError, UnavailableError, from_body, from_status
from ._models import Event
from ._sse import Parser

# One pool per event loop, for all Spawners: a Hub that restarts asks for every server at once.
_pools: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncClient] = weakref.WeakKeyDictionary()
_TIMEOUT = httpx.Timeout(60.0, connect=5.0)


class AsyncService:
    """The service at one URL; ``token`` is asked for each request, so that it may change."""

    def __init__(self, url: str, token: Callable[[], str]) -> None:
        self._url = url.rstrip("/") + "/api/v1"
        self._token = token

    async def json(
        self, method: str, path: str, *, params: Mapping[str, str] | None = None, body: object = None
    ) -> dict[str, Any]:
        """Make a request whose answer is a JSON object."""
        try:
            doc = (await self.call(method, path, params=params, body=body)).json()
        except ValueError:
            doc = None
        if not isinstance(doc, dict):
            raise InternalError(f"{method} {path}: the answer is not a JSON object")
        return doc

    async def call(
        self, method: str, path: str, *, params: Mapping[str, str] | None = None, body: object = None
    ) -> httpx.Response:
        """Make a request and read its answer."""
        async with self._open(method, path, params=params, body=body) as response:
            await response.aread()
            return response

    async def events(self, path: str, params: Mapping[str, str]) -> AsyncIterator[Event]:
        """Follow a stream of events to its final one; a break is mended, the patience is the caller's."""
        last, seen = "", -1
        while True:
            try:
                async with self._open("GET", path, params=params, last=last) as response:
                    parser = Parser()
                    async for chunk in response.aiter_raw():
                        for raw in parser.feed(chunk):
                            doc = raw.json()
                            last = raw.id or last
                            event = Event.from_json(doc) if doc is not None else None
                            if event is None or event.seq <= seen:
                                continue
                            seen = event.seq
                            yield event
                            if event.final:
                                return
            except UnavailableError:
                pass
            await asyncio.sleep(0.3)

    @asynccontextmanager
    async def _open(
        self, method: str, path: str, *, params: Mapping[str, str] | None, body: object = None, last: str = ""
    ) -> AsyncIterator[httpx.Response]:
        headers = {"Authorization": f"Bearer {self._token()}", "Accept-Encoding": "identity"}
        if last:
            headers["Last-Event-ID"] = last
        try:
            async with _pool().stream(method, self._url + path, params=params, json=body, headers=headers) as response:
                if not response.is_success:
                    await response.aread()
                    raise _refusal(response, f"{method} {path}")
                yield response
        except httpx.InvalidURL as error:
            raise InternalError(f"{method} {path}: {error}") from error
        except httpx.HTTPError as error:
            raise UnavailableError(
                f"the Slipway service does not answer ({type(error).__name__}: {error})",
                remedy="try again in a minute; if it stays so, tell the site's administrators",
            ) from error


def _refusal(response: httpx.Response, what: str) -> Exception:
    try:
        error = from_body(response.json())
    except ValueError:
        error = None
    return error or from_status(response.status_code, what)


def _pool() -> httpx.AsyncClient:
    loop = asyncio.get_running_loop()
    if loop not in _pools:
        # No limit: 200 waits and as many polls at once are an ordinary Monday, and none may queue behind another.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=30)
        _pools[loop] = httpx.AsyncClient(limits=limits, timeout=_TIMEOUT, trust_env=False)
    return _pools[loop]
