"""The client: one typed method for every route of the native API that a user may call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

from ._errors import ConflictError, InternalError, UnavailableError, from_body
from ._gpus import GPUs
from ._kernels import KernelSpec
from ._models import Event, Session
from ._request import given
from ._scan_calls import ScanCalls
from ._site import Environment, FreezeStep, Me, Profile
from ._storage import DataURL, Storage
from ._transport import PATIENCE, Target, Transport, find_target, part, read_events, say


class Client(ScanCalls):
    """Talks to one Slipway service as one user.

    Without arguments it finds the service itself: the socket of the session it runs in (SLIPWAY_SOCKET,
    /run/slipway/api.sock), else SLIPWAY_URL with SLIPWAY_TOKEN or SLIPWAY_TOKEN_FILE. Requests that can
    be repeated outlast a restart of the service of up to ``patience`` seconds; ``notice`` is told.
    """

    def __init__(
        self,
        target: Target | None = None,
        *,
        patience: float = PATIENCE,
        notice: Callable[[str], None] = say,
    ) -> None:
        self._target = target or find_target()
        self._http = Transport(self._target, patience=patience, notice=notice)

    def __enter__(self) -> Client:
        """Use the client as a context that closes it."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the client."""
        self.close()

    def __repr__(self) -> str:
        """Name the service."""
        return f"Client({self._target.socket or self._target.url!r})"

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def outlast(self, patience: float, notice: Callable[[str], None]) -> None:
        """Bear another time without the service from now on, and tell another of it."""
        self._http.outlast(patience, notice)

    def me(self) -> Me:
        """Say who the service thinks is calling, and in which session."""
        return Me.from_json(self._http.json("GET", "/me"))

    def profiles(self) -> list[Profile]:
        """List the kinds of session that the site offers the caller."""
        response = self._http.call("GET", "/profiles").json()
        return [Profile.from_json(doc) for doc in response if isinstance(doc, Mapping)]

    def gpus(self) -> GPUs:
        """List the site's GPUs: what can be asked for, what of it is free, and who has what."""
        return GPUs.from_json(self._http.json("GET", "/gpus"))

    def kernelspecs(self) -> list[KernelSpec]:
        """List the kernels on slices that the caller may start, and what of them is free; the first is the default."""
        return [KernelSpec.from_json(doc) for doc in self._list("/kernelspecs", "kernelspecs")]

    def switch_kernel(self, name: str = "self", *, gpu: str = "", cpus: str = "", memory: str = "") -> KernelSpec:
        """Say what the caller's next kernels of a kernelspec are to have; ``default`` is what they usually have.

        ``self`` is the kernelspec of the kernel that asks; elsewhere the one that can be switched so.
        """
        body = given(gpu=gpu, cpus=cpus, memory=memory)
        return KernelSpec.from_json(self._http.json("POST", f"/kernelspecs/{part(name)}/switch", body=body))

    def storage(self) -> list[Storage]:
        """List the site's storage elements, and where this session has them as directories."""
        return [Storage.from_json(doc) for doc in self._list("/data", "storage")]

    def data_url(self, lfn: str, *, write: bool = False, direct: bool = False) -> DataURL:
        """Say where a file is: at the cache while that answers, else, and for writing, at the origin."""
        asked = {"write": "true"} if write else {}
        asked |= {"direct": "true"} if direct else {}
        return DataURL.from_json(self._http.json("GET", "/data/url", params={"lfn": lfn} | asked))

    def sessions(self, *, name: str | None = None) -> list[Session]:
        """List the caller's sessions, or those of one server name."""
        params = {} if name is None else {"name": name}
        return [Session.from_json(doc) for doc in self._list("/sessions", "sessions", params)]

    def session(self, id: str = "self") -> Session:  # noqa: A002 - the API's own word
        """Give a session; ``self`` is the one that the caller runs in."""
        return Session.from_json(self._http.json("GET", f"/sessions/{part(id)}"))

    def wait_session(self, id: str, launch: str = "") -> Session:  # noqa: A002
        """Wait up to 20 s for a session to run or to have failed, and give it as it is then."""
        return Session.from_json(self._http.json("GET", f"/sessions/{part(id)}/wait", params=given(launch=launch)))

    def session_events(self, id: str, launch: str = "") -> Iterator[Event]:  # noqa: A002
        """Follow the steps of a session's start until it runs or has failed."""
        return self._events(f"/sessions/{part(id)}/events", given(launch=launch))

    def stop_session(self, id: str) -> Session:  # noqa: A002
        """Stop a session; its changes are kept. Stopping a stopped one is success."""
        return Session.from_json(self._http.json("POST", f"/sessions/{part(id)}/stop"))

    def keep(self, time: str, session: str = "self") -> Session:
        """Let a running session be neither idle nor too old for a time such as 4h or 90m from now on."""
        return Session.from_json(self._http.json("POST", f"/sessions/{part(session)}/keep", body={"for": time}))

    def discard_session(self, id: str) -> None:  # noqa: A002
        """Discard a session with the changes that it has kept."""
        self._http.call("DELETE", f"/sessions/{part(id)}")

    def session_log(self, id: str = "self", tail: int = 40) -> str:  # noqa: A002
        """Give the last lines that a session's app has written."""
        return self._http.call("GET", f"/sessions/{part(id)}/log", params={"tail": tail}).text

    def freeze(
        self,
        session: str = "self",
        *,
        name: str = "",
        tag: str = "",
        note: str = "",
        allow_secret: Sequence[str] = (),
        imported: Mapping[str, Sequence[str]] | None = None,
        cvmfs: Sequence[str] = (),
        progress: Callable[[FreezeStep], None] = lambda step: None,
    ) -> Environment:
        """Make an environment out of a session, telling each step; unchanged content answers at once.

        A freeze whose stream breaks is asked for again: equal content gives the equal digest. What looks like a
        secret stops it, but for the paths of ``allow_secret``; one that ends in a slash means all below it. The
        modules ``imported``, by interpreter, are tried in the image alone afterwards; ``cvmfs`` names repositories
        that the session uses.
        """
        path = f"/sessions/{part(session)}/freeze"
        body: dict[str, Any] = {"name": name, "tag": tag, "note": note}
        if allow_secret:
            body["allow_secret"] = list(allow_secret)
        if imported:
            body["imported"] = {python: list(names) for python, names in imported.items()}
        if cvmfs:
            body["cvmfs"] = list(cvmfs)
        patience, again = self._http.patience(), False

        def alive(step: FreezeStep) -> None:
            patience.reset()
            progress(step)

        while True:
            try:
                return self._freeze_once(path, body, alive)
            except UnavailableError as error:
                patience.again(error)
                again = True
            except ConflictError as error:
                if not again:
                    raise
                patience.again(error)  # the freeze that the broken stream belonged to is still at it

    def _freeze_once(self, path: str, body: object, progress: Callable[[FreezeStep], None]) -> Environment:
        with self._http.open("POST", path, body=body) as response:
            for event in read_events(response):
                doc = event.json()
                if doc is None:
                    continue
                if event.event == "done":
                    return Environment.from_json(doc)
                if event.event == "error":
                    raise from_body(doc) or InternalError("the freeze failed and gave no reason")
                progress(FreezeStep.from_json(doc))
        raise UnavailableError("freeze: the stream has ended before the environment was there")

    def environments(self, *, shared: bool = False) -> list[Environment]:
        """List the caller's environments, with ``shared`` also those that others share with her."""
        params = {"shared": "true"} if shared else {}
        return [Environment.from_json(doc) for doc in self._list("/environments", "environments", params)]

    def environment(self, ref: str) -> Environment:
        """Give an environment by digest, unique prefix of at least 6 digits, name, name:tag or owner/name:tag."""
        return Environment.from_json(self._http.json("GET", f"/environments/{part(ref)}"))

    def environment_details(self, ref: str) -> dict[str, Any]:
        """Give all that is known of an environment, as the service says it."""
        return self._http.json("GET", f"/environments/{part(ref)}/details")

    def environment_history(self, ref: str) -> list[Environment]:
        """List what a name has stood for and what came from the same session, the newest first."""
        docs = self._list(f"/environments/{part(ref)}/history", "environments")
        return [Environment.from_json(doc) for doc in docs]

    def environment_diff(self, old: str, new: str) -> dict[str, Any]:
        """Tell what one environment has other than another, as the service says it."""
        return self._http.json("GET", f"/environments/{part(new)}/diff", params={"from": old})

    def share_environment(self, ref: str, with_: str, group: str = "") -> Environment:
        """Say who else may use an environment of the caller's: private, group (then which) or public."""
        body = {"with": with_, **given(group=group)}
        return Environment.from_json(self._http.json("POST", f"/environments/{part(ref)}/share", body=body))

    def tag_environment(self, ref: str, name: str, tag: str = "") -> Environment:
        """Give an environment of the caller's another name."""
        body = {"name": name, "tag": tag}
        return Environment.from_json(self._http.json("POST", f"/environments/{part(ref)}/tags", body=body))

    def remove_environment(self, ref: str) -> None:
        """Take a name of the caller's away; by its digest all that she has given it."""
        self._http.call("DELETE", f"/environments/{part(ref)}")
