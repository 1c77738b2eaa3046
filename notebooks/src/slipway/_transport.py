"""How the client reaches the service and what it does when the service is away for a moment."""

from __future__ import annotations

import codecs
import hashlib
import io
import json
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

import httpx

from ._errors import InternalError, MissingError, SlipwayError, UnavailableError, from_body, from_status
from ._payload.values import LARGE

Content = bytes | IO[bytes]

_PIECE = 256 << 10
"""How many bytes are read and sent at once."""


def length(content: Content) -> int:
    """Count the bytes."""
    return len(content) if isinstance(content, bytes) else content.seek(0, io.SEEK_END)


def pieces(content: Content) -> Iterator[bytes]:
    """Give the bytes piece by piece, from the start."""
    file = io.BytesIO(content) if isinstance(content, bytes) else content
    file.seek(0)
    while piece := file.read(_PIECE):
        yield piece


def digest(content: Content) -> str:
    """Name the bytes."""
    file = io.BytesIO(content) if isinstance(content, bytes) else content
    file.seek(0)
    return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"  # type: ignore[arg-type]


def settled(file: IO[bytes]) -> Content:
    """Give a temporary file as bytes where these are few."""
    if length(file) > LARGE:
        return file
    file.seek(0)
    return file.read()


class Body:
    """A request's body that is read piece by piece, from the start in each try; ``told`` is told how much was sent."""

    def __init__(self, content: Content, told: Callable[[int], None] = lambda sent: None) -> None:
        self._content, self._told = content, told
        self.length = length(content)

    def __iter__(self) -> Iterator[bytes]:
        """Begin anew."""
        sent = 0
        for piece in pieces(self._content):
            yield piece
            sent += len(piece)
            self._told(sent)


@dataclass(frozen=True)
class ServerEvent:
    """One event of a stream; ``id`` is the last id that the stream has named."""

    event: str
    data: str
    id: str

    def json(self) -> dict[str, Any] | None:
        """Give the data as a JSON object; None when it is not one."""
        try:
            value = json.loads(self.data)
        except ValueError:
            return None
        return value if isinstance(value, dict) else None


class Parser:
    """Turn chunks of a text/event-stream, cut anywhere, into events.

    Comments and unknown fields are dropped, an event without data too, and an event that the stream's
    end has cut off is never given.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
        self._rest = ""
        self._event = ""
        self._data: list[str] = []
        self._id = ""

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """Take a chunk and give the events that it completes."""
        text = self._rest + self._decoder.decode(chunk)
        # A lone CR at the end may be the first half of a CRLF: leave it for the next chunk.
        held = "\r" if text.endswith("\r") else ""
        text = text[: len(text) - len(held)].replace("\r\n", "\n").replace("\r", "\n")
        *lines, rest = text.split("\n")
        self._rest = rest + held
        return [event for line in lines if (event := self._line(line)) is not None]

    def _line(self, line: str) -> ServerEvent | None:
        if not line:
            return self._dispatch()
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
        elif field == "event":
            self._event = value
        elif field == "id" and "\0" not in value:
            self._id = value
        return None

    def _dispatch(self) -> ServerEvent | None:
        event, data = self._event, self._data
        self._event, self._data = "", []
        return ServerEvent(event or "message", "\n".join(data), self._id) if data else None


SOCKET = "/run/slipway/api.sock"
PATIENCE = 60.0
"""How long, in seconds, a request that can be repeated outlasts an unreachable service."""

_UPLOAD = httpx.Timeout(600.0, connect=5.0)
"""What has been sent has to come to the service's disk before it answers."""
_TIMEOUT = httpx.Timeout(60.0, connect=5.0)


@dataclass(frozen=True)
class Target:
    """Where the service is: a unix socket (then no token is needed), or a URL with a token."""

    socket: str = ""
    url: str = ""
    token: str = ""

    def __repr__(self) -> str:
        """Name the place, never the token."""
        return f"Target({self.socket or self.url!r})"


