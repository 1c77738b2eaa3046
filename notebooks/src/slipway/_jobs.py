"""The client's part for jobs and scans."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Required, TypedDict, Unpack

from ._errors import SlipwayError, UnavailableError
from ._models import Event, Job
from ._scans import Explanation, Scan, ScanChange
from ._site import JobFile
from ._transport import Transport, part

MAX_FILES = 64 << 20
"""What the files of one job may weigh together, in bytes."""


Change = Literal["cancel", "hold", "release", "requeue"]


class JobRequest(TypedDict, total=False):
    """What a job is submitted with, as ``Client.submit`` takes it."""

    environment: Required[str]
    argv: Required[Sequence[str]]
    name: str
    env: Mapping[str, str] | None
    files: Mapping[str, bytes] | None
    cpus: float | None
    memory: str | int | None
    time_limit: str | None
    gpu: str | None
    preemptible: bool
    backend: str | None
    request_id: str | None


class JobCalls:
    """The routes of jobs and scans; ``Client`` adds the others."""

    _http: Transport

    def submit(
        self,
        *,
        environment: str,
        argv: Sequence[str],
        name: str = "",
        env: Mapping[str, str] | None = None,
        files: Mapping[str, bytes] | None = None,
        cpus: float | None = None,
        memory: str | int | None = None,
        time_limit: str | None = None,
        gpu: str | None = None,
        preemptible: bool = False,
        backend: str | None = None,
        request_id: str | None = None,
    ) -> Job:
        """Submit a job. It is submitted once, however often the request has to be repeated.

        With a ``gpu`` such as 1g.18gb, a ``preemptible`` job may borrow the slice of an idle session; it goes
        back in line, and starts anew, when that session's owner returns.
        """
        body = _request(
            environment=environment,
            argv=argv,
            name=name,
            env=env,
            files=files,
            cpus=cpus,
            memory=memory,
            time_limit=time_limit,
            gpu=gpu,
            preemptible=preemptible,
            backend=backend,
            request_id=request_id,
        )
        return Job.from_json(self._http.json("POST", "/jobs", body=body))

    def check_job(self, **job: Unpack[JobRequest]) -> None:
        """Have the service refuse what it would refuse when it is submitted; the environment need not be there yet."""
        self._http.call("POST", "/jobs/check", body={**_request(**job), "files": {}})

    def submit_scan(self, points: Sequence[Mapping[str, str]], **job: Unpack[JobRequest]) -> list[Job]:
        """Submit a job for each point, all or none. A point's parameters are environment variables of its job.

        The rest is as for ``submit``; the jobs share their input files.
        """
        body = {**_request(**job), "points": [{"parameters": dict(point)} for point in points]}
        docs = self._http.json("POST", "/jobs", body=body).get("jobs")
        return [Job.from_json(doc) for doc in docs or [] if isinstance(doc, Mapping)]

    def jobs(self, *, points: bool = True) -> list[Job]:
        """List the caller's jobs; with ``points`` those that are points of scans, too. Lists tell no ``argv``."""
        return [Job.from_json(doc) for doc in self._list("/jobs", "jobs", None if points else {"points": "no"})]

    def job(self, id: str) -> Job:  # noqa: A002
        """Give a job."""
        return Job.from_json(self._http.json("GET", f"/jobs/{part(id)}"))

    def job_events(self, id: str) -> Iterator[Event]:  # noqa: A002
        """Follow a job's steps until it has ended."""
        return self._events(f"/jobs/{part(id)}/events", {})

    def job_log(self, id: str, *, start: int = 0, follow: bool = False) -> Iterator[bytes]:  # noqa: A002
        """Read a job's output from byte ``start``; with ``follow`` until the job has ended.

        A stream that breaks goes on at the byte where it broke.
        """
        patience, offset = self._http.patience(), start
        while True:
            params = {"from": offset, **({"follow": 1} if follow else {})}
            try:
                for chunk in self._http.bytes(f"/jobs/{part(id)}/log", params):
                    patience.reset()
                    offset += len(chunk)
                    yield chunk
                if not follow:
                    return
                # A service that shuts down ends the stream as cleanly as a job that has ended does.
                follow = not self.job(id).ended
                if follow:
                    patience.again(UnavailableError(f"the log of {id} has ended before the job"))
            except UnavailableError as error:
                patience.again(error)

    def cancel_job(self, id: str) -> Job:  # noqa: A002
        """Cancel a job."""
        return self.change_job(id, "cancel")

    def change_job(self, id: str, change: Change) -> Job:  # noqa: A002
        """Cancel, hold, release or requeue a job.

        One that is held does not start until it is released; one that is requeued is ended and begins anew.
        """
        return Job.from_json(self._http.json("POST", f"/jobs/{part(id)}/{change}"))

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
        return self._http.call("GET", f"/jobs/{part(id)}/files/{part(name)}").content

    def scans(self) -> list[Scan]:
        """List the caller's scans."""
        return [Scan.from_json(doc) for doc in self._list("/jobs", "scans", {"points": "no"})]

    def scan(self, id: str) -> Scan:  # noqa: A002
        """Give a scan."""
        return Scan.from_json(self._http.json("GET", f"/scans/{part(id)}"))

    def points(self, scan: str) -> list[Job]:
        """List the jobs of a scan in their order."""
        return [Job.from_json(doc) for doc in self._list("/jobs", "jobs", {"scan": scan})]

    def change_scan(self, id: str, change: Change) -> ScanChange:  # noqa: A002
        """Cancel, hold, release or requeue all jobs of a scan for which that has a meaning."""
        return ScanChange.from_json(self._http.json("POST", f"/scans/{part(id)}/{change}"))

    def why_scan(self, id: str) -> Explanation:  # noqa: A002
        """Explain what the first job of a scan that waits is waiting for."""
        return Explanation.from_json(self._http.json("GET", f"/scans/{part(id)}/why"))

    def delete_scan(self, id: str) -> ScanChange:  # noqa: A002
        """Remove the records and files of the jobs of a scan that have ended."""
        return ScanChange.from_json(self._http.json("DELETE", f"/scans/{part(id)}"))

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


def given(**values: Any) -> dict[str, Any]:
    """Leave out what is not given."""
    return {key: value for key, value in values.items() if value not in (None, "")}


def _request(**job: Unpack[JobRequest]) -> dict[str, Any]:
    files = job.get("files") or {}
    weight = sum(map(len, files.values()))
    if weight > MAX_FILES:
        raise SlipwayError(
            f"the job's files are {weight / 2**20:.0f} MiB together, at most {MAX_FILES >> 20} MiB can be sent",
            code="invalid",
            field="files",
            remedy="leave large data where the job sees it too (a home that is mounted there) and pass its path",
        )
    keys = ("cpus", "memory", "time_limit", "gpu", "backend")
    return {
        "name": job.get("name", ""),
        "environment": job["environment"],
        "argv": list(job["argv"]),
        "env": dict(job.get("env") or {}),
        "files": {key: base64.b64encode(data).decode() for key, data in files.items()},
        "request_id": job.get("request_id") or str(uuid.uuid4()),
        **given(**{key: job.get(key) for key in keys}),
        **({"preemptible": True} if job.get("preemptible") else {}),
    }
