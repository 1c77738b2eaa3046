"""The scan as a notebook holds it: its points, states and results, the same in any later session."""

from __future__ import annotations

import importlib.util
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import IO, Any, TypeVar, Unpack, overload

from ._client import Client
from ._display import Live, Screen, Table, bar, exit_words, parameter_names, points_table, shell, short, value_words
from ._errors import ConflictError, NotFoundError
from ._jobs import GridError, JobHandle
from ._model_bases import ENDED
from ._models import Explanation, Job, PointEvent, Scan, ScanChange
from ._options import ResubmitWords, RetryWords, called, resubmit_changes, retry_changes, states
from ._scan_live import TICK, Feed, Tails, page

_SHOWN = 50
"""How many results a table shows."""


class Results(Sequence[Any]):
    """The values of ``result`` in the order of the points; ``parameters`` are those of each.

    Neither changes, so that they stay together: ``list(results)`` is a list to change.
    """

    def __init__(self, values: Iterable[Any], parameters: Iterable[Mapping[str, str]]) -> None:
        self._values = tuple(values)
        self.parameters = tuple(dict(given) for given in parameters)

    def __len__(self) -> int:
        """Count them."""
        return len(self._values)

    @overload
    def __getitem__(self, at: int) -> Any: ...
    @overload
    def __getitem__(self, at: slice) -> Results: ...
    def __getitem__(self, at: int | slice) -> Any:
        """Give a value, or some of them with their parameters."""
        return Results(self._values[at], self.parameters[at]) if isinstance(at, slice) else self._values[at]

    def __eq__(self, other: object) -> bool:
        """Compare the values, also with those of a list."""
        return list(self) == list(other) if isinstance(other, Results | list) else NotImplemented

    __hash__ = None  # type: ignore[assignment] # as of a list

    def __repr__(self) -> str:
        """Write them as a list."""
        return repr(list(self))

    def table(self) -> Any:
        """Give them with the points' parameters: a DataFrame of pandas where there is one, else a plain table.

        A result that is a dict has a column for each of its keys; one that a parameter has too ends in ``_result``.
        """
        if importlib.util.find_spec("pandas") is None:
            return self._table()
        import pandas  # type: ignore[import-not-found, import-untyped, unused-ignore]

        return pandas.DataFrame(self._rows())

    def _rows(self) -> list[dict[Any, Any]]:
        from ._payload.runner import literal

        rows = []
        for given, value in zip(self.parameters, self, strict=True):
            row: dict[Any, Any] = {name: literal(text) for name, text in given.items()}
            for name, part in (value if isinstance(value, Mapping) else {"result": value}).items():
                while name in row:
                    name = f"{name}_result"
                row[name] = part
            rows.append(row)
        return rows

    def _table(self) -> Table:
        names = parameter_names(self.parameters)
        shown = list(zip(self.parameters, self, strict=True))[:_SHOWN]
        rows = [
            (str(at), *(short(value_words(given.get(name, ""))) for name in names), _written(value))
            for at, (given, value) in enumerate(shown)
        ]
        more = len(self) - len(rows)
        return Table(("point", *names, "result"), rows, [f"and {more:,} more"] if more else [])

    def _repr_html_(self) -> str:
        return self._table()._repr_html_()

    def __reduce__(self) -> Any:
        """Elsewhere it is a list."""
        return list, (list(self),)


def _written(value: Any) -> str:
    try:
        return short(repr(value))
    except Exception as error:  # noqa: BLE001 - a user's __repr__ may raise anything
        return f"({type(value).__name__}, whose text raises {type(error).__name__})"


_LISTED = 50
"""How many points a table shows."""
_AT_ONCE = 8
"""How many results are fetched at once."""


