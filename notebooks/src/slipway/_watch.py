"""Watch a job from the notebook: its steps and its output, merged in the order in which they come."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import Literal

from ._board import bar, points_table, status
from ._client import Client
from ._errors import SlipwayError
from ._job import JobHandle
from ._scan import LISTED, ScanHandle
from ._scans import Scan
from ._show import Screen

_SHOWN = 500_000
"""How many bytes of a job's output go onto the page: Jupyter drops what exceeds 1 MB a second (its iopub
limit), our closing line with it, and a notebook that holds more is slow to open and to save."""

Item = tuple[Literal["step", "log", "failed", "end"], str]


class WatchInterrupted(KeyboardInterrupt):
    """The user has stopped watching; the job runs on."""

    def _render_traceback_(self) -> list[str]:
        return [f"KeyboardInterrupt: {self}"]


def watch(job: JobHandle, screen: Screen, *, connect: Callable[[], Client]) -> bool:
    """Show a job's steps and output until it has ended, and say whether all of it could be shown.

    An interrupt stops the watching, not the job.
    """
    begun, output, whole = time.monotonic(), _Output(job.id, screen), True
    line, who = screen.live(), f"{job.name or 'job'} {job.id}"
    with connect() as client:
        try:
            for kind, text in _merged(JobHandle(client, job.record)):
                if kind == "log":
                    output.show(text)
                elif kind == "step" and line.in_place:
                    line.update(text, f"{who}: {text}", status(f"{who}: {text}"))
                else:
                    _show(kind, text, screen)
                whole = whole and kind != "failed" and not output.cut
        except KeyboardInterrupt:
            raise WatchInterrupted(
                f"stopped watching; job {job.id} runs on. Get it back with slipway.job({job.id!r}), "
                f"see it with slipway.jobs(), stop it with slipway.job({job.id!r}).cancel()"
            ) from None
    outcome = job.outcome
    code = "" if outcome is None or outcome.exit_code is None else f", exit code {outcome.exit_code}"
    took = f"{time.monotonic() - begun:.1f} s"
    if line.in_place:
        line.done(f"{who}: {job.state}", status(f"{who}: {job.state}{code}, {took}"))
    screen.end(f"{job.name or job.id} {job.state}{code}, {took}")
    return whole


def watch_scan(scan: ScanHandle, screen: Screen) -> None:
    """Show how many points of a scan are in which state until all have ended. An interrupt stops only the watching."""
    begun, line = time.monotonic(), screen.live()
    board = _Board(scan)

    def tell(record: Scan) -> None:
        ended = record.points - record.states.get("pending", 0) - record.states.get("running", 0)
        waits = f": {record.waiting}" if record.waiting and not record.states.get("running", 0) else ""
        line.update(
            f"{10 * ended // max(record.points, 1)}",
            f"{record.words()}{waits}",
            board.page(record) if line.in_place else "",
        )

    try:
        scan.wait(each=tell)
    except KeyboardInterrupt:
        raise WatchInterrupted(
            f"stopped watching; scan {scan.id} runs on. Get it back with slipway.scan({scan.id!r}), "
            f"stop it with slipway.scan({scan.id!r}).cancel()"
        ) from None
    text = f"{scan.name or scan.id}: {scan.record.words()}, {time.monotonic() - begun:.1f} s"
    line.done(text, board.page(scan.record) if line.in_place else "")


class _Board:
    """A scan on the page: a bar, and a table of the points that are worth a look, in bounded size."""

    def __init__(self, scan: ScanHandle) -> None:
        self._scan = scan
        self._table, self._listed, self._of = "", 0.0, ""

    def page(self, record: Scan) -> str:
        """Draw it. The points are listed anew when something has changed, the more there are the more seldom."""
        pause = max(1.0, record.points / LISTED)
        if record.words() != self._of and (record.ended or time.monotonic() - self._listed > pause):
            self._table = points_table(self._scan.client.points(self._scan.id))._repr_html_()
            self._listed, self._of = time.monotonic(), record.words()
        return bar(record) + self._table


class _Output:
    """Shows a job's output up to a limit; the rest is read all the same, so that the end is known."""

    def __init__(self, job: str, screen: Screen) -> None:
        self._job, self._screen, self._room = job, screen, _SHOWN
        self.cut = False

    def show(self, text: str) -> None:
        if self.cut:
            return
        data = text.encode()
        self.cut = len(data) > self._room
        self._screen.output(data[: self._room].decode(errors="ignore"))
        self._room -= len(data)
        if self.cut:
            self._screen.urgent(f"the output goes on and is not shown here; all of it: slipway jobs logs {self._job}")


def _show(kind: str, text: str, screen: Screen) -> None:
    if kind == "step":
        screen.line(text)
    else:
        screen.urgent(text)


def _merged(job: JobHandle) -> Iterator[Item]:
    """Read both streams in threads of their own: the caller's thread must stay open to interrupts."""
    items: queue.Queue[Item] = queue.Queue(maxsize=1000)
    stop, begun = threading.Event(), threading.Event()
    sources = (_steps(job, begun), _output(job, begun))
    readers = [threading.Thread(target=_read, args=(source, items, stop), daemon=True) for source in sources]
    for reader in readers:
        reader.start()
    open_streams = len(readers)
    try:
        while open_streams:
            kind, text = items.get()
            if kind == "end":
                open_streams -= 1
            else:
                yield kind, text
    finally:
        stop.set()


def _read(source: Iterator[Item], items: queue.Queue[Item], stop: threading.Event) -> None:
    try:
        for item in source:
            if not _put(items, item, stop):
                return
    except SlipwayError as error:
        _put(items, ("failed", f"the job runs on, but its stream is lost: {error}"), stop)
    finally:
        _put(items, ("end", ""), stop)


def _put(items: queue.Queue[Item], item: Item, stop: threading.Event) -> bool:
    while not stop.is_set():
        try:
            items.put(item, timeout=0.2)
        except queue.Full:
            continue
        return True
    return False


def _steps(job: JobHandle, begun: threading.Event) -> Iterator[Item]:
    last = ""
    for event in job.client.job_events(job.id):
        if event.final:
            break  # the last line says it, with the exit code, when the whole output is there
        if event.message and event.message != last:
            last = event.message
            yield "step", event.message
        begun.set()
    begun.set()


def _output(job: JobHandle, begun: threading.Event) -> Iterator[Item]:
    begun.wait(1.0)  # so that a job that is over at once reads in its order
    for text in job.follow():
        yield "log", text
