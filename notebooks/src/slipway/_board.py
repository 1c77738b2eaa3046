"""How jobs and scans look on a page: tables and bars of plain HTML, and the same as text where there is none.

No colour is set, so that it reads in the dark too, and no script runs: what stands in a saved notebook is what
was there last.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ._envs import Drawn, Table
from ._models import Job
from ._outcome import JobProgress, Outcome
from ._scans import Scan
from ._wire import amount

if TYPE_CHECKING:
    from ._job import GridError

_CELL = 60  # characters


def escape(text: object) -> str:
    """Write text for a page."""
    return html.escape(str(text))


def bar(record: Scan) -> str:
    """Draw how many points of a scan have ended, with the numbers behind it."""
    ended = sum(record.states.get(state, 0) for state in ("done", "failed", "canceled"))
    words = f"{record.name or 'scan'} {record.id}: {record.words()}"
    label = f"{ended:,} of {record.points:,} points have ended"
    drawn = f'<progress max="{max(record.points, 1)}" value="{ended}" aria-label="{label}" title="{label}"></progress>'
    return f'<div role="status">{drawn} {escape(words)}</div>'


def job_status(words: str, progress: JobProgress | None) -> str:
    """Write how far a job is, with a bar where its payload says of how much."""
    return f'<div role="status">{escape(words)} {progress_bar(progress)}</div>'


def progress_bar(progress: JobProgress | None) -> Drawn:
    """Draw what a payload says of how far it is."""
    if progress is None:
        return Drawn("", "")
    share, words = progress.share, str(progress)
    if share is None:
        return Drawn(words, escape(words))
    drawn = f'<progress max="1" value="{share:.4g}" aria-label="{escape(words)}"></progress>'
    return Drawn(f"{100 * share:.0f} % ({words})", f"{drawn} {escape(words)}")


def status(words: str) -> str:
    """Write how far a job is."""
    return f'<div role="status">{escape(words)}</div>'


def point_row(job: Job, names: Iterable[str]) -> tuple[str, ...]:
    """Give a point as the cells of a row."""
    outcome, parameters = job.outcome, job.parameters or {}
    code = "" if outcome is None or outcome.exit_code is None else str(outcome.exit_code)
    state = "held" if job.held and job.state == "pending" else job.state
    remark = job.waiting if not job.ended else outcome.reason if outcome else ""
    given = (short(parameters.get(name, "")) for name in names)
    return (str(job.point), *given, state, code, job.host, job.id, short(remark, 120))


def job_card(record: Job) -> Table:
    """Give what is known of a job as a table of two columns."""
    outcome = record.outcome or Outcome()
    code = "" if outcome.exit_code is None else f", exit code {outcome.exit_code}"
    used = [f"{amount(outcome.max_rss)} of memory"] if outcome.max_rss else []
    used += [f"{outcome.cpu:.1f} s of CPU"] if outcome.cpu else []
    asked = [f"{record.cpus:g} CPU" if record.cpus else "", record.memory, record.time_limit]
    asked += [record.gpu if record.gpu != "none" else ""]
    pairs = [
        ("job", f"{record.name or '(no name)'} {record.id}"),
        ("state", (record.state or record.phase) + code),
        ("waiting", "" if record.ended else record.waiting),
        ("where", " ".join(filter(None, [record.backend, record.host]))),
        ("slice", str(record.slice) if record.slice else ""),
        ("asked for", ", ".join(filter(None, asked))),
        ("has used", ", ".join(used)),
        ("put back in line", f"{record.requeued}x" if record.requeued else ""),
        ("reason", outcome.reason),
        ("what to do", outcome.remedy),
        *(record.parameters or {}).items(),
    ]
    return Table(("", ""), [(key, short(value, 400)) for key, value in pairs if value])


def error_card(error: GridError) -> str:
    """Write an error for a page: what happened, what to do, and the traceback folded below."""
    todo = f"<p>What to do: {escape(error.remedy)}</p>" if error.remedy else ""
    below = ""
    if error.traceback:
        below = (
            f"<details><summary>Traceback of the job</summary><pre>{escape(error.traceback[-20_000:])}</pre></details>"
        )
    return f'<section role="alert"><p><strong>{escape(error.message)}</strong></p>{todo}{below}</section>'


def advice(record: Job, outcome: Outcome, report: Mapping[str, Any]) -> str:
    """Say what to do about a job that has failed: what the service says, else what is plain from how it ended."""
    if outcome.remedy:
        return outcome.remedy
    missing, words = report.get("missing"), f"{report.get('type')} {report.get('message')}"
    if missing:
        return (
            f"%pip install what gives {missing} in the session, and submit again: the environment is frozen anew; "
            "a module of your own goes along when its function is passed"
        )
    if "out of memory" in words.lower() and record.gpu not in ("", "none"):
        return f"{record.gpu} has not enough memory: ask for a larger slice with --gpu, or use smaller batches"
    if report.get("type") == "MemoryError" or "memory" in outcome.reason.lower():
        peak = f"it had {amount(outcome.max_rss)} when it ended: " if outcome.max_rss else ""
        return f"{peak}ask for more than {record.memory or 'the default'} with --mem"
    return ""


def short(text: object, most: int = _CELL) -> str:
    """Cut text to the width of a cell."""
    words = str(text)
    return words if len(words) <= most else words[: most - 3] + "..."
