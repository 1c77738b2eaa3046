"""The client: one typed method for every route of the native API that a user may call."""

from __future__ import annotations

import base64
import io
import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import IO, Any, Literal, Protocol, Required, TypedDict, Unpack

from ._decode import decode, first
from ._display import LiveLine
from ._errors import ConflictError, InternalError, InvalidError, NotFoundError, UnavailableError, from_body
from ._models import (
    DataURL,
    Environment,
    Event,
    Explanation,
    FreezeStep,
    GPUs,
    Job,
    JobFile,
    JobPlan,
    JobsUsage,
    KernelSpec,
    Me,
    PointEvent,
    Profile,
    Scan,
    ScanChange,
    Session,
    Storage,
)
from ._payload.values import LARGE
from ._transport import (
    PATIENCE,
    Body,
    Content,
    Target,
    Transport,
    digest,
    find_target,
    length,
    part,
    pieces,
    read_events,
    say,
)
from ._units import amount

FILE_LIMIT = 1 << 30
"""How many bytes one file has at most that goes to a job or comes back from it."""


class JobRequest(TypedDict, total=False):
    """What a job is submitted with, as ``Client.submit`` takes it.

    ``blobs`` are more input files, by the digests of what was put into the caller's store. One that fails is tried
    again up to ``retries`` times. It waits until the jobs and scans of ``after`` are done. ``priority`` counts among
    the caller's own jobs. Where ``out`` is given, these files have to be there at the end, and no others come back. A
    ``preemptible`` job may borrow the slice of an idle session; it starts anew when that session's owner returns.
    """

    environment: Required[str]
    argv: Required[Sequence[str]]
    name: str
    env: Mapping[str, str] | None
    files: Mapping[str, Content] | None
    blobs: Mapping[str, str] | None
    cpus: float | None
    memory: str | int | None
    time_limit: str | None
    gpu: str | None
    preemptible: bool
    backend: str | None
    retries: int
    after: Sequence[str]
    priority: int
    out: Sequence[str]
    request_id: str | None


class Changes(TypedDict, total=False):
    """What a job that is submitted anew has other than the one that it comes from."""

    name: str | None
    environment: str | None
    cpus: float | None
    memory: str | int | None
    time_limit: str | None
    gpu: str | None
    backend: str | None
    retries: int | None
    after: Sequence[str] | None
    priority: int | None


def given(**values: Any) -> dict[str, Any]:
    """Leave out what is not given."""
    return {key: value for key, value in values.items() if value not in (None, "")}


def job_request(**job: Unpack[JobRequest]) -> dict[str, Any]:
    """Write a request; its files are small: ``Client.submit`` has put the others into the caller's store."""
    files = job.get("files") or {}
    keys = ("cpus", "memory", "time_limit", "gpu", "backend")
    some = {
        "preemptible": job.get("preemptible"),
        "blobs": dict(job.get("blobs") or {}),
        "retries": job.get("retries"),
        "after": list(job.get("after") or ()),
        "priority": job.get("priority"),
        "out": list(job.get("out") or ()),
    }
    return {
        "name": job.get("name", ""),
        "environment": job["environment"],
        "argv": list(job["argv"]),
        "env": dict(job.get("env") or {}),
        "files": {key: base64.b64encode(b"".join(pieces(data))).decode() for key, data in files.items()},
        "request_id": job.get("request_id") or str(uuid.uuid4()),
        **given(**{key: job.get(key) for key in keys}),
        **{key: value for key, value in some.items() if value},
    }


def change_request(**changes: Unpack[Changes]) -> dict[str, Any]:
    """Write what is to be other; it is repeated with the same id, so that nothing is submitted twice."""
    return {"request_id": str(uuid.uuid4()), **{key: value for key, value in changes.items() if value is not None}}


def retry_request(
    states: Sequence[str], cpus: float | None, memory: str | int | None, time_limit: str | None
) -> dict[str, Any]:
    """Write what is to be tried again; it is repeated with the same id, so that nothing is tried twice."""
    return {
        "states": list(states),
        "request_id": str(uuid.uuid4()),
        **given(cpus=cpus, memory=memory, time_limit=time_limit),
    }


