"""The caller's jobs and scans, as any later session finds them."""

from __future__ import annotations

from typing import Any

from ._client import Client
from ._job import JobHandle
from ._scan import ScanHandle


def job(id: str, **client: Any) -> JobHandle:  # noqa: A002 - the API's own word
    """Give one of your jobs: its state, log, result and files."""
    connection = Client(**client)
    return JobHandle(connection, connection.job(id))


def jobs(*, points: bool = False, **client: Any) -> list[JobHandle]:
    """List your jobs. The points of a scan are among them where ``points`` says so: ``scans()`` lists the scans."""
    connection = Client(**client)
    return [JobHandle(connection, record) for record in connection.jobs(points=points)]


def scan(id: str, **client: Any) -> ScanHandle:  # noqa: A002 - the API's own word
    """Give one of your scans: its states, points and results."""
    connection = Client(**client)
    return ScanHandle(connection, connection.scan(id))


def scans(**client: Any) -> list[ScanHandle]:
    """List your scans."""
    connection = Client(**client)
    return [ScanHandle(connection, record) for record in connection.scans()]
