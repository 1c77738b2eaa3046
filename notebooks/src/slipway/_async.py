"""The Hub's and Jupyter Server's way to the service: requests that never block them and fail as SlipwayErrors."""

from __future__ import annotations

import asyncio
import ssl
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from ._decode import decode
from ._errors import InternalError, InvalidError, UnavailableError, from_body, from_status
from ._models import Event
from ._transport import Parser, ServerEvent

BRISK = 20
"""How many requests that are answered at once are under way together; more of them stand in line."""

_TIMEOUT = httpx.Timeout(60.0, connect=5.0)
_BRISK_TIMEOUT = httpx.Timeout(20.0, connect=5.0)
_LINE = 60.0  # how long, in seconds, a request stands in line at most


@dataclass
class _Pool:
    http: httpx.AsyncClient
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(BRISK))


# One pool per event loop and service, for all Spawners: a Hub that restarts asks for every server at once.
_pools: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, str], _Pool]] = weakref.WeakKeyDictionary()


class AsyncService:
    """The service at one URL; ``token`` is asked for each request, so that it may change.

    ``ca_file`` is what the service's certificate is checked against, instead of the system's
    authorities. ``socket`` is a session's way to the service: it needs no token.
    """

    def __init__(
        self, url: str, token: Callable[[], str] | None = None, *, ca_file: str = "", socket: str = ""
    ) -> None:
        self._url = url.rstrip("/") + "/api/v1"
        self._token = token
        self._place = (ca_file, socket)

    async def json(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: object = None,
        long: bool = False,
    ) -> dict[str, Any]:
        """Make a request whose answer is a JSON object."""
        try:
            doc = (await self.call(method, path, params=params, body=body, long=long)).json()
        except ValueError:
            doc = None
        if not isinstance(doc, dict):
            raise InternalError(f"{method} {path}: the answer is not a JSON object")
        return doc

    async def call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: object = None,
        long: bool = False,
    ) -> httpx.Response:
        """Make a request and read its answer; ``long`` is one that the service answers when it can."""
        async with self._turn(long), self._open(method, path, params=params, body=body, long=long) as response:
            await response.aread()
            return response

    @asynccontextmanager
    async def _turn(self, long: bool) -> AsyncIterator[None]:
        """Wait for one of the few slots. What is long has none: nothing may queue behind it."""
        if long:
            yield
            return
        slots = _pool(*self._place).slots
        try:
            await asyncio.wait_for(slots.acquire(), _LINE)
        except TimeoutError:
            raise UnavailableError(f"{BRISK} requests before this one are still unanswered") from None
        try:
            yield
        finally:
            slots.release()

    async def events(self, path: str, params: Mapping[str, str]) -> AsyncIterator[Event]:
        """Follow a stream of events to its final one; a break is mended, the patience is the caller's."""
        last, seen = "", -1
        while True:
            try:
                async with aclosing(self.stream("GET", path, params=params, last=last)) as stream:
                    async for raw in stream:
                        doc = raw.json()
                        last = raw.id or last
                        event = decode(Event, doc) if doc is not None else None
                        if event is None or event.seq <= seen:
                            continue
                        seen = event.seq
                        yield event
                        if event.final:
                            return
            except UnavailableError:
                pass
            await asyncio.sleep(0.3)

    async def stream(
        self, method: str, path: str, *, params: Mapping[str, str] | None = None, body: object = None, last: str = ""
    ) -> AsyncGenerator[ServerEvent]:
        """Read the events of one answer as they come; ``last`` is the id of the last one that the reader has."""
        async with self._open(method, path, params=params, body=body, last=last) as response:
            parser = Parser()
            async for chunk in response.aiter_raw():
                for event in parser.feed(chunk):
                    yield event

    @asynccontextmanager
    async def _open(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None,
        body: object = None,
        last: str = "",
        long: bool = True,
    ) -> AsyncIterator[httpx.Response]:
        headers = {"Accept-Encoding": "identity"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token()}"
        if last:
            headers["Last-Event-ID"] = last
        http = _pool(*self._place).http
        try:
            request = http.build_request(
                method,
                self._url + path,
                params=params,
                json=body,
                headers=headers,
                timeout=_TIMEOUT if long else _BRISK_TIMEOUT,
            )
        except (httpx.InvalidURL, ValueError) as error:  # such as a NaN or half a character among the options
            raise InvalidError(f"{method} {path}: it cannot be sent: {error}") from error
        try:
            response = await http.send(request, stream=True)
            try:
                if not response.is_success:
                    await response.aread()
                    raise _refusal(response, f"{method} {path}")
                yield response
            finally:
                await response.aclose()
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


def _pool(ca_file: str, socket: str) -> _Pool:
    pools = _pools.setdefault(asyncio.get_running_loop(), {})
    if (ca_file, socket) not in pools:
        transport = httpx.AsyncHTTPTransport(
            uds=socket or None,
            verify=_trust(ca_file),
            trust_env=False,
            # No limit here: 200 waits at once are an ordinary Monday. What is brisk has its slots.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=30),
        )
        pools[ca_file, socket] = _Pool(httpx.AsyncClient(transport=transport, trust_env=False))
    return pools[ca_file, socket]


def _trust(ca_file: str) -> ssl.SSLContext | bool:
    try:
        return ssl.create_default_context(cafile=ca_file) if ca_file else True
    except OSError as error:
        raise InvalidError(
            f"ca_file {ca_file}: {error.strerror or error}",
            field="ca_file",
            remedy="an administrator must name a readable file of certificates, in PEM",
        ) from error
