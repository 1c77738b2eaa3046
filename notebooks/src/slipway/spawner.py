"""The Hub's side: a Spawner that asks the Slipway service and translates its answers, nothing else.

Everything that matters (which session runs, its log, its changes) lives in the service; this class
holds only the session's id and the id of its latest start (``launch``). So a Hub may be restarted at
any time, and so may the service.

What JupyterHub 5 and 6 ask for and is easy to get wrong:

- the reason of a failed start reaches the user only as a StartError (see there);
- state is stored after ``start`` has returned, so a server whose start a Hub's death has cut off is
  looked up by user and server name;
- a start may be canceled without a ``stop`` after it, see Launch.give_up;
- an exception out of ``stop`` makes the Hub forget the server, so stopping is retried in here;
- ``poll`` must not raise: at a Hub's start that would count as dead.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from jupyterhub.spawner import Spawner
from jupyterhub.utils import url_path_join
from traitlets import Any as AnyTrait
from traitlets import Integer, Unicode, default

from ._async import AsyncService
from ._decode import decode
from ._errors import SlipwayError, UnauthorizedError
from ._hub import (
    Launch,
    StartError,
    clean_options,
    failed_form,
    forget_options,
    progress_event,
    proven_options,
    remembered,
    settle_options,
    start_error,
)
from ._models import Session
from ._transport import part


class SlipwaySpawner(Spawner):
    """Start JupyterHub's single-user servers as Slipway sessions."""

    service_url = Unicode("http://127.0.0.1:8080", help="Where the Slipway service answers.").tag(config=True)
    session_url = Unicode(
        help="Where the Hub's proxy reaches the sessions, all on one port. Default: service_url."
    ).tag(config=True)
    token_file = Unicode(help="File with this Hub's spawner token; read anew for each request.").tag(config=True)
    token = Unicode(help="The spawner token itself; token_file is the better place for it.").tag(config=True)
    ca_file = Unicode(
        help="File of certificates, in PEM, that the service's own is checked against. Default: the system's."
    ).tag(config=True)
    stop_timeout = Integer(
        60, help="How long, in seconds, a stop outlasts an unreachable service before it is given up."
    ).tag(config=True)

    # Any value: JupyterHub 5 passes on the body of a request as it is, and start says what is wrong with it.
    user_options = AnyTrait({})

    session_id = ""
    launch = ""
    _launch: Launch | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._proven = proven_options(self)  # the Hub makes a Spawner with what it remembers

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
        return AsyncService(self.service_url, self._read_token, ca_file=self.ca_file)

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
        self.session_id, self.launch = "", uuid.uuid4().hex
        self._refuse_internal_ssl()
        try:
            request = self._request()
            self._launch = launch = Launch(self.service, request, self.start_timeout, self._warn)
            self.session_id = (await launch.ask()).id
            await launch.up()
            self._proven = proven_options(self)
        except SlipwayError as error:
            forget_options(self, self._proven, error)
            raise start_error(error) from error
        except StartError as error:
            forget_options(self, self._proven, error)
            raise
        except asyncio.CancelledError:
            launch.give_up()
            raise
        finally:
            self._launch = None
        return str(self.session_url)

    def _refuse_internal_ssl(self) -> None:
        if self.internal_ssl:
            raise StartError(
                424,
                "this Hub has internal_ssl, whose certificates Slipway does not bring into sessions",
                "an administrator must set JupyterHub.internal_ssl to False; SlipwaySpawner.ca_file, and an https "
                "address as service_url, keep the way to the service safe",
            )

    def _warn(self, text: str) -> None:
        self.log.warning("%s: %s", self._log_name, text)

    def _request(self) -> dict[str, Any]:
        return {
            "user": self.user.name,
            "server_name": self.name,
            "options": settle_options(self),
            "launch": self.launch,
            "prefix": self.server.base_url,
            "env": {key: str(value) for key, value in self.get_env().items() if value is not None},
            "argv": [*(self.cmd or []), *self.get_args()],
        }

    async def poll(self) -> int | None:
        """Give None while the session runs, starts, or cannot be asked: unknown is not dead."""
        if self._launch:
            return None
        try:
            session = await self._find()
        except SlipwayError as error:
            self._warn(f"cannot be asked for, taken as running: {error}")
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
        found = [decode(Session, item) for item in doc.get("sessions") or []]
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
                    await self._session("POST", f"/sessions/{part(session.id)}/stop", long=True)
            except SlipwayError as error:
                if error.code == "not_found":
                    return
                # Anything else is tried again, a refusal too: giving up makes the Hub forget the server.
                self._warn(f"stop: {error}")
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
        except Exception as error:  # noqa: BLE001 - the Hub would end the page's stream without a word
            self._warn(f"progress: {error}")

    async def _progress(self) -> AsyncIterator[dict[str, Any]]:
        told = ""
        while (launch := self._launch) and not launch.session:
            if launch.notice and launch.notice != told:
                told = launch.notice
                yield progress_event(told)
            await asyncio.sleep(0.1)
        if not self.session_id:
            return
        page = launch.session.page if launch and launch.session else ""
        path = f"/sessions/{part(self.session_id)}/events"
        # The launch keeps an earlier start's events apart from this one's.
        async for event in self.service.events(path, {"launch": self.launch}):
            if event.message:
                yield progress_event(event.message, event.percent, "" if event.final else page)

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

    async def rename(self, old_name: str, new_name: str) -> None:
        """Refuse another name (JupyterHub 6) for a server that has kept changes: they are kept under the old one."""
        try:
            doc = await self.service.json("GET", "/sessions", params={"user": self.user.name, "name": old_name})
        except SlipwayError as error:
            raise start_error(error) from error
        if doc.get("sessions"):
            raise StartError(
                409,
                f"the server {old_name} has kept changes, which another name would leave behind",
                "delete it with its changes, or start another one",
            )

    def _who(self) -> dict[str, str]:
        return {"user": self.user.name, "name": self.name}

    async def _session(self, method: str, path: str, **options: Any) -> Session:
        return decode(Session, await self.service.json(method, path, **options))


async def service_form(spawner: SlipwaySpawner) -> str:
    """Fetch the spawn form; when that fails, say so above an empty form, which starts the default profile."""
    try:
        params = {"user": spawner.user.name, "name": spawner.name, "options": remembered(spawner)}
        return (await spawner.service.call("GET", "/spawn-form", params=params)).text
    except SlipwayError as error:
        spawner._warn(f"spawn form: {error}")
        return failed_form(error)