class Points(Sequence[JobHandle]):
    """The points of a scan in their order. Shown, it is a table of them as last seen."""

    def __init__(self, client: Client, jobs: Sequence[Job]) -> None:
        self._client, self._jobs = client, list(jobs)

    def __len__(self) -> int:
        """Count them."""
        return len(self._jobs)

    @overload
    def __getitem__(self, at: int) -> JobHandle: ...
    @overload
    def __getitem__(self, at: slice) -> Points: ...
    def __getitem__(self, at: int | slice) -> JobHandle | Points:
        """Give a point as a job, or some of them."""
        if isinstance(at, slice):
            return Points(self._client, self._jobs[at])
        return JobHandle(self._client, self._jobs[at])

    def __iter__(self) -> Iterator[JobHandle]:
        """Go through them."""
        return (JobHandle(self._client, job) for job in self._jobs)

    def where(self, state: str) -> Points:
        """Give those in a state: pending, running, done, failed or canceled."""
        return Points(self._client, [job for job in self._jobs if job.state == state])

    def table(self) -> Table:
        """Give them as a table, with a column for each parameter and for what they have used."""
        shown = self._jobs[:_LISTED]
        more = len(self._jobs) - len(shown)
        remarks = [f"and {more:,} more" for _ in [more] if more] + ["no points are left" for _ in [shown] if not shown]
        return points_table(shown, remarks)

    def __repr__(self) -> str:
        """Write the table."""
        return repr(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def fetched(points: Points) -> Iterator[tuple[JobHandle, IO[bytes] | None]]:
    """Fetch the results of points that are done, in their order, some of them at once and never far ahead."""
    under_way = deque[tuple[JobHandle, Future[IO[bytes] | None]]]()
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for job in points:
            under_way.append((job, pool.submit(job.fetch)))
            if len(under_way) > 2 * _AT_ONCE:
                first, data = under_way.popleft()
                yield first, data.result()
        for first, data in under_way:
            yield first, data.result()


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
        first = {"text/plain": repr(self), "text/html": self._repr_html_()}
        self._live.show(first, None if self._record.ended else lambda: pages(self))


def pages(scan: ScanHandle) -> Iterator[dict[str, str]]:
    """Draw a scan anew while it goes on."""
    points = [job.parameters or {} for job in scan.client.points(scan.id)]
    with scan.feed() as feed, Tails(scan.client) as tails:
        drawn = -math.inf
        for _ in feed.batches(tick=TICK):
            if time.monotonic() - drawn >= TICK:
                scan.settle(feed.record)
                yield {"text/plain": repr(scan), "text/html": page(feed, points, tails)}
                drawn = time.monotonic()
        scan.settle(feed.record)
        yield {"text/plain": repr(scan), "text/html": page(feed, points, tails)}


H = TypeVar("H")


def job(id: str, **client: Any) -> JobHandle:  # noqa: A002 - the API's own word
    """Give one of your jobs, by its ID or its name: its state, log, result and files."""
    connection = Client(**client)
    if not id.startswith("j-"):
        id = _named(id, connection.jobs(points=False), "jobs")  # noqa: A001
    return JobHandle(connection, connection.job(id))


def jobs(*, points: bool = False, **client: Any) -> Jobs:
    """List your jobs as a table, the newest last: a sequence, so that ``slipway.jobs()[-1]`` is that.

    The points of a scan are among them where ``points`` says so: ``scans()`` lists the scans.
    """
    connection = Client(**client)
    return Jobs(JobHandle(connection, record) for record in connection.jobs(points=points))


def scan(id: str, **client: Any) -> ScanHandle:  # noqa: A002 - the API's own word
    """Give one of your scans, by its ID or its name: its states, points and results."""
    connection = Client(**client)
    if not id.startswith("scan-"):
        id = _named(id, connection.scans(), "scans")  # noqa: A001
    return ScanHandle(connection, connection.scan(id))


def _named(name: str, listed: Sequence[Job] | Sequence[Scan], what: str) -> str:
    """Give the ID of the one that has a name."""
    found = [record.id for record in listed if record.name == name]
    if not found:
        raise NotFoundError(f"none of your {what} is called {name!r}", remedy=f"slipway.{what}() lists them")
    if len(found) > 1:
        raise ConflictError(
            f"{len(found)} of your {what} are called {name!r}", remedy=f"name one by its ID; {found[-1]} is the newest"
        )
    return found[0]


def scans(**client: Any) -> Scans:
    """List your scans as a table, the newest last."""
    connection = Client(**client)
    return Scans(ScanHandle(connection, record) for record in connection.scans())


class _Listed(tuple[H, ...]):
    """Things that the caller has, as they were when she asked. Shown, they are a table."""

    def table(self) -> Table:
        """Give them as a table."""
        raise NotImplementedError

    def __repr__(self) -> str:
        """Write the table."""
        return repr(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


class Jobs(_Listed[JobHandle]):
    """Jobs; each is what ``slipway.job(id)`` gives."""

    def table(self) -> Table:
        """Give them with when they were submitted, how they stand and how long they have run."""
        head = ("id", "name", "state", "submitted", "ran")
        rows = [_job_row(job.seen) for job in self]
        return Table(head, rows, [*_none(self, "jobs"), "your scans: slipway.scans()"])


class Scans(_Listed[ScanHandle]):
    """Scans; each is what ``slipway.scan(id)`` gives."""

    def table(self) -> Table:
        """Give them with when they were submitted and how their points stand."""
        rows = [(scan.id, scan.name, scan.seen.words(), _minute(scan.seen.created)) for scan in self]
        return Table(("id", "name", "points", "submitted"), rows, _none(self, "scans"))


def _job_row(record: Job) -> tuple[str, ...]:
    wall = record.outcome.wall if record.ended and record.outcome else None
    state = (record.state or record.phase) + exit_words(record)
    return record.id, record.name, state, _minute(record.created), f"{wall:.1f} s" if wall else ""


def _minute(moment: str) -> str:
    return moment[:16].replace("T", " ")


def _none(listed: Sequence[object], what: str) -> list[str]:
    return [] if listed else [f"you have no {what}"]