_SMALL = 64 << 10
"""Up to how many bytes a file goes with the request, which has 1 MiB at most."""
_TOGETHER = 256 << 10
"""How many bytes of files go with one request."""


class Store(Protocol):
    """The part of a client that is needed here."""

    def has_blob(self, digest: str) -> bool:
        """Say whether the caller's store has what a digest names."""

    def put_blob(self, digest: str, data: Content, told: Callable[[int], None] = ...) -> None:
        """Put data into the caller's store."""


class Cargoes:
    """The files of a job: ``files`` go with the request, the large ones are ``blobs`` of the store."""

    def __init__(self, files: Mapping[str, Content]) -> None:
        self._sizes = {name: length(content) for name, content in files.items()}
        for name, size in self._sizes.items():
            if size > FILE_LIMIT:
                raise InvalidError(
                    f"{name} is {amount(size)}, at most {amount(FILE_LIMIT)} can be sent",
                    field="in",
                    remedy="write it to a file or to storage that the job sees too, and pass its path",
                )
        light = _light(self._sizes)
        self.files = {name: b"".join(pieces(content)) for name, content in files.items() if name in light}
        self._large = {name: content for name, content in files.items() if name not in light}
        self.blobs = {name: digest(content) for name, content in self._large.items()}
        self._there: set[str] = set()

    def look(self, client: Store) -> str:
        """Look what the store has already, and say in words what is to be sent."""
        self._there = {digest for digest in set(self.blobs.values()) if client.has_blob(digest)}
        light = sum(self._sizes[name] for name in self.files)
        heavy = {digest: self._sizes[name] for name, digest in self.blobs.items()}
        known = sum(size for digest, size in heavy.items() if digest in self._there)
        rest = f", {amount(known)} are there already" if known else ""
        return f"sends {amount(light + sum(heavy.values()) - known)}{rest}"

    def send(self, client: Store, live: LiveLine | None = None) -> None:
        """Put into the store what it does not have, showing how far it is."""
        for name, named in self.blobs.items():
            if named not in self._there:
                shown = _Shown(live, name, self._sizes[name])
                client.put_blob(named, self._large[name], shown.update)
                shown.done()
                self._there.add(named)


def _light(sizes: Mapping[str, int]) -> set[str]:
    """Choose the files that go with the request: small ones, as many as there is room for."""
    chosen, room = set(), _TOGETHER
    for name in sorted(sizes, key=sizes.__getitem__):
        room -= sizes[name]
        if sizes[name] > _SMALL or room < 0:
            break
        chosen.add(name)
    return chosen


class _Shown:
    """The line of an upload that takes long enough to be looked at."""

    def __init__(self, live: LiveLine | None, name: str, size: int) -> None:
        self._live = live if size > LARGE else None
        self._name, self._size, self._begun = name, size, time.monotonic()

    def update(self, sent: int) -> None:
        if self._live is not None:
            words = f"sending {self._name}: {amount(sent)} of {amount(self._size)} ({100 * sent // self._size} %)"
            drawn = f'<progress max="{self._size}" value="{sent}" aria-label="{words}"></progress>'
            self._live.update(f"sending {self._name}", words, f'<div role="status">{drawn} {words}</div>')

    def done(self) -> None:
        if self._live is not None:
            took = max(time.monotonic() - self._begun, 0.001)
            rate = amount(self._size / took)
            self._live.done(f"sent {self._name}: {amount(self._size)} in {took:.1f} s ({rate}/s)")


Change = Literal["cancel", "hold", "release", "requeue"]

_POINTS = 256 << 10
"""How many bytes of points go with a request."""
_RUN = "X-Slipway-Run"
"""The header that tells of which run of a job an output is: each has its own."""


