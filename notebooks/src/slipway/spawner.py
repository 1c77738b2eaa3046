"""The Hub's side: a Spawner that asks the Slipway service and translates its answers, nothing else.

Everything that matters (which session runs, its log, its changes) lives in the service; this class
holds only the session's id and the id of its latest start (``launch``). So a Hub may be restarted at
any time, and so may the service.

What JupyterHub 6.1 asks for and is easy to get wrong:

- the reason of a failed start reaches the user only as a StartError (see there);
- state is stored after ``start`` has returned, so a server whose start a Hub's death has cut off is
  looked up by user and server name;
- an exception out of ``stop`` makes the Hub forget the server, so stopping is retried in here;
- ``poll`` must not raise: at a Hub's start that would count as dead.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from jupyterhub.spawner import Spawner
from jupyterhub.utils import url_path_join
from traitlets import Integer, Unicode, default

from ._async import AsyncService
from ._errors import SlipwayError, UnauthorizedError, UnavailableError
from ._hub import StartError, clean_options, failed_form, forget_fresh
from ._models import Outcome, Session
from ._transport import part


class SlipwaySpawner(Spawner):
    """Start JupyterHub's single-user servers as Slipway sessions."""

    service_url = Unicode("http://127.0.0.1:8080", help="Where the Slipway service answers.").tag(config=True)
    session_url = Unicode(
        help="Where the Hub's proxy reaches the sessions, all on one port. Default: service_url."
    ).tag(config=True)
    token_file = Unicode(help="File with this Hub's spawner token; read anew for each request.").tag(config=True)
    token = Unicode(help="The spawner token itself; token_file is the better place for it.").tag(config=True)
    stop_timeout = Integer(
        60, help="How long, in seconds, a stop outlasts an unreachable service before it is given up."
    ).tag(config=True)

    session_id = ""
    launch = ""
    _starting = False
    _notice = ""

    @default("start_timeout")
    def _default_start_timeout(self) -> int:
        return 300

    @default("ip")
    def _default_ip(self) -> str:
        return "127.0.0.1"

    @default("port")
    def _default_port(self) -> int:
        return 8888  # with ip, what the app is told to bind; the agent puts the real port there

    @default("env_keep")
    def _default_env_keep(self) -> list[str]:
        return []  # a session's PATH and language are its image's, not those of the Hub's process

    @default("session_url")
    def _default_session_url(self) -> str:
        return str(self.service_url)

    @default("options_form")
    def _default_options_form(self) -> Callable[[Spawner], Awaitable[str]]:
        return service_form

    @default("options_from_form")
    def _default_options_from_form(self) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
        return clean_options

    @default("apply_user_options")
    def _default_apply_user_options(self) -> Callable[..., None]:
        return lambda spawner, options: None  # the service applies them; without a hook the Hub warns

    @property
    def service(self) -> AsyncService:
        """The service, spoken to with this Hub's token."""
        return AsyncService(self.service_url, self._read_token)

    def _read_token(self) -> str:
        try:
            token = Path(self.token_file).read_text().strip() if self.token_file else self.token
        except OSError as error:
            self.log.warning("SlipwaySpawner.token_file %s: %s", self.token_file, error.strerror)
            token = ""
        if not token:
            raise UnauthorizedError(
                "the Hub has no token for the Slipway service",
                remedy="an administrator must set SlipwaySpawner.token_file to a readable file",
            )
        return str(token)

    async def start(self) -> str:
        """Ask for the session and wait until it runs; the service may restart meanwhile."""
        self.session_id, self.launch, self._notice, self._starting = "", uuid.uuid4().hex, "", True
        # A little less than the Hub's own patience: our error says what it was waiting for.
        deadline = time.monotonic() + max(self.start_timeout * 0.95 - 1, 1)
        try:
            request = self._request()
            forget_fresh(self)
            ask = partial(self._patiently, deadline, lambda: self._session("POST", "/sessions", body=request))
            session = await ask()
            self.session_id = session.id
            while session.phase != "running":
                self._check_start(session, deadline)
                try:
                    session = await self._wait()
                except UnavailableError:  # a restarted service has lost the secrets: it waits for the same request
                    session = await ask()
        except SlipwayError as error:
            raise StartError(error.status, error.message, error.remedy) from error
        finally:
            self._starting = False
        return str(self.session_url)

    def _request(self) -> dict[str, Any]:
        return {
            "user": self.user.name,
            "server_name": self.name,
            "options": clean_options(self.user_options or {}),
            "launch": self.launch,
            "prefix": self.server.base_url,
            "env": {key: str(value) for key, value in self.get_env().items() if value is not None},
            "argv": [*(self.cmd or []), *self.get_args()],
        }

    async def _wait(self) -> Session:
        return await self._session("GET", f"/sessions/{part(self.session_id)}/wait", params={"launch": self.launch})

    def _check_start(self, session: Session, deadline: float) -> None:
        if session.ended:
            outcome = session.outcome or Outcome(reason="it was stopped while it started")
            reason = outcome.reason or f"the server ended with exit code {outcome.exit_code}"
            # Not a 5xx: those count against the Hub's consecutive_failure_limit, which ends the Hub.
            raise StartError(424, reason, outcome.remedy, outcome.tail)
        if session.launch not in ("", self.launch):
            raise StartError(409, "another start of this server has taken this one's place", "reload the page")
        if time.monotonic() > deadline:
            raise StartError(
                504,
                f"the server was still {session.phase} after {self.start_timeout} s"
                + (f": {session.waiting}" if session.waiting else ""),
                "try again, or choose smaller options",
            )

    async def _patiently(self, deadline: float, request: Callable[[], Awaitable[Session]]) -> Session:
        """Repeat a request, which must bear it, while the service does not answer."""
        pause = 0.2
        while True:
            begun = time.monotonic()
            try:
                session = await request()
            except UnavailableError as error:
                if time.monotonic() + pause > deadline:
                    raise
                self._notice = f"{error.message}; trying again"
                self.log.warning("%s: %s", self._log_name, self._notice)
            else:
                self._notice = ""
                # The wait is a long poll; one that answers at once and says nothing new must not spin.
                if session.phase != "running" and time.monotonic() - begun < 0.1:
                    await asyncio.sleep(0.1)
                return session
            await asyncio.sleep(pause)
            pause = min(pause * 2, 3.0)

    async def poll(self) -> int | None:
        """Give None while the session runs, starts, or cannot be asked: unknown is not dead."""
        if self._starting:
            return None
        try:
            session = await self._find()
        except SlipwayError as error:
            self.log.warning("%s: cannot be asked for, taken as running: %s", self._log_name, error)
            return None
        if session is None:
            return 0
        if not session.ended:
            return None
        code = session.outcome.exit_code if session.outcome else None
        return code or 0

    async def _find(self) -> Session | None:
        """Find this server's session; by its name when a Hub's death during the start lost its id."""
        if self.session_id:
            try:
                return await self._session("GET", f"/sessions/{part(self.session_id)}")
            except SlipwayError as error:
                if error.code == "not_found":
                    return None
                raise
        doc = await self.service.json("GET", "/sessions", params=self._who())
        found = [Session.from_json(item) for item in doc.get("sessions") or []]
        session = next((item for item in found if not item.ended), found[-1] if found else None)
        if session is not None:
            self.session_id, self.launch = session.id, session.launch
        return session

    async def stop(self, now: bool = False) -> None:
        """Stop the session and return when it is gone; what is gone already is stopped."""
        deadline, pause = time.monotonic() + self.stop_timeout, 0.2
        while True:
            try:
                session = await self._find()
                if session is not None and not session.ended:
                    await self._session("POST", f"/sessions/{part(session.id)}/stop")
            except SlipwayError as error:
                if error.code == "not_found":
                    return
                # Anything else is tried again, a refusal too: giving up makes the Hub forget the server.
                self.log.warning("%s: stop: %s", self._log_name, error)
                if time.monotonic() + pause > deadline:
                    raise
            else:
                return
            await asyncio.sleep(pause)
            pause = min(pause * 2, 5.0)

    async def progress(self) -> AsyncIterator[dict[str, Any]]:
        """Give the steps of this start. It never raises: the reason of a failure comes from ``start``."""
        try:
            async for event in self._progress():
                yield event
        except SlipwayError as error:
            self.log.warning("%s: progress: %s", self._log_name, error)

    async def _progress(self) -> AsyncIterator[dict[str, Any]]:
        told = ""
        while self._starting and not self.session_id:
            if self._notice and self._notice != told:
                told = self._notice
                yield {"message": told}
            await asyncio.sleep(0.1)
        if not self.session_id:
            return
        path = f"/sessions/{part(self.session_id)}/events"
        # The launch keeps an earlier start's events apart from this one's.
        async for event in self.service.events(path, {"launch": self.launch}):
            if event.message:
                known = {"progress": min(int(event.percent), 99)} if event.percent >= 0 else {}
                yield {**known, "message": event.message}

    async def get_url(self) -> str:
        """Give the server's URL; the Hub asks after a restart and compares it with what it has stored."""
        return str(url_path_join(self.session_url, self.server.base_url if self.server else "/"))

    def get_state(self) -> dict[str, Any]:
        """Keep the session's id and its launch in the Hub's database."""
        state: dict[str, Any] = super().get_state()
        if self.session_id:
            state.update(session_id=self.session_id, launch=self.launch)
        return state

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take back what get_state gave, after a restart of the Hub."""
        super().load_state(state)
        self.session_id, self.launch = str(state.get("session_id", "")), str(state.get("launch", ""))

    def clear_state(self) -> None:
        """Forget the session; the service keeps its changes for the next start."""
        super().clear_state()
        self.session_id, self.launch = "", ""

    async def delete_forever(self) -> None:
        """Discard the changes that the service has kept for this server: its user or name is being deleted."""
        await self.service.call("DELETE", "/sessions", params=self._who())

    def _who(self) -> dict[str, str]:
        return {"user": self.user.name, "name": self.name}

    async def _session(self, method: str, path: str, **options: Any) -> Session:
        return Session.from_json(await self.service.json(method, path, **options))


async def service_form(spawner: SlipwaySpawner) -> str:
    """Fetch the spawn form; when that fails, say so above an empty form, which starts the default profile."""
    try:
        return (await spawner.service.call("GET", "/spawn-form", params={"user": spawner.user.name})).text
    except SlipwayError as error:
        spawner.log.warning("%s: spawn form: %s", spawner._log_name, error)
        return failed_form(error)
