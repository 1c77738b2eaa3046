"""How a job has ended, as its owner is told: the error that it raises, the result that cannot be read here."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any

from ._board import error_card
from ._errors import SlipwayError
from ._outcome import Outcome
from ._values import Cargo, UnfitError

if TYPE_CHECKING:
    from ._job import JobHandle


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