class JobCalls:
    """The routes of jobs; ``Client`` adds the others."""

    _http: Transport

    def submit(self, **job: Unpack[JobRequest]) -> Job:
        """Submit a job. It is submitted once, however often the request has to be repeated."""
        return decode(Job, self._http.json("POST", "/jobs", body=self._request(job)))

    def check_job(self, points: Sequence[Mapping[str, str]] | None = None, **job: Unpack[JobRequest]) -> JobPlan:
        """Say what a job would meet now, and refuse what would be refused; the environment need not be there yet."""
        light: JobRequest = {**job, "files": {}, "blobs": {}}
        body = {**job_request(**light), **self._points(points)}
        return decode(JobPlan, self._http.json("POST", "/jobs/check", body=body))

    def submit_scan(self, points: Sequence[Mapping[str, str]], **job: Unpack[JobRequest]) -> tuple[Scan, Job]:
        """Submit a job for each point, all or none, and give the scan and its first job.

        A point's parameters are environment variables of its job. The rest is as for ``submit``; the jobs share their
        input files.
        """
        doc = self._http.json("POST", "/jobs", body={**self._request(job), **self._points(points)})
        return decode(Scan, first(doc, "scans")), decode(Job, first(doc, "jobs"))

    def jobs(self, *, points: bool = True) -> list[Job]:
        """List the caller's jobs; with ``points`` those that are points of scans, too. Lists tell no ``argv``."""
        return [decode(Job, doc) for doc in self._list("/jobs", "jobs", None if points else {"points": "no"})]

    def job(self, id: str) -> Job:  # noqa: A002
        """Give a job."""
        return decode(Job, self._http.json("GET", f"/jobs/{part(id)}"))

    def jobs_usage(self) -> JobsUsage:
        """Say what the caller's jobs keep, and what she has used."""
        return decode(JobsUsage, self._http.json("GET", "/jobs/usage"))

    def job_events(self, id: str) -> Iterator[Event]:  # noqa: A002
        """Follow a job's steps until it has ended."""
        return self._events(f"/jobs/{part(id)}/events", {})

    def job_log(self, id: str, *, start: int = 0, follow: bool = False) -> Iterator[bytes]:  # noqa: A002
        """Read a job's output from byte ``start``; with ``follow`` until the job has ended.

        A stream that breaks goes on at the byte where it broke, or with the whole output of the job's next try if that
        has begun meanwhile.
        """
        patience, offset, run = self._http.patience(), start, ""
        while True:
            params = {"from": offset, **({"follow": 1} if follow else {})}
            try:
                with self._http.open("GET", f"/jobs/{part(id)}/log", params=params) as response:
                    before, run = run, response.headers.get(_RUN, "")
                    if before not in ("", run) and offset > 0:
                        offset = 0
                        continue
                    for chunk in response.iter_raw():
                        patience.reset()
                        offset += len(chunk)
                        yield chunk
                if not follow:
                    return
                # A service that shuts down ends the stream as cleanly as a job that has ended does.
                follow = not self.job(id).ended
                if follow:
                    patience.again(UnavailableError(f"the log of {id} has ended before the job"), told=False)
            except UnavailableError as error:
                patience.again(error)

    def job_log_tail(self, id: str, lines: int = 1) -> str:  # noqa: A002
        """Give the last lines of a job's output."""
        data = self._http.call("GET", f"/jobs/{part(id)}/log", params={"tail": lines}).content
        return data.decode("utf-8", "replace")

    def cancel_job(self, id: str) -> Job:  # noqa: A002
        """Cancel a job."""
        return self.change_job(id, "cancel")

    def change_job(self, id: str, change: Change) -> Job:  # noqa: A002
        """Cancel, hold, release or requeue a job.

        One that is held does not start until it is released; one that is requeued is ended and begins anew.
        """
        return decode(Job, self._http.json("POST", f"/jobs/{part(id)}/{change}"))

    def retry_job(
        self,
        id: str,  # noqa: A002
        *,
        states: Sequence[str] = (),
        cpus: float | None = None,
        memory: str | int | None = None,
        time_limit: str | None = None,
    ) -> Job:
        """Try an ended job again: the same job, with a new attempt; by itself only one that failed or was canceled."""
        body = retry_request(states, cpus, memory, time_limit)
        return decode(Job, self._http.json("POST", f"/jobs/{part(id)}/retry", body=body))

    def resubmit_job(self, id: str, **changes: Unpack[Changes]) -> Job:  # noqa: A002
        """Submit a new job with what an earlier one had but for the changes."""
        body = change_request(**changes)
        return decode(Job, self._http.json("POST", f"/jobs/{part(id)}/resubmit", body=body))

    def why_job(self, id: str) -> Explanation:  # noqa: A002
        """Explain what a job waits for."""
        return decode(Explanation, self._http.json("GET", f"/jobs/{part(id)}/why"))

    def delete_job(self, id: str) -> None:  # noqa: A002
        """Remove an ended job's record and files."""
        self._http.call("DELETE", f"/jobs/{part(id)}")

    def job_files(self, id: str) -> list[JobFile]:  # noqa: A002
        """List the files that a job has left."""
        return [decode(JobFile, doc) for doc in self._list(f"/jobs/{part(id)}/files", "files")]

    def job_file(self, id: str, name: str) -> bytes:  # noqa: A002
        """Fetch a file that a job has left."""
        file = io.BytesIO()
        self.save_job_file(id, name, file)
        return file.getvalue()

    def save_job_file(self, id: str, name: str, to: IO[bytes]) -> None:  # noqa: A002
        """Write a file that a job has left into an open one, piece by piece; after a break from the start."""
        patience, start = self._http.patience(), to.tell()
        while True:
            try:
                to.writelines(self._job_file(id, name))
            except UnavailableError as error:
                patience.again(error)
                to.seek(start)
                to.truncate()
            else:
                return

    def _job_file(self, id: str, name: str) -> Iterator[bytes]:  # noqa: A002
        with self._http.open("GET", f"/jobs/{part(id)}/files/{part(name)}") as response:
            yield from response.iter_raw()

    def has_blob(self, digest: str) -> bool:
        """Say whether the caller's store has what a digest names."""
        try:
            self._http.call("HEAD", f"/blobs/{part(digest)}")
        except NotFoundError:
            return False
        return True

    def put_blob(self, digest: str, data: Content, told: Callable[[int], None] = lambda sent: None) -> None:
        """Put bytes, or a file, into the caller's store, under its digest; what no job needs goes by itself.

        It is sent piece by piece, and again when the service was away meanwhile; ``told`` is told how much was sent.
        """
        self._http.call("PUT", f"/blobs/{part(digest)}", content=Body(data, told))

    def _request(self, job: JobRequest) -> dict[str, Any]:
        """Write a request; what is large of its files goes to the store before."""
        cargoes = Cargoes(job.get("files") or {})
        cargoes.look(self)
        cargoes.send(self)
        light: JobRequest = {**job, "files": cargoes.files, "blobs": {**(job.get("blobs") or {}), **cargoes.blobs}}
        return job_request(**light)

    def _points(self, points: Sequence[Mapping[str, str]] | None) -> dict[str, Any]:
        """Write the points of a scan; many go to the store, for a request has 1 MiB at most."""
        if points is None:
            return {}
        listed = [{"parameters": dict(point)} for point in points]
        if len(text := json.dumps(listed).encode()) <= _POINTS:
            return {"points": listed}
        if not self.has_blob(named := digest(text)):
            self.put_blob(named, text)
        return {"points_blob": named}

    def _list(self, path: str, key: str, params: Mapping[str, Any] | None = None) -> list[Mapping[str, Any]]:
        docs = self._http.json("GET", path, params=params).get(key)
        return [doc for doc in docs or [] if isinstance(doc, Mapping)]

    def _events(self, path: str, params: Mapping[str, Any]) -> Iterator[Event]:
        seen = -1
        for raw in self._http.events(path, params):
            doc = raw.json()
            event = decode(Event, doc) if doc is not None else None
            if event is None or event.seq <= seen:
                continue
            seen = event.seq
            yield event
            if event.final:
                return


