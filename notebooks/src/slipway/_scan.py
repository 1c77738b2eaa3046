"""The scan as a notebook holds it: its points and their states, the same object in any later session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Unpack

from ._again import ResubmitWords, RetryWords, resubmit_changes, retry_changes, states
from ._board import bar
from ._client import Client
from ._errors import NotFoundError
from ._feed import Feed
from ._job import GridError, JobHandle
from ._live import Live
from ._models import ENDED, Job
from ._option_words import called
from ._results import Results
from ._scan_points import Points, fetched
from ._scans import Explanation, PointEvent, Scan, ScanChange
from ._show import Screen, shell


def _told(scan: str, event: PointEvent) -> Job:
    """Give what an event tells of a point's job."""
    return Job(event.job, kind="job", scan=scan, point=event.point, state=event.state, host=event.host)


def _others(scan: Scan) -> str:
    """Say how the results of the points are had that are done."""
    done = scan.states.get("done", 0)
    if not done:
        return ""
    return f"[job.result() for job in slipway.scan({scan.id!r}).points.where('done')] gives the {done:,} that are there"


class ScanHandle:
    """A scan of the caller. Reading ``record``, ``states`` and ``points`` asks the service until all have ended."""

    def __init__(self, client: Client, record: Scan, *, quiet: bool = False) -> None:
        self.client = client
        self._record = record
        self._live = Live()
        self._quiet = quiet
        self.called = f"slipway.scan({record.id!r})"
        """What the notebook calls it, for advice."""

    @property
    def id(self) -> str:
        """The scan's id, by which ``slipway.scan(id)`` gives it in any later session."""
        return self._record.id

    @property
    def name(self) -> str:
        """The name it was submitted with."""
        return self._record.name

    @property
    def record(self) -> Scan:
        """All that the service says of the scan now."""
        if not self._record.ended:
            self._record = self.client.scan(self.id)
        return self._record

    @property
    def seen(self) -> Scan:
        """What the service said of the scan last, without asking it."""
        return self._record

    @property
    def states(self) -> Mapping[str, int]:
        """How many points are in each state."""
        return self.record.states

    @property
    def points(self) -> Points:
        """The points with their parameters and states now; each is a job with its log, result and files."""
        return Points(self.client, self.client.points(self.id))

    def wait(self, timeout: float | None = None, *, each: Callable[[Scan], None] = lambda scan: None) -> ScanHandle:
        """Wait until all points have ended, telling ``each`` how it goes on.

        It raises TimeoutError when that takes longer than ``timeout`` seconds; the points run on.
        """
        self._look_again()
        if not self._record.ended:
            with self.feed() as feed:
                for _ in feed.batches(timeout):
                    each(feed.record)
                self._record = feed.record
        return self

    def settle(self, record: Scan) -> None:
        """Take what is known of it from who has followed it."""
        self._record = record

    def feed(self) -> Feed:
        """Give what follows the scan, as a context."""
        return Feed(self.client, self._record)

    def as_completed(self, timeout: float | None = None) -> Iterator[JobHandle]:
        """Give the points as they end, the first to end first; ``.result()`` of one that failed raises its GridError.

        It raises TimeoutError when ``timeout`` seconds are over; the points run on.
        """
        return self._completed(timeout)

    def _completed(
        self, timeout: float | None, tell: Callable[[Scan], None] = lambda scan: None
    ) -> Iterator[JobHandle]:
        given = set[int]()
        with self.feed() as feed:
            for batch in feed.batches(timeout):
                tell(feed.record)
                for event in batch:
                    if event.state in ENDED and event.point not in given:
                        given.add(event.point)
                        yield JobHandle(self.client, _told(self.id, event), whole=False)
            self._record = feed.record

    def __iter__(self) -> Iterator[Any]:
        """Give the results in the order of the points, each as soon as it and those before it are there."""
        ready: dict[int, JobHandle] = {}
        due = 0
        line = Screen(shell(), quiet=self._quiet).live()

        def tell(record: Scan) -> None:
            if line.on_page and not (done and record.ended):
                line.update("end" if record.ended else "on", record.words(), bar(record))

        done = self._record.ended
        for job in self._completed(None, tell):
            ready[job.point] = job
            while due in ready:
                yield ready.pop(due).result()
                due += 1
        for point in sorted(ready):  # behind points that are gone
            yield ready[point].result()

    @property
    def failed(self) -> Points:
        """The points that have failed."""
        return Points(self.client, self.client.points(self.id, states=("failed",)))

    def cancel(self) -> ScanChange:
        """Cancel all points that have not ended."""
        return self._changed(self.client.change_scan(self.id, "cancel"))

    def hold(self) -> ScanChange:
        """Have the points that have not begun not start until they are released."""
        return self._changed(self.client.change_scan(self.id, "hold"))

    def release(self) -> ScanChange:
        """Release the points that are held."""
        return self._changed(self.client.change_scan(self.id, "release"))

    def requeue(self) -> ScanChange:
        """End the points that run, and have them begin anew when their turn comes."""
        return self._changed(self.client.change_scan(self.id, "requeue"))

    def retry(
        self, *, failed: bool = True, canceled: bool = False, done: bool = False, **changes: Unpack[RetryWords]
    ) -> ScanChange:
        """Try points again, each in its place: those that have failed, and others where that is said.

        ``mem``, ``time`` and ``cpus`` may be other than before. The scan goes on with them: ``results()`` waits.
        """
        meant = states(failed=failed, canceled=canceled, done=done)
        with called("{}="):
            return self._changed(self.client.retry_scan(self.id, states=meant, **retry_changes(changes)))

    def resubmit(self, **changes: Unpack[ResubmitWords]) -> ScanHandle:
        """Submit a new scan with what this one had but for the changes: name, env, cpus, mem, time, gpu, to, ..."""
        with called("{}="):
            return ScanHandle(self.client, self.client.resubmit_scan(self.id, **resubmit_changes(changes)))

    def why(self) -> Explanation:
        """Explain what the first point that waits is waiting for."""
        return self.client.why_scan(self.id)

    def delete(self) -> ScanChange:
        """Remove the records and files of the points that have ended."""
        return self._changed(self.client.delete_scan(self.id))

    def results(self, timeout: float | None = None, *, each: Callable[[int], None] = lambda done: None) -> Results:
        """Wait for the end and give the values of ``result`` in the order of the points; None where one has set none.

        Shown, it is a table with the points' parameters, and ``.table()`` gives that. When points have failed it
        raises GridError of the first; ``scan.points.where("done")`` has the others.
        """
        self.wait(timeout).check()
        values, points = list[Any](), self.points
        for job, data in fetched(points):
            values.append(job.read(data))
            each(len(values))
        return Results(values, (job.arguments for job in points))

    def check(self) -> None:
        """Raise GridError when points have failed or were canceled: that of the first such, with its traceback."""
        self._look_again()
        record = self.record
        bad = record.points - record.states.get("done", 0)
        if not record.ended or not bad:
            return
        found = Points(self.client, self.client.points(self.id, states=("failed", "canceled"), limit=1))
        error = found[0].error if found else None
        if error is None:  # begun anew meanwhile
            return
        first = found[0]
        given = ", ".join(f"{name}={value}" for name, value in first.arguments.items())
        brief = f"{bad:,} of {record.points:,} points of scan {record.name or record.id} are not done"
        raise GridError(
            f"{brief}; the first of them, point {first.record.point} ({given}): job {first.id} {error.ending}",
            job=first,
            traceback=error.traceback,
            brief=brief,
            remedy="; ".join(filter(None, [found[0].advise(self.called, error), _others(record)])),
        )

    def _look_again(self) -> None:
        """Ask once more of what has ended badly: another may have tried points again since."""
        if self._record.ended and self._record.states.get("done", 0) < self._record.points:
            with suppress(NotFoundError):  # its points are removed: what was known of them stays true
                self._record = self.client.scan(self.id)

    def _changed(self, change: ScanChange) -> ScanChange:
        self._record = change.scan
        return change

    def _line(self) -> str:
        record = self._record
        return f"scan {record.name or '(no name)'} {record.id}, {record.points:,} points: {record.words()}"

    def __repr__(self) -> str:
        """Tell id and states as last seen, without asking the service."""
        return f"<{self._line()}>"

    def _repr_html_(self) -> str:
        return bar(self._record)

    def _ipython_display_(self) -> None:
        from ._watch_scan import pages

        first = {"text/plain": repr(self), "text/html": self._repr_html_()}
        self._live.show(first, None if self._record.ended else lambda: pages(self))
