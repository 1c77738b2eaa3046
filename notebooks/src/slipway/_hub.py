"""What the Spawner shows to the Hub's users, what it makes of what they choose, and how it waits for a start."""

from __future__ import annotations

import asyncio
import html
import json
import re
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any

from tornado import web

from ._async import AsyncService
from ._decode import decode
from ._errors import InvalidError, SlipwayError, UnavailableError
from ._models import Outcome, Session
from ._transport import part

_REMEMBERED = 2000  # bytes of options that travel with the request for a form
_PATH = re.compile(r"/([^/\\].*)?", re.DOTALL)  # of this host: not //elsewhere


class _Text(str):
    """Plain text for programs; the Hub's templates, which ask for ``__html__``, get its markup.

    The form's page shows the plain message where there is one, and would join the lines of a log.
    """

    __slots__ = ("markup",)
    markup: str

    def __html__(self) -> str:
        return self.markup


def _sentence(remedy: str) -> str:
    """Make a sentence of what to do next."""
    remedy = remedy.strip().rstrip(".")
    return f"{remedy[0].upper()}{remedy[1:]}." if remedy else ""


def _markup(words: str) -> str:
    """Escape words; what stands between backticks is code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(words))


class StartError(web.HTTPError):
    """A start that failed, as the Hub's pages and its API show it.

    It must be an HTTPError: of any other exception within the first second the Hub shows a fixed text.
    Pages take ``jupyterhub_html_message`` where they have room for it, else ``jupyterhub_message``.
    """

    def __init__(self, status: int, message: str, remedy: str = "", tail: str = "") -> None:
        remedy = _sentence(remedy)
        text = f"{message.rstrip('.')}. {remedy}" if remedy else message
        super().__init__(status, text)
        last = "\n".join(tail.rstrip().splitlines()[-40:])
        self.jupyterhub_message = _Text(f"{text}\nThe end of its log:\n{last}" if last else text)
        shown = f"<strong>{_markup(message)}</strong>"
        if remedy:
            shown += f"<br>{_markup(remedy)}"
        if last:
            # Not a <pre>: the Hub's pages put this into a <p>, which a <pre> would end.
            style = "display: block; white-space: pre-wrap; max-height: 24em; overflow: auto"
            shown += f'<code class="text-start" style="{style}">{html.escape(last)}</code>'
        self.jupyterhub_html_message = self.jupyterhub_message.markup = shown

    def __str__(self) -> str:
        """Give what the Hub logs."""
        return self.jupyterhub_message


def start_error(error: SlipwayError) -> StartError:
    """Make a refusal, or a service that cannot be asked, the failure of a start.

    Never a 5xx: since JupyterHub 6 those alone count against its consecutive_failure_limit, and a Hub that
    ends itself helps nobody here. Nor 401: it is not the caller's token that is wrong. Nor 404: the Hub knows
    the server, and what is not there is something that its options name.
    """
    status = {401: 424, 404: 422}.get(error.status, error.status)
    return StartError(status if 400 <= status < 500 else 424, error.message, error.remedy)


def progress_event(message: str, percent: float = -1, page: str = "") -> dict[str, Any]:
    """Make a step of a start, with a link to the session's own page where there is one."""
    event: dict[str, Any] = {"message": message}
    if percent >= 0:
        event["progress"] = min(int(percent), 99)
    if _PATH.fullmatch(page):
        link = f'<a href="{html.escape(page)}" target="_blank" rel="noopener">cancel or watch this start</a>'
        event["html_message"] = f"{html.escape(message)} &middot; {link}"
    return event


def failed_form(reason: object) -> str:
    """Make a form that says why it is empty; submitted as it is, it starts the default profile."""
    return (
        '<div class="alert alert-warning">The choices cannot be shown now: '
        f"{html.escape(str(reason))}<br>You can start the default profile, or reload this page.</div>"
    )


def settle_options(spawner: Any) -> dict[str, Any]:
    """Give this start's options, and leave in the Hub those that a later start without any takes again.

    ``fresh`` acts once.
    """
    given = spawner.user_options
    options = given_options(given)
    kept = {key: value for key, value in options.items() if key != "fresh"}
    if kept != given:
        _keep(spawner, kept)
    return options


def proven_options(spawner: Any) -> dict[str, Any]:
    """Give the options that the Hub remembers, of the last start that came up; what are none are forgotten."""
    try:
        return given_options(spawner.user_options)
    except InvalidError:
        return {}


def forget_options(spawner: Any, proven: dict[str, Any], error: Exception) -> None:
    """Remember those of the last start that came up instead of this one's, which did not.

    Else a start without any would fail like the one before. What is not right any more is forgotten as
    well; whoever could not be asked has judged nothing.
    """
    if isinstance(error, UnavailableError):
        return
    outdated = getattr(error, "code", "") in ("invalid", "not_found")
    _keep(spawner, {} if outdated and spawner.user_options == proven else proven)


def _keep(spawner: Any, options: dict[str, Any]) -> None:
    spawner.user_options = options
    if spawner.orm_spawner:
        spawner.orm_spawner.user_options = dict(options)
        spawner.db.commit()  # before the request goes out: the Hub may die while the server starts


def given_options(given: object) -> dict[str, Any]:
    """Take the options of a request as JupyterHub 5 or 6 gives them.

    A Hub of release 5 passes on the body of a request whatever it is, also one that is written for
    release 6, which has the options under ``user_options``.
    """
    if given is None:
        return {}
    if isinstance(given, Mapping) and given and set(given) <= {"user_options", "display_name"}:
        given = given.get("user_options") or {}
    if not isinstance(given, Mapping):
        raise InvalidError(
            f"the options of a server are a JSON object, not {json.dumps(given, default=str)[:80]}",
            field="user_options",
            remedy='send {"profile": ...}, {} or nothing',
        )
    return clean_options(given)


def remembered(spawner: Any) -> str:
    """Give the choice of the last start as JSON, for the form to begin with; empty when there is none."""
    last = spawner.orm_spawner.user_options if spawner.orm_spawner else None
    try:
        text = json.dumps(given_options(last), allow_nan=False)
    except (InvalidError, ValueError):
        return ""
    return text if 2 < len(text) <= _REMEMBERED else ""


def clean_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Translate a form's lists of strings, or a request's values, into options; the empty was not chosen."""
    options: dict[str, Any] = {}
    for key, value in given.items():
        chosen = value[0] if isinstance(value, list) and len(value) == 1 else value
        chosen = chosen.strip() if isinstance(chosen, str) else chosen
        if chosen not in ("", None, [], {}) and key != "_xsrf":
            options[key] = chosen
    return options


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
        return decode(Session, self._asked.result())

    async def up(self) -> None:
        """Wait until the session runs; the service may restart meanwhile."""
        while self.session and self.session.phase != "running":
            self._check(self.session)
            self.session = await self._patiently(partial(self._wait, self.session.id))

    async def _wait(self, id: str) -> Session:  # noqa: A002
        path, params = f"/sessions/{part(id)}/wait", {"launch": self._request["launch"]}
        begun = time.monotonic()
        session = decode(Session, await self._service.json("GET", path, params=params, long=True))
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
        found = [decode(Session, item) for item in doc.get("sessions") or []]
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
