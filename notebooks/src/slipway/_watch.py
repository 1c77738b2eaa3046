"""Watch a job or a scan from the notebook until it has ended: its steps and output, in the order in which they come."""

from __future__ import annotations

import html
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

from ._client import Client
from ._display import Screen, exit_words, job_status, status
from ._errors import SlipwayError, UnavailableError
from ._jobs import JobHandle
from ._models import Job, Outcome
from ._scan_live import TICK, Tails, page, scan_words, stage
from ._scans import ScanHandle
from ._transport import PATIENCE

_LINES = 500
"""How many lines of a job's output go onto the page from its beginning, and how many from its end."""

_BYTES = 250_000
"""How many bytes these have at most: Jupyter drops what exceeds 1 MB a second (its iopub limit), our closing line
with it, and a notebook that holds more is slow to open and to save."""

_LAST = 120
"""How many characters of the last line are shown while the output goes on."""

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
    """Show a job's steps, its progress and its output until it has ended.

    It returns whether the end of its output could be shown.
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
        self._begun, self._output, self._line = time.monotonic(), _Output(called, screen), screen.live()
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
        elif kind == "step" or self._line.in_place:  # a look is for what changes: elsewhere the step stands there
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
        self._output.end()
        self._line.clear(f"{self._who} is not watched any more")

    def end(self, record: Job) -> bool:
        """Say how the job has ended, once: where a line changes on a page that says it.

        It returns whether the end of its output is shown.
        """
        self._output.end()
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
        return not self._lost


class _Output:
    """Shows the head of a job's output as it comes, and its tail at its end; between them a line counts the others."""

    def __init__(self, called: str, screen: Screen) -> None:
        self._called, self._screen = called, screen
        self._lines, self._room = _LINES, _BYTES  # of the head
        self._more = screen.live()
        self._tail: deque[str] = deque()
        self._held, self._left_out = 0, 0  # bytes of the tail, lines between head and tail
        self._cut = False  # the tail begins within a line

    def show(self, text: str) -> None:
        """Show what belongs to the head, and keep what may belong to the tail."""
        if self._lines:
            head, text = self._split(text)
            self._screen.output(head)
        for line in text.splitlines(keepends=True) if text else ():
            self._keep(line)
        if self._tail:
            self._tell()

    def _split(self, text: str) -> tuple[str, str]:
        """Take from a text what the head has room for."""
        end = 0
        while self._lines and (newline := text.find("\n", end)) >= 0:
            end, self._lines = newline + 1, self._lines - 1
        head = text[:end] if not self._lines else text
        data = head.encode()
        if len(data) > self._room:
            head, self._lines = data[: self._room].decode(errors="ignore"), 0
        self._room -= len(data)
        return head, text[len(head) :]

    def _keep(self, line: str) -> None:
        if self._tail and not self._tail[-1].endswith("\n"):
            begun = self._tail.pop()
            self._held -= len(begun)
            line = begun + line
        self._tail.append(line)
        self._held += len(line)
        while len(self._tail) > _LINES or (self._held > _BYTES and len(self._tail) > 1):
            self._held -= len(self._tail.popleft())
            self._left_out += 1
        if self._held > _BYTES:
            self._tail[0], self._cut = self._tail[0][-_BYTES:], True
            self._held = len(self._tail[0])

    def _tell(self) -> None:
        """Say that the output goes on; on a page also what its last line is."""
        words = f"the output goes on, and its last {_LINES} lines come at its end; all of it: {self._called}.log()"
        if self._more.on_page:
            last = self._tail[-1].rstrip()[-_LAST:]
            now = f"{words}\n{self._left_out + len(self._tail):,} lines more, the last: {last}"
            self._more.update("more", now, f"<pre style='margin:0'>▸ {html.escape(now)}</pre>")
        elif self._more.in_place:
            self._more.update("more", words)

    def end(self) -> None:
        """Show the tail."""
        if not self._tail:
            return
        words = f"{self._left_out:,} line{'s' * (self._left_out != 1)} left out here" if self._left_out else ""
        if self._cut:
            words = words or "the beginning of a long line is left out here"
        words = f"{words}; all of it: {self._called}.log()" if words else "the rest of the output:"
        if self._more.on_page:
            self._more.clear(words)
        elif self._left_out or self._cut:
            self._screen.urgent(words)
        self._screen.output("".join(self._tail))
        self._tail.clear()


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


def watch_scan(scan: ScanHandle, screen: Screen, points: Sequence[Mapping[str, str]] = ()) -> None:
    """Show how a scan, whose points have these parameters, goes on until it has ended.

    An interrupt stops only the watching.
    """
    begun, line = time.monotonic(), screen.live()
    try:
        with scan.feed() as feed, Tails(scan.client) as tails:

            def draw() -> str:
                return page(feed, points, tails) if line.on_page else ""

            for _ in feed.batches(tick=TICK):
                line.update(stage(feed.record), scan_words(feed.record), draw())
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
