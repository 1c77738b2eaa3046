"""The caller's jobs and scans, as any later session finds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from ._board import exit_words
from ._client import Client
from ._envs import Table
from ._job import JobHandle
from ._models import Job
from ._scan import ScanHandle

H = TypeVar("H")


def job(id: str, **client: Any) -> JobHandle:  # noqa: A002 - the API's own word
    """Give one of your jobs: its state, log, result and files."""
    connection = Client(**client)
    return JobHandle(connection, connection.job(id))


def jobs(*, points: bool = False, **client: Any) -> Jobs:
    """List your jobs as a table, the newest last: a sequence, so that ``slipway.jobs()[-1]`` is that.

    The points of a scan are among them where ``points`` says so: ``scans()`` lists the scans.
    """
    connection = Client(**client)
    return Jobs(JobHandle(connection, record) for record in connection.jobs(points=points))


def scan(id: str, **client: Any) -> ScanHandle:  # noqa: A002 - the API's own word
    """Give one of your scans: its states, points and results."""
    connection = Client(**client)
    return ScanHandle(connection, connection.scan(id))


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
        return Table(head, [_job_row(job.seen) for job in self], _none(self, "jobs"))


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
