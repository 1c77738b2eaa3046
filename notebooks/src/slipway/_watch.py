"""Watch a job from the notebook: its steps and its output, merged in the order in which they come."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import Literal

from ._board import job_status, status
from ._client import Client
from ._errors import SlipwayError
from ._job import JobHandle
from ._show import Screen

_SHOWN = 500_000
"""How many bytes of a job's output go onto the page: Jupyter drops what exceeds 1 MB a second (its iopub
limit), our closing line with it, and a notebook that holds more is slow to open and to save."""

_LOOK = 1.0
"""Seconds between two looks at how far the payload is."""

Item = tuple[Literal["step", "log", "look", "failed", "end"], str]


class WatchInterrupted(KeyboardInterrupt):
    """The user has stopped watching; the job runs on."""

    def _render_traceback_(self) -> list[str]:
        return [f"KeyboardInterrupt: {self}"]


def watch(job: JobHandle, screen: Screen, *, connect: Callable[[], Client]) -> bool:
    """Show a job's steps, its progress and its output until it has ended, and say whether all output could be shown.

    An interrupt stops the watching, not the job.
    """
    begun, output, whole = time.monotonic(), _Output(job.id, screen), True
    line, who, step = screen.live(), f"{job.name or 'job'} {job.id}", ""
    with connect() as client:
        watched = JobHandle(client, job.record)
        try:
            for kind, text in _merged(watched):
                if kind == "log":
                    output.show(text)
                elif kind == "failed":
                    screen.urgent(text)
                step = text if kind == "step" else step
                whole = whole and kind != "failed" and not output.cut
                if step and kind in ("step", "look"):
                    progress = watched.seen.progress
                    words = f"{step}: {progress}" if progress else step
                    took = f"{time.monotonic() - begun:.0f} s"
                    line.update(step, words if line.in_place else step, job_status(f"{who}: {step}, {took}", progress))
        except KeyboardInterrupt:
            line.clear(f"{who} is not watched any more")
            raise WatchInterrupted(
                f"stopped watching; job {job.id} runs on. Get it back with slipway.job({job.id!r}), "
                f"see it with slipway.jobs(), stop it with slipway.job({job.id!r}).cancel()"
            ) from None
    outcome = job.outcome
    code = "" if outcome is None or outcome.exit_code is None else f", exit code {outcome.exit_code}"
    took = f"{time.monotonic() - begun:.1f} s"
    line.clear(f"{who}: {job.state}", status(f"{who}: {job.state}{code}, {took}"))
    screen.end(f"{job.name or job.id} {job.state}{code}, {took}")
    return whole


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
        _put(items, ("failed", f"the job runs on, but its stream is lost: {error}"), stop)
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
