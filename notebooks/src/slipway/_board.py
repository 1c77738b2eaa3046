"""How jobs and scans look on a page: tables and bars of plain HTML, and the same as text where there is none.

No colour is set, so that it reads in the dark too, and no script runs: what stands in a saved notebook is what
was there last.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ._envs import Table
from ._models import Job
from ._outcome import Outcome
from ._scans import Scan
from ._wire import amount

if TYPE_CHECKING:
    from ._job import GridError

_ROWS = 12
"""How many points stand below a scan that goes on."""
_FIRST = ("failed", "running", "canceled", "pending", "done")
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


def status(words: str) -> str:
    """Write how far a job is."""
    return f'<div role="status">{escape(words)}</div>'


def points_table(jobs: Sequence[Job], most: int = _ROWS) -> Table:
    """Give the points that are worth a look first: those that failed, those that run, those that wait."""
    names = sorted({name for job in jobs for name in job.parameters or {}})
    chosen = sorted(jobs, key=lambda job: (_rank(job), job.point))[:most]
    more = len(jobs) - len(chosen)
    rows = [point_row(job, names) for job in chosen]
    return Table(
        ("point", *names, "state", "exit", "host", "job", "remark"), rows, [f"and {more:,} more"] if more else []
    )


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


def _rank(job: Job) -> int:
    return _FIRST.index(job.state) if job.state in _FIRST else len(_FIRST)
