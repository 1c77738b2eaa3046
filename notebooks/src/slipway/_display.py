"""How things look in a notebook and in a terminal: live text, tables, bars.

No colour is set, so that it reads in the dark too, and no script runs: what stands in a saved notebook is what was
there last.
"""

from __future__ import annotations

import html
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from ._errors import SlipwayError
from ._models import Job, JobProgress, Outcome, Scan, SliceUse
from ._units import memory, memory_words

_RATE = 0.5
"""The least time, in seconds, between two updates of a line."""

Place = Literal["page", "terminal", "none"]
_ERASE = "\r\x1b[K"


def shell() -> Any:
    """Give the IPython that this runs in; None outside of one."""
    module = sys.modules.get("IPython")
    return module.get_ipython() if module is not None else None


class Screen:
    """Writes lines, the payload's raw output, and one line that changes in place. ``quiet`` keeps only output.

    A line of our own never cuts a line of the payload: it waits until that is complete, or for the end. In a terminal
    the line that changes is the last one, below all that is written.
    """

    def __init__(self, shell: Any, *, quiet: bool = False) -> None:
        self._in_notebook = getattr(shell, "kernel", None) is not None
        self._terminal = not self._in_notebook and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
        self._quiet = quiet
        self._at_line_start = True
        self._waiting: list[str] = []
        self._foot, self._stands = "", False

    def line(self, text: str) -> None:
        """Write a line of our own, set apart from the payload's."""
        if self._quiet:
            return
        self._waiting.append(f"▸ {text}\n")
        if self._at_line_start:
            self._release()

    def end(self, text: str) -> None:
        """Write the last line."""
        if not self._quiet:
            self.urgent(text)

    def settle(self) -> None:
        """Write what has waited, where no last line comes."""
        if self._waiting and not self._at_line_start:
            self.output("\n")
        self._release()

    def urgent(self, text: str) -> None:
        """Write a line now, even when quiet, and what has waited before it."""
        if not self._at_line_start:
            self.output("\n")
        self._waiting.append(f"▸ {text}\n")
        self._release()

    def output(self, text: str) -> None:
        """Write the payload's output as it is."""
        whole, newline, rest = text.rpartition("\n")
        if newline:
            self._write(whole + newline)
            self._release()
        if rest:
            self._write(rest)

    def card(self, error: Any) -> bool:
        """Show an error as a card, where there is a page for it."""
        if self._in_notebook:
            from IPython.display import display

            bundle = {"text/plain": f"▸ {error}", "text/html": error._repr_html_()}
            display(bundle, raw=True)  # type: ignore[no-untyped-call]
        return self._in_notebook

    def _release(self) -> None:
        text, self._waiting = "".join(self._waiting), []
        if text:
            self._write(text)

    def _write(self, text: str) -> None:
        sys.stdout.write(_ERASE * self._stands + text)
        self._at_line_start, self._stands = text.endswith("\n"), False
        self._stand()

    def foot(self, text: str) -> None:
        """Write the last line of a terminal anew; without a text it goes away."""
        self._foot = text[: shutil.get_terminal_size().columns - 1]
        if self._stands:
            sys.stdout.write(_ERASE)
            self._stands = False
        self._stand()

    def _stand(self) -> None:
        if self._at_line_start and self._foot:
            sys.stdout.write(self._foot)
            self._stands = True
        sys.stdout.flush()

    def live(self) -> LiveLine:
        """Give a line that changes in place until it is done."""
        place: Place = (
            "none" if self._quiet else "page" if self._in_notebook else "terminal" if self._terminal else "none"
        )
        return LiveLine(self, place)


