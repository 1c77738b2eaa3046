"""The job as a notebook holds it: state, log, result and files, the same object in any later session."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import IO, Any, Unpack

from ._advice import advice
from ._again import ResubmitWords, RetryWords, resubmit_changes, retry_changes, states
from ._board import exit_words, job_card
from ._client import Client
from ._ending import GridError, ResultError, ending, load
from ._errors import NotFoundError
from ._files import OutputFile
from ._gallery import Shown, display_shown, shown_by
from ._live import Live
from ._models import ENDED, Job
from ._option_words import called
from ._outcome import Outcome
from ._patience import Patience
from ._runner import OUTCOME, RESULT
from ._scans import Explanation
from ._site import JobFile
from ._values import spool

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
