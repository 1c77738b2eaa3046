"""Watch a job from the notebook: its steps and its output, merged in the order in which they come."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import Literal

from ._board import exit_words, job_status, status
from ._client import Client
from ._errors import SlipwayError, UnavailableError
from ._job import JobHandle
from ._models import Job
from ._outcome import Outcome
from ._show import Screen
from ._transport import PATIENCE

_SHOWN = 500_000
"""How many bytes of a job's output go onto the page: Jupyter drops what exceeds 1 MB a second (its iopub
limit), our closing line with it, and a notebook that holds more is slow to open and to save."""

_LOOK = 1.0
"""Seconds between two looks at how far the payload is."""

_AWAY = 600.0
"""For how many seconds without the service a job is followed: it runs on, and an interrupt ends the wait."""

Item = tuple[Literal["step", "log", "look", "outage", "failed", "end"], str]


class WatchInterrupted(KeyboardInterrupt):
    """The user has stopped watching; the job runs on."""

    def _render_traceback_(self) -> list[str]:
        return [f"KeyboardInterrupt: {self}"]


def watch(job: JobHandle, screen: Screen, *, connect: Callable[[], Client]) -> bool:
    """Show a job's steps, its progress and its output until it has ended, and say whether all output could be shown.

    An interrupt stops the watching, not the job.
    """
    with connect() as client:
        watched = JobHandle(client, job.record)
        shown = _Shown(watched, job.called, screen)
        try:
            for kind, text in _merged(watched):
                shown.take(kind, text)
            client.outlast(PATIENCE, shown.outage)
            watched.wait()  # its streams may have been lost before its end
        except KeyboardInterrupt:
            shown.leave()
            raise WatchInterrupted(
                f"stopped watching; job {job.id} runs on. Get it back with slipway.job({job.id!r}), "
                f"see it with slipway.jobs(), stop it with slipway.job({job.id!r}).cancel()"
            ) from None
        except UnavailableError as error:
            error.remedy = f"job {job.id} runs on: slipway.job({job.id!r}) gives it back when the service answers"
            raise
        return shown.end(watched.record)


class _Shown:
    """What the page has of a job: one line of how it stands, and its output."""

    def __init__(self, job: JobHandle, called: str, screen: Screen) -> None:
        self._job, self._called, self._screen = job, called, screen
        self._begun, self._output, self._line = time.monotonic(), _Output(job.id, screen), screen.live()
        self._who, self._step, self._lost = f"{job.name or 'job'} {job.id}", "", False

    def take(self, kind: str, text: str) -> None:
        """Show what has come."""
        if kind == "log":
            self._output.show(text)
        elif kind == "outage":
            self.outage(text)
        elif kind == "failed":
            if not self._lost:
                self._screen.urgent(text)
            self._lost = True
        else:
            self._step = text or self._step
            self._stand()

    def outage(self, text: str) -> None:
        """Say that the service is away, or is back."""
        words = text.removeprefix("slipway: ")
        self._line.update(words, words, status(f"{self._who}: {words}"))

    def _stand(self) -> None:
        if not self._step:
            return
        progress = self._job.seen.progress
        words = f"{self._step}: {progress}" if progress and self._line.in_place else self._step
        took = f"{time.monotonic() - self._begun:.0f} s"
        self._line.update(self._step, words, job_status(f"{self._who}: {self._step}, {took}", progress))

    def leave(self) -> None:
        """Say that it is not watched any more."""
        self._line.clear(f"{self._who} is not watched any more")

    def end(self, record: Job) -> bool:
        """Say how the job has ended, once: where a line changes on a page that says it. Give whether all was shown."""
        outcome = record.outcome or Outcome()
        took = outcome.wall or time.monotonic() - self._begun
        words = f"{record.state}{exit_words(record)}, {took:.1f} s"
        if self._line.on_page:
            self._line.clear(f"{record.name or record.id} {words}", status(f"{self._who}: {words}"))
            self._screen.settle()
        else:
            self._line.clear("")
            self._screen.end(f"{record.name or record.id} {words}")
        if self._lost:
            self._screen.urgent(f"output may be missing here: {self._called}.log() has all of it")
        return not (self._lost or self._output.cut)


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


def _merged(job: JobHandle) -> Iterator[Item]:
    """Read both streams in threads of their own: the caller's thread must stay open to interrupts."""
    items: queue.Queue[Item] = queue.Queue(maxsize=1000)
    stop, begun = threading.Event(), threading.Event()

    def outage(text: str) -> None:
        _put(items, ("outage", text), stop)

    job.client.outlast(_AWAY, outage)
    for source in (_steps(job, begun), _output(job, begun)):
        threading.Thread(target=_read, args=(source, items, stop), daemon=True).start()
    threading.Thread(target=_look, args=(job, items, stop), daemon=True).start()
    open_streams = 2
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
        _put(items, ("failed", f"the job runs on, and cannot be followed any more: {error.message}"), stop)
    finally:
        _put(items, ("end", ""), stop)


def _look(job: JobHandle, items: queue.Queue[Item], stop: threading.Event) -> None:
    """Look how far the payload is; a look that fails is no loss."""
    while not stop.wait(_LOOK) and not job.seen.ended:
        try:
            progress = job.record.progress
        except SlipwayError:
            continue
        if progress or job.seen.ended:
            _put(items, ("look", ""), stop)


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
