"""A scan while it goes on: its stream of events, and how it looks meanwhile, in bounded size."""

from __future__ import annotations

import heapq
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from ._client import Client
from ._display import Table, bar, parameter_names, progress_bar, short, value_words
from ._errors import SlipwayError
from ._model_bases import ENDED
from ._models import PointEvent, Scan


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


ROWS = 20
"""How many points stand below a scan."""
TICK = 0.5
"""Seconds between two drawings at most."""
_PAUSE = 0.3
"""Seconds between two looks at the last line of a point's output."""
_RANKS = {"failed": 0, "running": 0, "canceled": 1, "pending": 2, "done": 3}


def stage(record: Scan) -> str:
    ended = record.points - record.states.get("pending", 0) - record.states.get("running", 0)
    return f"{10 * ended // max(record.points, 1)}"


def scan_words(record: Scan) -> str:
    waits = f": {record.waiting}" if record.waiting and not record.states.get("running", 0) else ""
    return f"{record.words()}{waits}"


def page(feed: Feed, points: Sequence[Mapping[str, str]], tails: Tails) -> str:
    """Draw a scan as it stands."""
    record = feed.record
    return bar(record) + live_table(feed.points.copy(), record, points, tails)._repr_html_()


def live_table(
    events: Mapping[int, PointEvent], record: Scan, points: Sequence[Mapping[str, str]], tails: Tails
) -> Table:
    """Give the points that are worth a look first: those that failed and those that run, then those that wait."""
    chosen = _choose(events)
    tails.watch([event.job for event in chosen if event.state == "running"])
    given = {event.point: points[event.point] if event.point < len(points) else {} for event in chosen}
    names = parameter_names(given.values())
    more = record.points - len(chosen)
    head = ["point", *names, "state", "where", "slice", "progress", "time", "last line"]
    rows = [
        _row(event, [short(value_words(given[event.point].get(name, ""))) for name in names], tails) for event in chosen
    ]
    kept = [at for at in range(len(head)) if at < 2 + len(names) or any(row[at] for row in rows)]
    return Table(
        [head[at] for at in kept],
        [[row[at] for at in kept] for row in rows],
        [f"and {more:,} more" for _ in [more] if more > 0],
    )


def _choose(events: Mapping[int, PointEvent]) -> list[PointEvent]:
    """Choose what is shown: where much has failed, half of the room is for what runs."""
    first = heapq.nsmallest(ROWS, events.values(), key=lambda event: (_RANKS.get(event.state, 4), event.point))
    failed = [event for event in events.values() if event.state == "failed"]
    running = [event for event in events.values() if event.state == "running"]
    if len(failed) + len(running) > ROWS:
        room = max(ROWS // 2, ROWS - len(running))
        bad = heapq.nsmallest(room, failed, key=lambda event: event.point)
        first = bad + heapq.nsmallest(ROWS - len(bad), running, key=lambda event: event.point)
    return sorted(first, key=lambda event: (event.state != "failed", _RANKS.get(event.state, 4), event.point))


def _row(event: PointEvent, given: Sequence[str], tails: Tails) -> list[str]:
    state = event.state + (f" (try {event.attempt})" if event.attempt > 1 else "")
    remark = tails.of(event.job) if event.state == "running" else event.reason
    where = [state, short(event.host, 40), short(event.slice, 40)]
    return [str(event.point), *given, *where, progress_bar(event.progress), _took(event), short(remark, 120)]


def _took(event: PointEvent) -> str:
    """Say how long a point has run: its end may have been seen long after it was."""
    if event.wall:
        return _clock(event.wall)
    if not event.up:
        return ""
    end = moment(event.ended) if event.state in ENDED else datetime.now(UTC)
    return _clock(max((end - moment(event.up)).total_seconds(), 0))


def _clock(time: float) -> str:
    seconds = int(time)
    hours, minutes = divmod(seconds // 60, 60)
    return f"{seconds} s" if seconds < 60 else f"{hours}:{minutes:02}:{seconds % 60:02}"


class Tails:
    """The last lines of the output of the points that are shown, looked at one after another."""

    def __init__(self, client: Client, pause: float = _PAUSE) -> None:
        self._client, self._pause = client, pause
        self._jobs: list[str] = []
        self._lines: dict[str, str] = {}
        self._over = threading.Event()

    def __enter__(self) -> Tails:
        """Begin to look."""
        threading.Thread(target=self._read, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Look no more."""
        self.stop()

    def stop(self) -> None:
        """Look no more."""
        self._over.set()

    def watch(self, jobs: Sequence[str]) -> None:
        """Say which jobs are shown; what was known of others is forgotten."""
        self._jobs = list(jobs)
        self._lines = {job: self._lines[job] for job in jobs if job in self._lines}

    def of(self, job: str) -> str:
        """Give the last line of a job's output, as far as it is known."""
        return self._lines.get(job, "")

    def _read(self) -> None:
        at = 0
        while not self._over.wait(self._pause):
            jobs = self._jobs
            if not jobs:
                continue
            job, at = jobs[at % len(jobs)], at + 1
            try:
                self._lines[job] = printable(self._client.job_log_tail(job))
            except SlipwayError:
                continue  # it is a remark


def printable(text: str, most: int = 200) -> str:
    """Give the last line of a text without what moves a cursor; of one that was written over, what is seen."""
    lines = [line for line in text[-4 * most :].replace("\r", "\n").split("\n") if line.strip()]
    return "".join(char if char.isprintable() else " " for char in lines[-1])[:most] if lines else ""