def find_target(env: Mapping[str, str] = os.environ, default_socket: str = SOCKET) -> Target:
    """Find the service as the environment names it: a session's socket first, then URL and token."""
    if socket := env.get("SLIPWAY_SOCKET"):
        return Target(socket=socket)
    if os.path.exists(default_socket):
        return Target(socket=default_socket)
    url, token = env.get("SLIPWAY_URL", ""), env.get("SLIPWAY_TOKEN", "")
    if url and not token and (path := env.get("SLIPWAY_TOKEN_FILE")):
        token = Path(path).read_text().strip()
    if url and token:
        return Target(url=url.rstrip("/"), token=token)
    lacking = "SLIPWAY_TOKEN is not set" if url else "SLIPWAY_URL and SLIPWAY_TOKEN are not set"
    raise MissingError(
        f"this is not a Slipway session (there is no {default_socket}) and {lacking}",
        remedy="set SLIPWAY_URL to the service's address and SLIPWAY_TOKEN (or SLIPWAY_TOKEN_FILE) to a token "
        "of your Hub with the scope access:services!service=slipway",
    )


def say(text: str) -> None:
    """Tell the user something on the error stream; the default of everything that reports."""
    print(text, file=sys.stderr, flush=True)


class Outage:
    """Whether the service is away: told when that begins and when it is over, once for all that wait for it."""

    def __init__(self, notice: Callable[[str], None]) -> None:
        self.notice = notice
        self._since: float | None = None  # when it was found to be away
        self._turn = threading.Lock()

    def begin(self, text: str) -> None:
        """Note that the service does not answer."""
        with self._turn:
            known, self._since = self._since is not None, self._since or time.monotonic()
        if not known:
            self.notice(text)

    def end(self, asked: float) -> None:
        """Note that it answers what it was asked at a time: an answer from before the outage does not end it."""
        with self._turn:
            known = self._since is not None and asked >= self._since
            if known:
                self._since = None
        if known:
            self.notice("slipway: the service answers again")


class Patience:
    """Decide whether to try again: yes for ``limit`` seconds since the last sign of life, backing off."""

    def __init__(self, limit: float, notice: Callable[[str], None] = say) -> None:
        self._limit = limit
        self._notice = notice
        self.reset()

    def reset(self) -> None:
        """Note a sign of life."""
        self._since: float | None = None
        self._pause = 0.1

    def again(self, error: SlipwayError, *, told: bool = True) -> None:
        """Wait a little, or raise error when the patience is at its end; what is not ``told`` is nothing to report."""
        now = time.monotonic()
        if self._since is None:
            self._since = now
        if self._limit > 0 and told:
            limit = f"{self._limit / 60:.0f} min" if self._limit > 100 else f"{self._limit:.0f} s"
            self._notice(f"slipway: {error.message.partition(' (')[0]}; trying again for up to {limit}")
        if now - self._since + self._pause > self._limit:
            raise error
        time.sleep(self._pause)
        self._pause = min(self._pause * 2, 2.0)


