"""The client's part for jobs."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any, Literal, Unpack

from ._content import Body, Content, digest
from ._errors import NotFoundError, UnavailableError
from ._models import Event, Job
from ._plans import JobPlan, JobsUsage
from ._request import Changes, JobRequest, change_request, job_request, retry_request
from ._scans import Explanation, Scan
from ._site import JobFile
from ._store import Cargoes
from ._transport import Transport, part
from ._wire import first

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
        return Job.from_json(self._http.json("POST", "/jobs", body=self._request(job)))

    def check_job(self, points: Sequence[Mapping[str, str]] | None = None, **job: Unpack[JobRequest]) -> JobPlan:
        """Say what a job would meet now, and refuse what would be refused; the environment need not be there yet."""
        light: JobRequest = {**job, "files": {}, "blobs": {}}
        body = {**job_request(**light), **self._points(points)}
        return JobPlan.from_json(self._http.json("POST", "/jobs/check", body=body))

    def submit_scan(self, points: Sequence[Mapping[str, str]], **job: Unpack[JobRequest]) -> tuple[Scan, Job]:
        """Submit a job for each point, all or none, and give the scan and its first job.

        A point's parameters are environment variables of its job. The rest is as for ``submit``; the jobs share their
        input files.
        """
        doc = self._http.json("POST", "/jobs", body={**self._request(job), **self._points(points)})
        return Scan.from_json(first(doc, "scans")), Job.from_json(first(doc, "jobs"))

    def jobs(self, *, points: bool = True) -> list[Job]:
        """List the caller's jobs; with ``points`` those that are points of scans, too. Lists tell no ``argv``."""
        return [Job.from_json(doc) for doc in self._list("/jobs", "jobs", None if points else {"points": "no"})]

    def job(self, id: str) -> Job:  # noqa: A002
        """Give a job."""
        return Job.from_json(self._http.json("GET", f"/jobs/{part(id)}"))

    def jobs_usage(self) -> JobsUsage:
        """Say what the caller's jobs keep, and what she has used."""
        return JobsUsage.from_json(self._http.json("GET", "/jobs/usage"))

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
        return Job.from_json(self._http.json("POST", f"/jobs/{part(id)}/{change}"))

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
        return Job.from_json(self._http.json("POST", f"/jobs/{part(id)}/retry", body=body))

    def resubmit_job(self, id: str, **changes: Unpack[Changes]) -> Job:  # noqa: A002
        """Submit a new job with what an earlier one had but for the changes."""
        body = change_request(**changes)
        return Job.from_json(self._http.json("POST", f"/jobs/{part(id)}/resubmit", body=body))

    def why_job(self, id: str) -> Explanation:  # noqa: A002
        """Explain what a job waits for."""
        return Explanation.from_json(self._http.json("GET", f"/jobs/{part(id)}/why"))

    def delete_job(self, id: str) -> None:  # noqa: A002
        """Remove an ended job's record and files."""
        self._http.call("DELETE", f"/jobs/{part(id)}")

    def job_files(self, id: str) -> list[JobFile]:  # noqa: A002
        """List the files that a job has left."""
        return [JobFile.from_json(doc) for doc in self._list(f"/jobs/{part(id)}/files", "files")]

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
            event = Event.from_json(doc) if doc is not None else None
            if event is None or event.seq <= seen:
                continue
            seen = event.seq
            yield event
            if event.final:
                return
