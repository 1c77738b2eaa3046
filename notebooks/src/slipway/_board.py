"""How jobs and scans look on a page: tables and bars of plain HTML, and the same as text where there is none.

No colour is set, so that it reads in the dark too, and no script runs: what stands in a saved notebook is what
was there last.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ._envs import Drawn, Table
from ._models import Job
from ._outcome import JobProgress, Outcome, SliceUse
from ._scans import Scan
from ._wire import memory, memory_words

if TYPE_CHECKING:
    from ._ending import GridError

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


def points_table(jobs: Sequence[Job], remarks: Sequence[str]) -> Table:
    """Give points as a table, with a column for each parameter, and those of their use that are known of any."""
    names = parameter_names(job.parameters or {} for job in jobs)
    head = ["point", *names, "state", *_USED, "host", "job", "remark"]
    rows = [_point_row(job, names) for job in jobs]
    kept = [at for at, name in enumerate(head) if name not in _USED[1:] or any(row[at] for row in rows)]
    return Table([head[at] for at in kept], [[row[at] for at in kept] for row in rows], remarks)


def parameter_names(given: Iterable[Mapping[str, str]]) -> list[str]:
    """Give the names of points' parameters in the order that every table has."""
    return sorted({name for parameters in given for name in parameters})


def value_words(text: str) -> str:
    """Write a parameter's value for a table: of a number that goes on and on its first six digits."""
    return f"{float(text):.6g}" if _LONG_FLOAT.fullmatch(text) else text


_LONG_FLOAT = re.compile(r"-?\d*\.\d{6,}(e[+-]?\d+)?", re.IGNORECASE)
_USED = ("exit", "signal", "try", "time", "memory", "cpu", "gpu")


def _point_row(job: Job, names: Iterable[str]) -> list[str]:
    outcome, parameters = job.outcome or Outcome(), job.parameters or {}
    state = "held" if job.held and job.state == "pending" else job.state
    remark = job.waiting if not job.ended else outcome.reason
    given = [short(value_words(parameters.get(name, ""))) for name in names]
    used = [
        "" if outcome.exit_code is None or not job.ended else str(outcome.exit_code),
        str(outcome.signal or "") if job.ended else "",
        str(job.attempt) if job.attempt > 1 else "",
        f"{outcome.wall:.1f} s" if outcome.wall else "",
        memory(outcome.max_rss) if outcome.max_rss else "",
        f"{outcome.cpu:.1f} s" if outcome.cpu else "",
        gpu_use(outcome.gpu) if outcome.gpu else "",
    ]
    return [str(job.point), *given, state, *used, job.host, job.id, short(remark, 120)]


def exit_words(record: Job) -> str:
    """Say how a job that has ended has: why it failed, else its exit code, and how often it was tried."""
    outcome = record.outcome
    if outcome is None or not record.ended:
        return ""
    code = "" if outcome.exit_code is None else f", exit code {outcome.exit_code}"
    if outcome.failed and outcome.reason:
        code = f": {short(outcome.reason, 120)}"
    return code + (f", try {record.attempt}" if record.attempt > 1 else "")


def gpu_use(use: SliceUse) -> str:
    """Say what a job has made of its slice of a GPU."""
    energy = f", {use.energy / 3600:.3g} Wh" if use.energy else ""
    return f"GPU {100 * use.busy:.0f} % busy, {memory(use.memory)}{energy}"


def job_card(record: Job) -> Table:
    """Give what is known of a job as a table of two columns."""
    outcome = record.outcome or Outcome()
    ended = record.ended and outcome.exit_code is not None
    code = f", exit code {outcome.exit_code}" if ended else ""
    code += f" by signal {outcome.signal}" if ended and outcome.signal else ""
    used = [f"{outcome.wall:.1f} s"] if outcome.wall else []
    used += [f"{memory(outcome.max_rss)} of memory"] if outcome.max_rss else []
    used += [f"{outcome.cpu:.1f} s of CPU"] if outcome.cpu else []
    used += [gpu_use(outcome.gpu)] if outcome.gpu else []
    asked = [f"{record.cpus:g} CPU" if record.cpus else "", memory_words(record.memory), record.time_limit]
    asked += [record.gpu if record.gpu != "none" else ""]
    pairs = [
        ("job", f"{record.name or '(no name)'} {record.id}"),
        ("state", (record.state or record.phase) + code),
        ("waiting", "" if record.ended else record.waiting),
        ("where", " ".join(filter(None, [record.backend, record.host]))),
        ("slice", str(record.slice) if record.slice else ""),
        ("asked for", ", ".join(filter(None, asked))),
        ("progress", str(record.progress) if record.progress else ""),
        ("has used", ", ".join(used)),
        ("try", f"{record.attempt}" if record.attempt > 1 else ""),
        ("waits for", "" if record.ended else " ".join(record.after)),
        ("made from", record.origin),
        ("removed", record.expires[:16].replace("T", " ")),
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


def short(text: object, most: int = _CELL) -> str:
    """Cut text to the width of a cell."""
    words = str(text)
    return words if len(words) <= most else words[: most - 3] + "..."