class ScanCalls(JobCalls):
    """The routes of scans, beside those of jobs."""

    def scans(self) -> list[Scan]:
        """List the caller's scans."""
        return [decode(Scan, doc) for doc in self._list("/jobs", "scans", {"points": "no"})]

    def scan(self, id: str) -> Scan:  # noqa: A002
        """Give a scan."""
        return decode(Scan, self._http.json("GET", f"/scans/{part(id)}"))

    def points(self, scan: str, *, states: Sequence[str] = (), limit: int = 0, offset: int = 0) -> list[Job]:
        """List the jobs of a scan in their order: those in some states, or ``limit`` from ``offset`` on."""
        some = {"state": ",".join(states), "limit": limit, "offset": offset}
        params = {"scan": scan, **{key: value for key, value in some.items() if value}}
        return [decode(Job, doc) for doc in self._list("/jobs", "jobs", params)]

    def watch_scan(
        self,
        id: str,  # noqa: A002
        *,
        wanted: Callable[[], bool] = lambda: True,
    ) -> Iterator[PointEvent | Scan]:
        """Follow a scan until all its points have ended: how each stands, first all of them, then those that change.

        A stream that breaks goes on where it broke. It also ends soon after it is not ``wanted`` any more.
        """
        seen, scan, news = set[int](), Scan(id, states={"pending": 1}), False

        def over() -> bool:
            """Say whether a stream that has ended was the last: the scan has, and there was nothing new in it."""
            nonlocal news
            quiet, news = not news, False
            return scan.ended and quiet

        for raw in self._http.events(f"/scans/{part(id)}/events", wanted=wanted, over=over):
            doc = raw.json()
            if doc is None:
                continue
            if raw.event == "point":
                event, news = decode(PointEvent, doc), True
                seen.add(event.point)
                yield event
            elif raw.event == "scan":
                scan = decode(Scan, doc)
                yield scan
            if scan.ended and len(seen) >= scan.points:
                return

    def change_scan(self, id: str, change: Change) -> ScanChange:  # noqa: A002
        """Cancel, hold, release or requeue all jobs of a scan for which that has a meaning."""
        return decode(ScanChange, self._http.json("POST", f"/scans/{part(id)}/{change}"))

    def retry_scan(
        self,
        id: str,  # noqa: A002
        *,
        states: Sequence[str] = (),
        cpus: float | None = None,
        memory: str | int | None = None,
        time_limit: str | None = None,
    ) -> ScanChange:
        """Try the points in some states again, each in its place; without any those that failed."""
        body = retry_request(states, cpus, memory, time_limit)
        return decode(ScanChange, self._http.json("POST", f"/scans/{part(id)}/retry", body=body))

    def resubmit_scan(self, id: str, **changes: Unpack[Changes]) -> Scan:  # noqa: A002
        """Submit a new scan with what an earlier one had but for the changes."""
        doc = self._http.json("POST", f"/scans/{part(id)}/resubmit", body=change_request(**changes))
        return decode(Scan, first(doc, "scans"))

    def why_scan(self, id: str) -> Explanation:  # noqa: A002
        """Explain what the first job of a scan that waits is waiting for."""
        return decode(Explanation, self._http.json("GET", f"/scans/{part(id)}/why"))

    def delete_scan(self, id: str) -> ScanChange:  # noqa: A002
        """Remove the records and files of the jobs of a scan that have ended."""
        return decode(ScanChange, self._http.json("DELETE", f"/scans/{part(id)}"))


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
        return decode(Me, self._http.json("GET", "/me"))

    def profiles(self) -> list[Profile]:
        """List the kinds of session that the site offers the caller."""
        response = self._http.call("GET", "/profiles").json()
        return [decode(Profile, doc) for doc in response if isinstance(doc, Mapping)]

    def gpus(self) -> GPUs:
        """List the site's GPUs: what can be asked for, what of it is free, and who has what."""
        return decode(GPUs, self._http.json("GET", "/gpus"))

    def kernelspecs(self) -> list[KernelSpec]:
        """List the kernels on slices that the caller may start, and what of them is free; the first is the default."""
        return [decode(KernelSpec, doc) for doc in self._list("/kernelspecs", "kernelspecs")]

    def switch_kernel(self, name: str = "self", *, gpu: str = "", cpus: str = "", memory: str = "") -> KernelSpec:
        """Say what the caller's next kernels of a kernelspec are to have; ``default`` is what they usually have.

        ``self`` is the kernelspec of the kernel that asks; elsewhere the one that can be switched so.
        """
        body = given(gpu=gpu, cpus=cpus, memory=memory)
        return decode(KernelSpec, self._http.json("POST", f"/kernelspecs/{part(name)}/switch", body=body))

    def storage(self) -> list[Storage]:
        """List the site's storage elements, and where this session has them as directories."""
        return [decode(Storage, doc) for doc in self._list("/data", "storage")]

    def data_url(self, lfn: str, *, write: bool = False, direct: bool = False) -> DataURL:
        """Say where a file is: at the cache while that answers, else, and for writing, at the origin."""
        asked = {"write": "true"} if write else {}
        asked |= {"direct": "true"} if direct else {}
        return decode(DataURL, self._http.json("GET", "/data/url", params={"lfn": lfn} | asked))

    def sessions(self, *, name: str | None = None) -> list[Session]:
        """List the caller's sessions, or those of one server name."""
        params = {} if name is None else {"name": name}
        return [decode(Session, doc) for doc in self._list("/sessions", "sessions", params)]

    def session(self, id: str = "self") -> Session:  # noqa: A002 - the API's own word
        """Give a session; ``self`` is the one that the caller runs in."""
        return decode(Session, self._http.json("GET", f"/sessions/{part(id)}"))

    def wait_session(self, id: str, launch: str = "") -> Session:  # noqa: A002
        """Wait up to 20 s for a session to run or to have failed, and give it as it is then."""
        return decode(Session, self._http.json("GET", f"/sessions/{part(id)}/wait", params=given(launch=launch)))

    def session_events(self, id: str, launch: str = "") -> Iterator[Event]:  # noqa: A002
        """Follow the steps of a session's start until it runs or has failed."""
        return self._events(f"/sessions/{part(id)}/events", given(launch=launch))

    def stop_session(self, id: str) -> Session:  # noqa: A002
        """Stop a session; its changes are kept. Stopping a stopped one is success."""
        return decode(Session, self._http.json("POST", f"/sessions/{part(id)}/stop"))

    def keep(self, time: str, session: str = "self") -> Session:
        """Let a running session be neither idle nor too old for a time such as 4h or 90m from now on."""
        return decode(Session, self._http.json("POST", f"/sessions/{part(session)}/keep", body={"for": time}))

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
                    return decode(Environment, doc)
                if event.event == "error":
                    raise from_body(doc) or InternalError("the freeze failed and gave no reason")
                progress(decode(FreezeStep, doc))
        raise UnavailableError("freeze: the stream has ended before the environment was there")

    def environments(self, *, shared: bool = False) -> list[Environment]:
        """List the caller's environments, with ``shared`` also those that others share with her."""
        params = {"shared": "true"} if shared else {}
        return [decode(Environment, doc) for doc in self._list("/environments", "environments", params)]

    def environment(self, ref: str) -> Environment:
        """Give an environment by digest, unique prefix of at least 6 digits, name, name:tag or owner/name:tag."""
        return decode(Environment, self._http.json("GET", f"/environments/{part(ref)}"))

    def environment_details(self, ref: str) -> dict[str, Any]:
        """Give all that is known of an environment, as the service says it."""
        return self._http.json("GET", f"/environments/{part(ref)}/details")

    def environment_history(self, ref: str) -> list[Environment]:
        """List what a name has stood for and what came from the same session, the newest first."""
        docs = self._list(f"/environments/{part(ref)}/history", "environments")
        return [decode(Environment, doc) for doc in docs]

    def environment_diff(self, old: str, new: str) -> dict[str, Any]:
        """Tell what one environment has other than another, as the service says it."""
        return self._http.json("GET", f"/environments/{part(new)}/diff", params={"from": old})

    def share_environment(self, ref: str, with_: str, group: str = "") -> Environment:
        """Say who else may use an environment of the caller's: private, group (then which) or public."""
        body = {"with": with_, **given(group=group)}
        return decode(Environment, self._http.json("POST", f"/environments/{part(ref)}/share", body=body))

    def tag_environment(self, ref: str, name: str, tag: str = "") -> Environment:
        """Give an environment of the caller's another name."""
        body = {"name": name, "tag": tag}
        return decode(Environment, self._http.json("POST", f"/environments/{part(ref)}/tags", body=body))

    def remove_environment(self, ref: str) -> None:
        """Take a name of the caller's away; by its digest all that she has given it."""
        self._http.call("DELETE", f"/environments/{part(ref)}")
