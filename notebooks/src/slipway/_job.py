"""The job as a notebook holds it: state, log, result and files, the same object in any later session."""

from __future__ import annotations

import codecs
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ._board import advice, error_card, job_card
from ._client import Client
from ._errors import NotFoundError, SlipwayError
from ._gallery import Shown, display_shown, shown_by
from ._models import ENDED, Job
from ._outcome import Outcome
from ._patience import Patience
from ._runner import OUTCOME, RESULT
from ._scans import Explanation
from ._site import JobFile
from ._values import Cargo, UnfitError
from ._wire import amount


def _own(name: str) -> bool:
    return name in (OUTCOME, RESULT) or name.startswith("slipway-shown")


class GridError(SlipwayError):
    """The payload of a job failed: ``traceback`` is the remote one, ``job`` has the log and the files."""

    code = "job_failed"

    def __init__(self, message: str, *, job: JobHandle, traceback: str = "", remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.job = job
        self.arguments = dict(job.arguments)  # of the point; empty for a job that is none
        self.traceback = traceback
        self.ending = message  # without whose it is
        self.shown = False  # the page has the traceback already, at the end of the job's log
        self.stale = False  # the notebook has a result from before, which this job has not replaced

    @property
    def exit_code(self) -> int | None:
        """The payload's exit code; None when it never ran."""
        outcome = self.job.outcome
        return outcome.exit_code if outcome else None

    def _render_traceback_(self) -> list[str]:
        above = [] if self.shown else self.traceback.rstrip().splitlines()
        stale = " (result is still the value from before)" if self.stale else ""
        return [*above, f"GridError: {self.message}{stale}", *self._advice()]

    def _repr_html_(self) -> str:
        return error_card(self)


class ResultError(SlipwayError):
    """The job ended well but its result cannot be had; the message says why."""

    code = "result"


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
        path.write_bytes(self.read())
        return path

    def __repr__(self) -> str:
        """Name and size."""
        return f"<{self.name} {amount(self.size)}>"


class JobHandle:
    """A job of the caller. Reading ``state`` asks the service until the job has ended.

    ``whole`` says that the record is all that the service says of it, and not only its state and place.
    """

    def __init__(self, client: Client, record: Job, *, whole: bool = True) -> None:
        self.client = client
        self._record, self._whole = record, whole

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
        patience = Patience(timeout, 0.1)
        while self.state not in ENDED:
            if not patience.pause():
                raise TimeoutError(f"job {self.id} is {self._record.state} after {timeout} s; it runs on")
        return self

    def cancel(self) -> JobHandle:
        """Cancel the job; cancelling one that has ended changes nothing."""
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
        try:
            data = self.client.job_file(self.id, RESULT)
        except NotFoundError:
            self._refuse_lost(self.report())
            return None
        return _load(self, data)

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
        """Raise GridError when the job has failed or was cancelled."""
        if self.state not in ENDED or self.state == "done":
            return
        record = self.record
        outcome, report = record.outcome or Outcome(), self.report()
        given = [f"{name}={value}" for name, value in self.arguments.items()]
        ending = _ending(record.state, outcome, report)
        error = GridError(
            f"job {self.name or self.id} ({', '.join([self.id, *given])}) {ending}",
            job=self,
            traceback=str(report.get("traceback") or ""),
            remedy=advice(record, outcome, report),
        )
        error.ending = ending
        raise error

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
        code = (
            "" if not record.outcome or record.outcome.exit_code is None else f", exit code {record.outcome.exit_code}"
        )
        waits = f", waiting: {record.waiting}" if record.waiting and not record.ended else ""
        holds = f", on {record.slice}" if record.slice and not record.ended else ""
        where = f", on {record.host}" if record.host and not record.ended else ""
        again = f", put back in line {record.requeued}x" if record.requeued else ""
        name, state = record.name or "(no name)", record.state or record.phase
        return f"job {name} {record.id}: {state}{code}{where}{holds}{waits}{again}"

    def __repr__(self) -> str:
        """Tell id and state as last seen, without asking the service."""
        return f"<{self._line()}>"

    def _repr_html_(self) -> str:
        return job_card(self._record)._repr_html_()


def _ending(state: str, outcome: Outcome, report: dict[str, Any]) -> str:
    if state == "canceled" or outcome.canceled:
        return "was cancelled"
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


def _load(job: JobHandle, data: bytes) -> Any:
    cargo = Cargo(io.BytesIO(data))
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
