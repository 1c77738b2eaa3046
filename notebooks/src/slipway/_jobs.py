"""The job as a notebook holds it: state, log, result, files and what it displayed, the same in any later session."""

from __future__ import annotations

import base64
import codecs
import json
import math
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Unpack

from ._client import Client
from ._decode import items, text, whole
from ._display import Live, escape, exit_words, job_card
from ._errors import NotFoundError, SlipwayError
from ._model_bases import ENDED
from ._models import Explanation, Job, JobFile, Outcome
from ._options import ResubmitWords, RetryWords, called, resubmit_changes, retry_changes, states
from ._payload.runner import OUTCOME, RESULT
from ._payload.shown import KINDS, MANIFEST, MOST, MOST_BYTES, PREFIX
from ._payload.values import Cargo, UnfitError, spool
from ._units import amount, memory, memory_bytes, memory_words

_LONGEST = 2.0
"""Seconds between two questions, once it takes long."""


class Patience:
    """Pauses between questions, longer each time, until ``timeout`` seconds from now; None: for ever."""

    def __init__(self, timeout: float | None, first: float) -> None:
        self._end = None if timeout is None else time.monotonic() + timeout
        self._first = self._pause = first

    def soon(self) -> None:
        """Ask soon again: something has happened."""
        self._pause = self._first

    def pause(self) -> bool:
        """Sleep a little. It gives False at once when the time would be up by then."""
        if self._end is not None and time.monotonic() + self._pause > self._end:
            return False
        time.sleep(self._pause)
        self._pause = min(self._pause * 1.5, _LONGEST)
        return True


