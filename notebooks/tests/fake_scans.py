"""The fake service's scans: their points, what is done to all of them, and their streams; and what is in its store."""

from __future__ import annotations

import collections
import json
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fake import FakeService, Job

Doc = dict[str, Any]
ENDED = ("done", "failed", "canceled")


class Fault(Exception):
    """An error answer."""

    def __init__(self, code: str, status: int, message: str, **extra: str) -> None:
        super().__init__(message)
        self.status, self.doc = status, {"error": {"code": code, "message": message, **extra}}


class Drop(Exception):
    """The connection breaks here, without the end of the answer."""


class ScanRoutes:
    """What the fake's handler answers of scans; the rest of it is in ``fake``."""

    fake: FakeService
    query: dict[str, str]
    body: Any
    headers: Any

    if TYPE_CHECKING:

        def _json(self, doc: object, status: int = 200) -> None: ...
        def _bytes(self, data: bytes, kind: str, status: int = 200) -> None: ...
        def _stream(self, chunks: Iterator[bytes], kind: str, headers: Mapping[str, str] | None = None) -> None: ...
        def _change(self, job: Job, what: str) -> None: ...
        def _submit(self) -> list[Job]: ...
        def _begin(self, job: Job) -> None: ...

    def _points(self, scan: str) -> list[Job]:
        with self.fake.lock:
            found = [job for job in self.fake.jobs.values() if job.doc.get("scan") == scan]
        if not found:
            raise Fault("not_found", 404, f"there is no scan {scan}")
        return found

    def _scan(self, id: str) -> Doc:
        docs = [job.doc for job in self._points(id)]
        states = collections.Counter(doc["state"] for doc in docs)
        first = {key: docs[0].get(key, "") for key in ("name", "environment", "backend", "user")}
        failed = [doc["outcome"]["reason"] for doc in docs if doc["state"] == "failed"]
        held = sum(1 for doc in docs if doc.get("held"))
        failure = failed[0] if failed else ""
        return {"id": id, **first, "points": len(docs), "states": states, "held": held, "failure": failure}

    def _made(self, jobs: list[Job]) -> Doc:
        """Tell of a scan that was submitted: it, and the first of its points."""
        return {"scans": [self._scan(jobs[0].doc["scan"])], "jobs": [job.doc for job in jobs[:100]]}

    def _listed(self) -> Doc:
        docs = [job.doc for job in self.fake.jobs.values()]
        if scan := self.query.get("scan"):
            states = set(filter(None, self.query.get("state", "").split(",")))
            points = [job.doc for job in self._points(scan) if not states or job.doc["state"] in states]
            first, most = int(self.query.get("offset", 0)), int(self.query.get("limit", len(points)))
            return {"jobs": points[first : first + most], "scans": [self._scan(scan)]}
        if self.query.get("points") == "no":
            scans = dict.fromkeys(doc["scan"] for doc in docs if doc.get("scan"))
            return {"jobs": [doc for doc in docs if not doc.get("scan")], "scans": [self._scan(scan) for scan in scans]}
        return {"jobs": docs}

    def _why(self, id: str) -> Doc:
        clauses = [{"words": "2 CPUs", "text": "Cpus >= 2", "excludes": 7, "alone": 3}]
        return {
            "job": id,
            "summary": "no slot is free",
            "slots": 9,
            "fit": 2,
            "free": 0,
            "clauses": clauses,
            "remedy": "wait",
        }

    def get_scans(self, id: str, what: str = "") -> None:
        if what == "events":
            self._points(id)
            self._stream(self._scan_events(id), "text/event-stream")
            return
        self._json(self._why(self._points(id)[0].doc["id"]) if what == "why" else self._scan(id))

    def post_scans(self, id: str, what: str) -> None:
        if what == "retry":
            points = [job for job in self._points(id) if job.doc["state"] in self.body["states"]]
            self._retry(points)
        elif what == "resubmit":
            self.body = self._changed_body(self._points(id)[0])
            self._json(self._made(self._submit()), 202)
            return
        else:
            points = [job for job in self._points(id) if job.doc["state"] in ("pending", "running")]
            for job in points:
                self._change(job, what)
        self._json({"scan": self._scan(id), "changed": len(points), "refused": 0, "why": ""}, 202)

    def delete_scans(self, id: str) -> None:
        scan = self._scan(id)
        for job in self._points(id):
            del self.fake.jobs[job.doc["id"]]
        self._json(
            {"scan": {**scan, "points": 0, "states": {}}, "changed": scan["points"], "refused": 0, "why": ""}, 202
        )

    def _retry(self, jobs: list[Job]) -> list[Job]:
        if any(job.doc["state"] not in ENDED for job in jobs):
            raise Fault("conflict", 409, "the job has not ended", remedy="cancel it first")
        with self.fake.lock:
            if self.body["request_id"] not in self.fake.requests:
                self.fake.requests[self.body["request_id"]] = "retry"
                for job in jobs:
                    job.again(self.body)
                    self._begin(job)
        return jobs

    def _changed_body(self, job: Job) -> Doc:
        """Give what a job was submitted with but for what the request names."""
        changes = {key: value for key, value in self.body.items() if value is not None}
        return {**job.body, **changes}

    # --- the stream

    def _scan_events(self, id: str) -> Iterator[bytes]:
        at, sent, ended = int(self.headers.get("Last-Event-ID") or 0), 0, False
        yield b": hello\n\n"
        while not ended:
            self._look(id)
            news = sorted((seq, point, doc) for (scan, point), (seq, doc) in self._told(id) if seq > at)
            for seq, point, doc in news:
                name = "scan" if point < 0 else "point"
                yield f"id: {seq}\nevent: {name}\ndata: {json.dumps(doc)}\n\n".encode()
                at, sent = seq, sent + 1
                if self.fake.drop_events_after and sent >= self.fake.drop_events_after:
                    raise Drop
            last = self.fake.told[id, -1][1]["states"]
            ended = not last.get("pending") and not last.get("running")
            yield b": beat\n\n"
            time.sleep(0.02)

    def _told(self, id: str) -> list[tuple[tuple[str, int], tuple[int, Doc]]]:
        with self.fake.lock:
            return [item for item in self.fake.told.items() if item[0][0] == id]

    def _look(self, id: str) -> None:
        """Note how the points stand now; what is other than before gets a new number, the scan itself the highest."""
        with self.fake.lock:
            points = {job.doc["point"]: self._point_event(job) for job in self._points(id)}
            scan = self._scan(id)
            states = collections.Counter(doc["state"] for doc in points.values())
            for number, doc in [*points.items(), (-1, {**scan, "states": dict(states)})]:
                if self.fake.told.get((id, number), (0, None))[1] != doc:
                    self.fake.told[id, number] = (max((seq for seq, _ in self.fake.told.values()), default=0) + 1, doc)

    def _point_event(self, job: Job) -> Doc:
        doc = job.doc
        return {
            "point": doc["point"], "job": doc["id"], "state": doc["state"], "attempt": doc.get("attempt", 1),
            "progress": job.progress(), "host": "wn1", "slice": "", "up": doc.get("up"), "ended": doc.get("ended_at"),
            "reason": (doc["outcome"] or {}).get("reason", ""),
        }  # fmt: skip

    # --- the store

    def head_blobs(self, digest: str) -> None:
        if digest not in self.fake.blobs:
            raise Fault("not_found", 404, f"there is no {digest}")
        self._bytes(b"", "application/octet-stream")

    def put_blobs(self, digest: str) -> None:
        self.fake.blobs[digest] = self.body
        self._bytes(b"", "application/octet-stream", 204)