class Transport:
    """HTTP to one service. One object may be used by several threads."""

    def __init__(
        self,
        target: Target,
        *,
        patience: float = PATIENCE,
        notice: Callable[[str], None] = say,
    ) -> None:
        self.target = target
        self._closed = False
        self._limit = patience
        self._outage = Outage(notice)
        headers = {"Accept-Encoding": "identity"}
        if target.socket:
            transport = httpx.HTTPTransport(uds=target.socket, verify=False)
            self._http = httpx.Client(transport=transport, base_url="http://slipway", headers=headers, timeout=_TIMEOUT)
        else:
            headers["Authorization"] = f"Bearer {target.token}"
            tls = target.url.lower().startswith("https:")  # without, there is nothing to load certificates for
            self._http = httpx.Client(base_url=target.url, headers=headers, timeout=_TIMEOUT, verify=tls)
        weakref.finalize(self, self._http.close)  # a job that a notebook forgets leaves no socket open

    def close(self) -> None:
        """Close all connections; a stream that another thread reads ends there, with an error."""
        self._closed = True
        self._http.close()

    def patience(self) -> Patience:
        """Give a fresh patience for one request or stream."""
        return Patience(self._limit, self._outage.begin)

    def outlast(self, patience: float, notice: Callable[[str], None]) -> None:
        """Bear another time without the service from now on, and tell another of it."""
        self._limit, self._outage.notice = patience, notice

    def call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: object = None,
        content: Body | None = None,
        repeat: bool = True,
    ) -> httpx.Response:
        """Make a request; repeat it while the service is away, unless ``repeat`` is false."""
        patience = self.patience() if repeat else Patience(0)
        while True:
            try:
                with self.open(method, path, params=params, body=body, content=content) as response:
                    response.read()
                    return response
            except UnavailableError as error:
                patience.again(error)

    def json(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        """Make a request whose answer is a JSON object."""
        response = self.call(method, path, **options)
        try:
            doc = response.json()
        except ValueError:
            doc = None
        if not isinstance(doc, dict):
            raise InternalError(f"{method} {path}: the answer is not a JSON object", remedy=_WRONG_PEER)
        return doc

    @contextmanager
    def open(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: object = None,
        content: Body | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Iterator[httpx.Response]:
        """Open one answer for reading; every failure comes out as a SlipwayError."""
        what, asked = f"{method} {path}", time.monotonic()
        try:
            sent: dict[str, Any] = {"json": body, "headers": headers}
            if content is not None:
                length = {"Content-Length": str(content.length)}
                sent = {"content": content, "headers": {**(headers or {}), **length}, "timeout": _UPLOAD}
            with self._http.stream(method, "/api/v1" + path, params=params, **sent) as response:
                if not response.is_success:
                    raise _refusal(response, what)
                self._outage.end(asked)
                yield response
        except httpx.InvalidURL as error:
            raise InternalError(f"{what}: {error}") from error
        except (httpx.HTTPError, RuntimeError) as error:
            if self._closed:
                raise SlipwayError("the client is closed", code="closed") from error
            if isinstance(error, RuntimeError):
                raise
            raise UnavailableError(
                f"the Slipway service at {self.target.socket or self.target.url} does not answer "
                f"({type(error).__name__}: {error})"
            ) from error

    def events(
        self,
        path: str,
        params: Mapping[str, Any] | None = None,
        *,
        wanted: Callable[[], bool] = lambda: True,
        over: Callable[[], bool] = lambda: False,
    ) -> Iterator[ServerEvent]:
        """Follow a stream of events while it is ``wanted``, going on after a break from the last one seen.

        A stream that has ended as it should is asked for again unless it is ``over``.
        """
        patience, last = self.patience(), ""
        while True:
            headers = {"Last-Event-ID": last} if last else {}
            try:
                with self.open("GET", path, params=params, headers=headers) as response:
                    parser = Parser()
                    for chunk in response.iter_raw():  # each heartbeat is one
                        if not wanted():
                            return
                        for event in parser.feed(chunk):
                            patience.reset()
                            last = event.id or last
                            yield event
                if not wanted() or over():
                    return
                patience.again(UnavailableError(f"{path}: the stream has ended before its last event"), told=False)
            except UnavailableError as error:
                if not wanted():
                    return
                patience.again(error)


_WRONG_PEER = "check that SLIPWAY_URL is the address of a Slipway service"


def read_events(response: httpx.Response) -> Iterator[ServerEvent]:
    """Read the events of one answer."""
    parser = Parser()
    for chunk in response.iter_raw():
        yield from parser.feed(chunk)


def part(text: str) -> str:
    """Escape text as one segment of a path."""
    return quote(text, safe=":")


def _refusal(response: httpx.Response, what: str) -> SlipwayError:
    try:
        response.read()
        error = from_body(response.json())
    except (ValueError, httpx.HTTPError):
        error = None
    return error or from_status(response.status_code, what)
