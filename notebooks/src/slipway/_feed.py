"""A scan's stream, read in a thread of its own, so that who waits for it stays open to interrupts and limits."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from ._client import Client
from ._models import ENDED
from ._scans import PointEvent, Scan


class Feed:
    """Follows a scan while it is entered. ``points`` says how each stood last, ``record`` how all do.

    What comes faster than it is taken is not queued: of a point only how it stands last is given.
    """

    def __init__(self, client: Client, scan: Scan) -> None:
        self._client, self._scan = client, scan
        self._turn = threading.Condition()
        self._news: dict[int, PointEvent] = {}
        self._counts: Counter[str] = Counter()
        self._over, self._stopped = False, False
        self._failure: Exception | None = None
        self.points: dict[int, PointEvent] = {}

    def __enter__(self) -> Self:
        """Begin to follow it."""
        threading.Thread(target=self._read, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Follow it no more; the connection ends with the next sign of life of the service."""
        self._stopped = True

    @property
    def record(self) -> Scan:
        """The scan as it stands."""
        with self._turn:
            known = not self._over and len(self.points) >= self._scan.points > 0
            return replace(self._scan, states=+self._counts) if known else self._scan

    def batches(self, timeout: float | None = None, tick: float | None = None) -> Iterator[list[PointEvent]]:
        """Give what is new, as it comes, until the scan has ended; with a ``tick`` also nothing, after so many seconds.

        What has ended stands in the order of its ends. It raises TimeoutError when ``timeout`` seconds are over.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            with self._turn:
                left = None if end is None else max(end - time.monotonic(), 0)
                waits = [seconds for seconds in (left, tick) if seconds is not None]
                self._turn.wait_for(lambda: self._news or self._over, min(waits, default=None))
                news, self._news = list(self._news.values()), {}
                over, failure = self._over, self._failure
            yield sorted(news, key=_when)
            if failure is not None:
                raise failure
            if over:
                return
            if end is not None and time.monotonic() >= end:
                words = self.record.words()
                raise TimeoutError(f"scan {self._scan.id} after {timeout} s: {words}; it runs on")

    def _read(self) -> None:
        try:
            for event in self._client.watch_scan(self._scan.id, wanted=lambda: not self._stopped):
                self._take(event)
        except Exception as error:  # noqa: BLE001 - whatever breaks it, it is not the scan's end
            self._failure = error
        finally:
            with self._turn:
                self._over = True
                self._turn.notify_all()

    def _take(self, event: PointEvent | Scan) -> None:
        with self._turn:
            if isinstance(event, Scan):
                self._scan = event
            else:
                if before := self.points.get(event.point):
                    self._counts[before.state] -= 1
                self._counts[event.state] += 1
                self.points[event.point] = event
                self._news.pop(event.point, None)
                self._news[event.point] = event
            self._turn.notify_all()


def _when(event: PointEvent) -> datetime:
    """Give when a point has ended; what goes on comes first."""
    return moment(event.ended) if event.state in ENDED else datetime.min.replace(tzinfo=UTC)


def moment(text: str) -> datetime:
    """Read a time as the service writes it; what is none is the beginning of time."""
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
    return read if read.tzinfo else read.replace(tzinfo=UTC)
