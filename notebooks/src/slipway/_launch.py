"""One start of a server: asked for until it was answered, then waited for; given up, its session is stopped.

Once the service has answered, the start is the service's: it outlasts a restart there, and only the
wait for it is repeated here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

from ._async import AsyncService
from ._errors import SlipwayError, UnavailableError
from ._hub import StartError
from ._models import Session
from ._outcome import Outcome
from ._transport import part

GRACE = 1.0
"""A Hub that ends cancels its starts as well, and those are to go on: by then its event loop is gone."""
_TRIES = 60

_left: set[asyncio.Task[None]] = set()


class Launch:
    """A start that is under way; ``notice`` says why it does not go on now, ``session`` is what it has come to."""

    def __init__(
        self, service: AsyncService, request: dict[str, Any], timeout: float, log: Callable[[str], object]
    ) -> None:
        self._service = service
        self._request = request
        self._timeout = timeout
        # A little less than the Hub's own patience: our error says what it was waiting for.
        self._deadline = time.monotonic() + max(timeout * 0.95 - 1, 1)
        self._log = log
        self._asked: asyncio.Task[dict[str, Any]] | None = None
        self.session: Session | None = None
        self.notice = ""

    async def ask(self) -> Session:
        """Ask for the session, until there is an answer: the service knows a repeated request by its launch."""
        self.session = await self._patiently(self._ask)
        return self.session

    async def _ask(self) -> Session:
        # A task of its own, so that a start that is given up while this is under way still gets to know its session.
        self._asked = asyncio.create_task(self._service.json("POST", "/sessions", body=self._request))
        await asyncio.wait([self._asked])
        return Session.from_json(self._asked.result())

    async def up(self) -> None:
        """Wait until the session runs; the service may restart meanwhile."""
        while self.session and self.session.phase != "running":
            self._check(self.session)
            self.session = await self._patiently(partial(self._wait, self.session.id))

    async def _wait(self, id: str) -> Session:  # noqa: A002
        path, params = f"/sessions/{part(id)}/wait", {"launch": self._request["launch"]}
        begun = time.monotonic()
        session = Session.from_json(await self._service.json("GET", path, params=params, long=True))
        # It is a long poll; one that answers at once and says nothing new must not spin.
        if session.phase != "running" and time.monotonic() - begun < 0.1:
            await asyncio.sleep(0.1)
        return session

    def _check(self, session: Session) -> None:
        if session.ended:
            raise _end(session.outcome or Outcome(canceled=True))
        if session.launch not in ("", self._request["launch"]):
            raise StartError(409, "another start of this server has taken this one's place", "reload the page")
        if time.monotonic() > self._deadline:
            waiting = f": {session.waiting}" if session.waiting else ""
            raise StartError(
                424,
                f"the server was still {session.phase} after {self._timeout} s{waiting}",
                "try again, or choose smaller options",
            )

    async def _patiently(self, request: Callable[[], Awaitable[Session]]) -> Session:
        """Repeat a request, which must bear it, while the service does not answer."""
        pause = 0.2
        while True:
            try:
                session = await request()
            except UnavailableError as error:
                if time.monotonic() + pause > self._deadline:
                    raise
                self.notice = f"{error.message}; trying again"
                self._log(self.notice)
            else:
                self.notice = ""
                return session
            await asyncio.sleep(pause)
            pause = min(pause * 2, 3.0)

    def give_up(self) -> None:
        """See to it that the session is stopped, whatever the Hub does next; returns at once."""
        leave(self._stop())

    async def _stop(self) -> None:
        await asyncio.sleep(GRACE)
        for _ in range(_TRIES):
            try:
                if id := await self._mine():  # noqa: A001
                    await self._service.call("POST", f"/sessions/{part(id)}/stop", params={"wait": "no"}, long=True)
            except SlipwayError as error:
                self._log(f"the start was given up, its session cannot be stopped yet: {error}")
            else:
                return
            await asyncio.sleep(GRACE)

    async def _mine(self) -> str:
        """Find this very start's session: meanwhile there may be another start of the same server."""
        if self._asked is not None:
            await asyncio.wait([self._asked])
            if not self._asked.cancelled():
                self._asked.exception()  # seen; what counts is what the service knows
        who = {"user": self._request["user"], "name": self._request["server_name"]}
        doc = await self._service.json("GET", "/sessions", params=who)
        found = [Session.from_json(item) for item in doc.get("sessions") or []]
        return next((s.id for s in found if s.launch == self._request["launch"] and not s.ended), "")


def _end(outcome: Outcome) -> StartError:
    # None of these is a 5xx, see start_error.
    if outcome.canceled:
        return StartError(409, "this start was canceled", "what the session had kept is still kept; start it again")
    reason = outcome.reason or f"the server ended with exit code {outcome.exit_code}"
    return StartError(424, reason, outcome.remedy, outcome.tail)


def leave(work: Coroutine[Any, Any, None]) -> None:
    """Do something that nobody waits for; without a reference the event loop could lose it."""
    task = asyncio.create_task(work)
    _left.add(task)
    task.add_done_callback(_left.discard)
