"""The client's part for scans."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Unpack

from ._jobs import Change, JobCalls
from ._models import Job
from ._request import Changes, change_request, retry_request
from ._scans import Explanation, PointEvent, Scan, ScanChange
from ._transport import part
from ._wire import first


class ScanCalls(JobCalls):
    """The routes of scans, beside those of jobs."""

    def scans(self) -> list[Scan]:
        """List the caller's scans."""
        return [Scan.from_json(doc) for doc in self._list("/jobs", "scans", {"points": "no"})]

    def scan(self, id: str) -> Scan:  # noqa: A002
        """Give a scan."""
        return Scan.from_json(self._http.json("GET", f"/scans/{part(id)}"))

    def points(self, scan: str, *, states: Sequence[str] = (), limit: int = 0, offset: int = 0) -> list[Job]:
        """List the jobs of a scan in their order: those in some states, or ``limit`` from ``offset`` on."""
        some = {"state": ",".join(states), "limit": limit, "offset": offset}
        params = {"scan": scan, **{key: value for key, value in some.items() if value}}
        return [Job.from_json(doc) for doc in self._list("/jobs", "jobs", params)]

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
                event, news = PointEvent.from_json(doc), True
                seen.add(event.point)
                yield event
            elif raw.event == "scan":
                scan = Scan.from_json(doc)
                yield scan
            if scan.ended and len(seen) >= scan.points:
                return

    def change_scan(self, id: str, change: Change) -> ScanChange:  # noqa: A002
        """Cancel, hold, release or requeue all jobs of a scan for which that has a meaning."""
        return ScanChange.from_json(self._http.json("POST", f"/scans/{part(id)}/{change}"))

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
        return ScanChange.from_json(self._http.json("POST", f"/scans/{part(id)}/retry", body=body))

    def resubmit_scan(self, id: str, **changes: Unpack[Changes]) -> Scan:  # noqa: A002
        """Submit a new scan with what an earlier one had but for the changes."""
        doc = self._http.json("POST", f"/scans/{part(id)}/resubmit", body=change_request(**changes))
        return Scan.from_json(first(doc, "scans"))

    def why_scan(self, id: str) -> Explanation:  # noqa: A002
        """Explain what the first job of a scan that waits is waiting for."""
        return Explanation.from_json(self._http.json("GET", f"/scans/{part(id)}/why"))

    def delete_scan(self, id: str) -> ScanChange:  # noqa: A002
        """Remove the records and files of the jobs of a scan that have ended."""
        return ScanChange.from_json(self._http.json("DELETE", f"/scans/{part(id)}"))