class GridError(SlipwayError):
    """The payload of a job failed: ``traceback`` is the remote one, ``job`` has the log and the files."""

    code = "job_failed"

    def __init__(self, message: str, *, job: JobHandle, traceback: str = "", remedy: str = "", brief: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.job = job
        self.arguments = dict(job.arguments)  # of the point; empty for a job that is none
        self.traceback = traceback
        self.ending = message  # without whose it is
        self.shown = False  # the page has the traceback already, at the end of the job's log
        self.brief = brief or message
        self.carded = False  # the page has all of it already
        self.stale = False  # the notebook has a result from before, which this job has not replaced

    @property
    def exit_code(self) -> int | None:
        """The payload's exit code; None when it never ran."""
        outcome = self.job.outcome
        return outcome.exit_code if outcome else None

    def _render_traceback_(self) -> list[str]:
        above = [] if self.shown else self.traceback.rstrip().splitlines()
        stale = " (result is still the value from before)" if self.stale else ""
        if self.carded:
            return [f"GridError: {self.brief}{stale}"]
        return [*above, f"GridError: {self.message}{stale}", *self._advice()]

    def _repr_html_(self) -> str:
        return error_card(self)


class ResultError(SlipwayError):
    """The job ended well but its result cannot be had; the message says why."""

    code = "result"


def ending(state: str, outcome: Outcome, report: dict[str, Any]) -> str:
    """Say how a job has ended that is not done."""
    if state == "canceled" or outcome.canceled:
        return "was canceled"
    code = "" if outcome.exit_code is None else f" with exit code {outcome.exit_code}"
    who = report.get("who") or "the cell"
    if report.get("kind") == "error":
        return f"failed{code}: {who} raised {report.get('type')}: {report.get('message')}"
    text = str(report.get("traceback") or "").partition("\n")[0]
    if report.get("kind") == "result" and text:
        return f"ran to its end, but {text}"
    if report.get("kind") == "inputs" and text:
        return f"failed{code}: {text}"
    if report.get("kind") == "exit":
        return f"failed{code}: {who} called exit"
    return f"failed{code}" + (f": {outcome.reason}" if outcome.reason else "")


def load(job: JobHandle, data: IO[bytes]) -> Any:
    """Read a result here; what it lacks is named."""
    cargo = Cargo(data)
    try:
        cargo.check()
        return cargo.value()
    except Exception as error:
        there = "; ".join([f"Python {cargo.record.get('python')} there", *cargo.differences()]) if cargo.record else ""
        lacking = " ".join(error.lacking) if isinstance(error, UnfitError) else ""
        lacking = lacking or (error.name or "" if isinstance(error, ModuleNotFoundError) else "")
        said = str(error) if isinstance(error, UnfitError) else f"{type(error).__name__}: {error}"
        raise ResultError(
            f"job {job.id} has sent a result{f' ({there})' * bool(there)} that cannot be read here: {said}",
            remedy=f"%pip install {lacking}, then slipway.job({job.id!r}).result()"
            if lacking
            else "set result to plain data (numbers, text, lists, arrays)",
        ) from error


def error_card(error: GridError) -> str:
    """Write an error for a page: what happened, what to do, and the traceback folded below."""
    todo = f"<p>What to do: {escape(error.remedy)}</p>" if error.remedy else ""
    below = ""
    if error.traceback:
        below = (
            f"<details><summary>Traceback of the job</summary><pre>{escape(error.traceback[-20_000:])}</pre></details>"
        )
    return f'<section role="alert"><p><strong>{escape(error.message)}</strong></p>{todo}{below}</section>'


def advice(record: Job, outcome: Outcome, report: Mapping[str, Any], called: str = "") -> str:
    """Say what to do: by what the job has noted of its end, else by its cause, else in the service's words.

    ``called`` is what the notebook calls the job, or its scan.
    """
    called = called or f"slipway.job({record.id!r})"
    if missing := report.get("missing"):
        return (
            f"%pip install the package of {missing} in the session, and submit again; "
            f"if {missing} is a file of yours, import it in the cell or the function itself: then it goes along"
        )
    if outcome.cause == "output" and (packed := [name for name in record.out if name in _left(report)]):
        return f"{packed[0]} is a directory, and only files come back: pack it into one, and name that with --out"
    if report.get("type") == "FileNotFoundError":
        return outcome.remedy  # how a file comes to a job
    cause = outcome.cause or _guess(record, outcome, report)
    return _BY_CAUSE[cause](record, outcome, called) if cause in _BY_CAUSE else outcome.remedy


def _left(report: Mapping[str, Any]) -> Mapping[str, Any]:
    left = report.get("directories")
    return left if isinstance(left, Mapping) else {}


def _guess(record: Job, outcome: Outcome, report: Mapping[str, Any]) -> str:
    words = f"{report.get('type')} {report.get('message')}".lower()
    if "out of memory" in words and record.gpu not in ("", "none"):
        return "gpu-memory"
    return "memory" if report.get("type") == "MemoryError" or "memory" in outcome.reason.lower() else ""


def _memory(record: Job, outcome: Outcome, called: str) -> str:
    peak = outcome.max_rss or 0
    said = f"it had {memory(peak)} when it ended: " if peak else ""
    more = math.ceil(1.5 * max(memory_bytes(record.memory), peak) / 2**30) or 8  # as the service's own words
    return f'{said}{called}.retry(mem="{more}G") tries it with more than {memory_words(record.memory) or "the default"}'


def _time(record: Job, outcome: Outcome, called: str) -> str:
    seconds = _seconds(record.time_limit)
    more = f"{math.ceil(2 * seconds / 3600)}h" if seconds >= 1800 else f"{max(math.ceil(2 * seconds / 60), 1)}m"
    limit = f"it may run {record.time_limit}: " if record.time_limit else ""
    return f'{limit}{called}.retry(time="{more if seconds else "2h"}") gives it more'


def _gpu_memory(record: Job, outcome: Outcome, called: str) -> str:
    peak = f" (it had {memory(outcome.gpu.memory)})" if outcome.gpu and outcome.gpu.memory else ""
    held = record.gpu if record.gpu not in ("", "none") else "its slice"
    return (
        f"{held} has not enough memory{peak}: use smaller batches, or a larger slice, as "
        f'{called}.resubmit(gpu="whole"); slipway.gpus() lists them'
    )


def _signal(record: Job, outcome: Outcome, called: str) -> str:
    if outcome.signal in (4, 7, 8, 11):
        return f"a library has crashed: the end of {called}.log() says where; try it with smaller input"
    return outcome.remedy or f"{called}.retry() tries it again"


def _output(record: Job, outcome: Outcome, called: str) -> str:
    return f"write the files of --out into the directory that the cell begins in; {called}.log() says what it has done"


def _dependency(record: Job, outcome: Outcome, called: str) -> str:
    first = f"slipway.job({record.after[0]!r})" if record.after else "what it waits for"
    return f"see to {first} first, then {called}.retry()"


def _again(record: Job, outcome: Outcome, called: str) -> str:
    said = f"{outcome.remedy.rstrip('.')}; " if outcome.remedy else ""
    return f"{said}{called}.retry() tries it again"


def _own_words(record: Job, outcome: Outcome, called: str) -> str:
    """Say nothing of what its traceback says."""
    return ""


_BY_CAUSE = {
    "exit": _own_words,
    "memory": _memory,
    "time": _time,
    "gpu-memory": _gpu_memory,
    "signal": _signal,
    "output": _output,
    "dependency": _dependency,
    "disk": _again,
    "start": _again,
    "lost": _again,
    "canceled": _again,
}


def _seconds(text: str) -> float:
    """Read a duration as the service writes it: 1h0m0s."""
    units = {"h": 3600.0, "m": 60.0, "s": 1.0}
    return sum(float(number) * units[unit] for number, unit in re.findall(r"([\d.]+)([hms])(?![a-z])", text))


@dataclass(frozen=True)
class OutputFile:
    """A file that a job has left."""

    name: str
    size: int
    job: JobHandle

    def read(self) -> bytes:
        """Fetch the content."""
        return self.job.client.job_file(self.job.id, self.name)

    def save(self, to: str | Path = ".") -> Path:
        """Write the file into a directory, or to a path, and give where it is."""
        path = Path(to)
        path = path / self.name if path.is_dir() else path
        part = path.with_name(f".{path.name}.part")
        try:
            with part.open("wb") as file:
                self.job.client.save_job_file(self.job.id, self.name, file)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
        return path

    def __repr__(self) -> str:
        """Name and size."""
        return f"<{self.name} {amount(self.size)}>"


@dataclass(frozen=True)
class Shown:
    """One thing that a payload has displayed: a figure, a table. As the last expression of a cell it is shown."""

    job: JobHandle
    text: str
    files: Mapping[str, str]
    size: int
    """How many bytes its files have."""

    def data(self) -> dict[str, Any]:
        """Fetch its forms: text by kind, pictures in base 64, as notebooks keep them."""
        found: dict[str, Any] = {"text/plain": self.text or "(no text)"}
        for kind, name in self.files.items():
            content = self.job.client.job_file(self.job.id, name)
            picture = kind in ("image/png", "image/jpeg")
            found[kind] = base64.b64encode(content).decode() if picture else content.decode("utf-8", "replace")
        return found

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return self.data()

    def __repr__(self) -> str:
        """Name it."""
        return f"<shown by {self.job.id}: {self.text or ', '.join(self.files)}>"


def shown_by(job: JobHandle, room: int = MOST_BYTES) -> tuple[list[Shown], int]:
    """Give what a job has displayed in a richer form than text, in ``room`` bytes, and how much of it is left out.

    The list is the job's word: what is fetched is as bounded as if anyone had written it.
    """
    sizes = {file.name: file.size for file in job.client.job_files(job.id)}
    things, doc = list[Shown](), _manifest(job) if 0 < sizes.get(MANIFEST, 0) <= MOST_BYTES else {}
    listed = [item for item in items(doc, "shown") if isinstance(item, Mapping)]
    for item in listed[:MOST]:
        files = _files(item.get("files"), sizes)
        thing = Shown(job, text(item, "text"), files, sum(sizes[name] for name in files.values()))
        if files and thing.size <= room:
            things.append(thing)
            room -= thing.size
    return things, len(listed) - len(things) + max(whole(doc, "left_out") or 0, 0)


def _manifest(job: JobHandle) -> Mapping[str, Any]:
    try:
        doc = json.loads(job.client.job_file(job.id, MANIFEST))
    except (NotFoundError, ValueError, RecursionError):
        return {}
    return doc if isinstance(doc, Mapping) else {}


def _files(given: object, sizes: Mapping[str, int]) -> dict[str, str]:
    """Give the forms that notebooks show, whose files the job has kept for that."""
    listed = given if isinstance(given, Mapping) else {}
    return {kind: name for kind in KINDS if (name := str(listed.get(kind))).startswith(PREFIX) and name in sizes}


def display_shown(job: JobHandle, room: int = MOST_BYTES) -> tuple[int, str]:
    """Show in the notebook what a job has displayed, in ``room`` bytes. Give how many it took, and what is missing."""
    from IPython.display import publish_display_data

    things, left_out = shown_by(job, room)
    for thing in things:
        publish_display_data(thing.data())  # type: ignore[no-untyped-call]
    missing = f"{left_out} more were displayed than are shown: at most {MOST} of a job, {amount(MOST_BYTES)} together"
    return sum(thing.size for thing in things), missing if left_out else ""


__all__ = ["GridError", "JobHandle", "OutputFile", "ResultError"]


def _own(name: str) -> bool:
    return name in (OUTCOME, RESULT) or name.startswith("slipway-shown")


class JobHandle:
    """A job of the caller. Reading ``state`` asks the service until the job has ended.

    ``whole`` says that the record is all that the service says of it, and not only its state and place.
    """

    def __init__(self, client: Client, record: Job, *, whole: bool = True) -> None:
        self.client = client
        self._record, self._whole = record, whole
        self._live = Live()
        self.called = f"slipway.job({record.id!r})"
        """What the notebook calls it, for advice."""

    @property
    def id(self) -> str:
        """The job's id, by which ``slipway.job(id)`` gives it in any later session."""
        return self._record.id

    @property
    def name(self) -> str:
        """The name it was submitted with."""
        return self._record.name

    @property
    def record(self) -> Job:
        """All that the service says of the job now."""
        if not self._record.ended or not self._whole:
            self._record, self._whole = self.client.job(self.id), True
        return self._record

    @property
    def seen(self) -> Job:
        """What the service said of the job last, without asking it."""
        return self._record

    @property
    def point(self) -> int:
        """Its number in its scan, from 0."""
        return self._record.point

    @property
    def arguments(self) -> Mapping[str, str]:
        """The parameters of a scan's point; those of a call are its arguments, as far as they can be shown."""
        return (self._record if self._whole else self.record).parameters or {}

    @property
    def state(self) -> str:
        """One of pending, running, done, failed, canceled."""
        return self._record.state if self._record.ended else self.record.state

    @property
    def outcome(self) -> Outcome | None:
        """How it ended; None before."""
        return self.record.outcome

    @property
    def files(self) -> list[OutputFile]:
        """The files that the payload has left in its working directory."""
        return [OutputFile(file.name, file.size, self) for file in self._listed() if not _own(file.name)]

    @property
    def shown(self) -> list[Shown]:
        """What the payload has displayed, figures and tables, in their order."""
        return shown_by(self)[0]

    def show(self) -> None:
        """Show here what the payload has displayed."""
        _, remark = display_shown(self)
        if remark:
            print(remark)

    def log(self) -> str:
        """Give the output so far."""
        return b"".join(self.client.job_log(self.id)).decode("utf-8", "replace")

    def follow(self) -> Iterator[str]:
        """Give the output as it comes, until the job has ended."""
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        for chunk in self.client.job_log(self.id, follow=True):
            if text := decoder.decode(chunk):
                yield text
        if text := decoder.decode(b"", final=True):
            yield text

    def wait(self, timeout: float | None = None) -> JobHandle:
        """Wait until the job has ended; raise TimeoutError when that takes longer than ``timeout`` seconds."""
        self._look_again()
        patience = Patience(timeout, 0.1)
        while self.state not in ENDED:
            if not patience.pause():
                raise TimeoutError(f"job {self.id} is {self._record.state} after {timeout} s; it runs on")
        return self

    def cancel(self) -> JobHandle:
        """Cancel the job; canceling one that has ended changes nothing."""
        if self.state not in ENDED:
            self._record = self.client.cancel_job(self.id)
        return self

    def hold(self) -> JobHandle:
        """Have the job, which has not begun, not start until it is released."""
        self._record = self.client.change_job(self.id, "hold")
        return self

    def release(self) -> JobHandle:
        """Release the job, which is held."""
        self._record = self.client.change_job(self.id, "release")
        return self

    def requeue(self) -> JobHandle:
        """End the job where it runs, and have it begin anew when its turn comes."""
        self._record = self.client.change_job(self.id, "requeue")
        return self

    def retry(
        self, *, failed: bool = True, canceled: bool = True, done: bool = False, **changes: Unpack[RetryWords]
    ) -> JobHandle:
        """Try the job again, which has failed or was canceled, or is done where that is said; it stays the same job.

        ``mem``, ``time`` and ``cpus`` may be other than before. What the earlier try has left is dropped.
        """
        meant = states(failed=failed, canceled=canceled, done=done)
        with called("{}="):
            self._record = self.client.retry_job(self.id, states=meant, **retry_changes(changes))
        self._whole = True
        return self

    def resubmit(self, **changes: Unpack[ResubmitWords]) -> JobHandle:
        """Submit a new job with what this one had but for the changes: name, env, cpus, mem, time, gpu, to, ..."""
        with called("{}="):
            return JobHandle(self.client, self.client.resubmit_job(self.id, **resubmit_changes(changes)))

    def why(self) -> Explanation:
        """Explain what the job waits for: what its requirements exclude."""
        return self.client.why_job(self.id)

    def delete(self) -> None:
        """Remove the record and the files of an ended job."""
        self.client.delete_job(self.id)

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the end and give the value of ``result``; None when the cell has set none.

        A job that failed raises GridError with the remote traceback.
        """
        self.wait(timeout).check()
        return self.read(self.fetch())

    def fetch(self) -> IO[bytes] | None:
        """Fetch the packed result of a job that is done; None where it has left none."""
        file = spool()
        try:
            self.client.save_job_file(self.id, RESULT, file)
        except NotFoundError:
            return None
        return file

    def read(self, data: IO[bytes] | None) -> Any:
        """Read what has been fetched."""
        if data is None:
            self._refuse_lost(self.report())
            return None
        return load(self, data)

    def _refuse_lost(self, report: Mapping[str, Any]) -> None:
        """Tell a job whose result is not to be had from one that has set none."""
        if not report:
            raise ResultError(
                f"job {self.id} has ended well and has not said whether it has a result",
                remedy=f"a script has none, nor what ends with os._exit: slipway.job({self.id!r}).files has its files",
            )
        if report.get("result") == "kept":
            raise ResultError(f"job {self.id}: the file of its result is gone", remedy="submit the cell again")

    def check(self) -> None:
        """Raise GridError when the job has failed or was canceled."""
        self._look_again()
        if self.state not in ENDED or self.state == "done":
            return
        record = self.record
        outcome, report = record.outcome or Outcome(), self.report()
        given = [f"{name}={value}" for name, value in self.arguments.items()]
        how = ending(record.state, outcome, report)
        error = GridError(
            f"job {self.name or self.id} ({', '.join([self.id, *given])}) {how}",
            job=self,
            traceback=str(report.get("traceback") or ""),
            remedy=advice(record, outcome, report, self.called),
        )
        error.ending = how
        raise error

    def _look_again(self) -> None:
        """Ask once more of what has ended badly: another may have tried it again since."""
        if self._record.ended and self._record.state != "done":
            with suppress(NotFoundError):  # its record is removed: what was known of it stays true
                self._record, self._whole = self.client.job(self.id), True

    def advise(self, called: str, error: GridError) -> str:
        """Say what to do about its end where the notebook calls it, or its scan, so."""
        return error.remedy.replace(self.called, called)

    @property
    def error(self) -> GridError | None:
        """What a job that failed would raise; None of one that has not."""
        try:
            self.check()
        except GridError as error:
            return error
        return None

    def report(self) -> dict[str, Any]:
        """Give what the runner has noted of the end; empty when it could not, as after a kill."""
        try:
            doc = json.loads(self.client.job_file(self.id, OUTCOME))
        except (NotFoundError, ValueError):
            return {}
        return doc if isinstance(doc, dict) else {}

    def _listed(self) -> list[JobFile]:
        return self.client.job_files(self.id)

    def _line(self) -> str:
        record = self._record
        waits = f", waiting: {record.waiting}" if record.waiting and not record.ended else ""
        holds = f", on {record.slice}" if record.slice and not record.ended else ""
        where = f", on {record.host}" if record.host and not record.ended else ""
        again = f", put back in line {record.requeued}x" if record.requeued else ""
        name, state = record.name or "(no name)", record.state or record.phase
        return f"job {name} {record.id}: {state}{exit_words(record)}{where}{holds}{waits}{again}"

    def __repr__(self) -> str:
        """Tell id and state as last seen, without asking the service."""
        return f"<{self._line()}>"

    def _repr_html_(self) -> str:
        return job_card(self._record)._repr_html_()

    def _ipython_display_(self) -> None:
        self._live.show(self._bundle(), None if self._record.ended else self._bundles)

    def _bundle(self) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def _bundles(self) -> Iterator[dict[str, str]]:
        patience = Patience(None, 0.5)
        while not self.record.ended:
            yield self._bundle()
            patience.pause()
        yield self._bundle()