class LiveLine:
    """One line of progress, on a page with more below. Where none can change, only stages and the end are written."""

    def __init__(self, screen: Screen, place: Place) -> None:
        self._screen = screen
        self._place = place
        self._handle: Any = None
        self._last = 0.0
        self._stage = ""

    @property
    def in_place(self) -> bool:
        """Whether it changes, so that more than its stages are seen."""
        return self._place != "none"

    @property
    def on_page(self) -> bool:
        """Whether it is seen as HTML."""
        return self._place == "page"

    def update(self, stage: str, text: str, page: str = "") -> None:
        """Show how far it is, on a page as HTML where it is given; of a stage, what comes too fast is left out."""
        now = time.monotonic()
        if self.in_place:
            if stage != self._stage or now - self._last >= _RATE:
                self._put(text, page)
                self._last = now
        elif stage != self._stage:
            self._screen.line(text)
        self._stage = stage

    def done(self, text: str, page: str = "") -> None:
        """Replace the line by how it ended."""
        if self._place != "page":
            self.clear("")
            self._screen.line(text)
        else:
            self._put(text, page)

    def clear(self, text: str, page: str = "") -> None:
        """Let it rest on a page; elsewhere it goes away, for others to say how it ended."""
        if self._place == "terminal":
            self._screen.foot("")
        elif self._place == "page":
            self._put(text, page)

    def _put(self, text: str, page: str) -> None:
        if self._place == "terminal":
            self._screen.foot(f"▸ {text}")
            return
        from IPython.display import display

        bundle = {"text/plain": f"▸ {text}", **({"text/html": page} if page else {})}
        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(bundle, raw=True)


Bundle = dict[str, str]
_PLACES = 3
"""In how many places an object that is shown again and again changes: the last ones."""


class Live:
    """One object's displays: where there is a page that can change, one thread draws all of them anew."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._places: list[Any] = []
        self._drawn = False

    def show(self, first: Bundle, follow: Callable[[], Iterator[Bundle]] | None) -> None:
        """Show an object, and what ``follow`` gives of it from then on."""
        from IPython.display import display

        if follow is None or getattr(shell(), "kernel", None) is None:
            display(first, raw=True)  # type: ignore[no-untyped-call]
            return
        place = display(first, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        with self._turn:
            self._places = [*self._places, place][-_PLACES:]
            if not self._drawn:
                self._drawn = True
                threading.Thread(target=self._draw, args=(first, follow()), daemon=True).start()

    def _draw(self, bundle: Bundle, news: Iterator[Bundle]) -> None:
        try:
            for bundle in news:
                for place in self._places:
                    place.update(bundle, raw=True)
        except SlipwayError:
            pass  # what stands there is what was known last
        finally:
            with self._turn:
                late, self._places, self._drawn = self._places, [], False
        for place in late:  # one that came during the last drawing has not been drawn
            place.update(bundle, raw=True)


class Drawn(str):
    """A cell that is drawn on a page, and a text elsewhere."""

    page: str

    def __new__(cls, text: str, page: str) -> Drawn:
        """Make a cell of its text and its HTML."""
        drawn = super().__new__(cls, text)
        drawn.page = page
        return drawn


class Table:
    """Rows under a head, as text and as HTML; remarks stand below."""

    def __init__(self, head: Sequence[str], rows: Sequence[Sequence[str]], remarks: Sequence[str] = ()) -> None:
        self.head, self.rows, self.remarks = tuple(head), [tuple(row) for row in rows], tuple(remarks)

    def __repr__(self) -> str:
        """Write it in columns."""
        rows = [row for row in (self.head, *self.rows) if any(row)] if self.rows else []
        widths = [max(len(row[column]) for row in rows) for column in range(len(self.head))] if rows else []
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join([*lines, *self.remarks])

    def _repr_html_(self) -> str:
        head = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in self.head)
        head = f"<thead><tr>{head}</tr></thead>" if any(self.head) else ""
        body = "".join("<tr>" + "".join(self._cells(row)) + "</tr>" for row in self.rows)
        table = f"<table>{head}<tbody>{body}</tbody></table>" if self.rows else ""
        return table + "".join(f"<p>{html.escape(remark)}</p>" for remark in self.remarks)

    def _cells(self, row: Sequence[str]) -> Iterator[str]:
        """Write a row; where no head names the columns, its first cell names the row."""
        for at, cell in enumerate(row):
            text = cell.page if isinstance(cell, Drawn) else html.escape(cell)
            yield f'<th scope="row">{text}</th>' if at == 0 and not any(self.head) else f"<td>{text}</td>"


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


def short(text: object, most: int = _CELL) -> str:
    """Cut text to the width of a cell."""
    words = str(text)
    return words if len(words) <= most else words[: most - 3] + "..."
