"""The points of a scan, each of them a job."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import IO, overload

from ._board import points_table
from ._client import Client
from ._envs import Table
from ._job import JobHandle
from ._models import Job

_SHOWN = 50
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
        shown = self._jobs[:_SHOWN]
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
