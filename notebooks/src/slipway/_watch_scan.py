"""Watch a scan from the notebook: a bar, and a row for each of the points that are worth a look, in bounded size."""

from __future__ import annotations

import heapq
import math
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from ._board import bar, parameter_names, progress_bar, short, value_words
from ._client import Client
from ._envs import Table
from ._errors import SlipwayError
from ._feed import Feed, moment
from ._models import ENDED
from ._scan import ScanHandle
from ._scans import PointEvent, Scan
from ._show import Screen
from ._watch import WatchInterrupted

ROWS = 20
"""How many points stand below a scan."""
_TICK = 0.5
"""Seconds between two drawings at most."""
_PAUSE = 0.3
"""Seconds between two looks at the last line of a point's output."""
_RANKS = {"failed": 0, "running": 0, "canceled": 1, "pending": 2, "done": 3}


def watch_scan(scan: ScanHandle, screen: Screen, points: Sequence[Mapping[str, str]] = ()) -> None:
    """Show how a scan, whose points have these parameters, goes on until it has ended.

    An interrupt stops only the watching.
    """
    begun, line = time.monotonic(), screen.live()
    try:
        with scan.feed() as feed, Tails(scan.client) as tails:

            def draw() -> str:
                return page(feed, points, tails) if line.on_page else ""

            for _ in feed.batches(tick=_TICK):
                line.update(_stage(feed.record), _words(feed.record), draw())
            tails.stop()
            scan.settle(feed.record)
            text = f"{scan.name or scan.id}: {feed.record.words()}, {time.monotonic() - begun:.1f} s"
            line.done(text, draw())
    except KeyboardInterrupt:
        line.clear(f"{scan.name or scan.id} is not watched any more")
        raise WatchInterrupted(
            f"stopped watching; scan {scan.id} runs on. Get it back with slipway.scan({scan.id!r}), "
            f"stop it with slipway.scan({scan.id!r}).cancel()"
        ) from None


def pages(scan: ScanHandle) -> Iterator[dict[str, str]]:
    """Draw a scan anew while it goes on."""
    points = [job.parameters or {} for job in scan.client.points(scan.id)]
    with scan.feed() as feed, Tails(scan.client) as tails:
        drawn = -math.inf
        for _ in feed.batches(tick=_TICK):
            if time.monotonic() - drawn >= _TICK:
                scan.settle(feed.record)
                yield {"text/plain": repr(scan), "text/html": page(feed, points, tails)}
                drawn = time.monotonic()
        scan.settle(feed.record)
        yield {"text/plain": repr(scan), "text/html": page(feed, points, tails)}


def _stage(record: Scan) -> str:
    ended = record.points - record.states.get("pending", 0) - record.states.get("running", 0)
    return f"{10 * ended // max(record.points, 1)}"


def _words(record: Scan) -> str:
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
