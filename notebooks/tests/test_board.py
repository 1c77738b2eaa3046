"""How jobs, scans, errors and results look: bounded, readable without colours, with markup that says what it is."""

from __future__ import annotations

import pickle
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import slipway
from slipway import Client, GridError, Job, JobHandle, JobProgress, Outcome, PointEvent, Scan, ScanHandle
from slipway._decode import decode
from slipway._display import Screen, Table, value_words
from slipway._jobs import advice
from slipway._scan_live import Tails, live_table, printable
from slipway._scans import Results
from test_magic import Notebook, Page, notebook, page

__all__ = ["notebook", "page"]


class Lines(Tails):
    """Output that is known."""

    def of(self, job: str) -> str:
        return f"line of <{job}>"


def shown(client: Client, count: int, of: Sequence[str]) -> Table:
    progress = JobProgress(40, 100, "epoch <4>")
    events = {
        n: PointEvent(n, f"j-{n}", of[n % len(of)], 2, progress, "wn1", "", "why", "2026-11-20T10:05:00Z")
        for n in range(count)
    }
    return live_table(events, Scan("scan-1", points=count), [{"k": "<" * 500}] * count, Lines(client))


def test_ten_thousand_points_are_a_few_rows(client: Client) -> None:
    table = shown(client, 10_000, ["done", "pending", "running", "failed"])
    assert len(table.rows) == 20
    assert [row[2] for row in table.rows] == ["failed (try 2)"] * 10 + ["running (try 2)"] * 10
    page = table._repr_html_()
    assert len(page) < 20_000
    assert "<script" not in page
    assert "style" not in page
    assert "&lt;&lt;" in page
    assert 'scope="col"' in page
    assert '<progress max="1" value="0.4" aria-label="40 of 100, epoch &lt;4&gt;"></progress>' in page
    assert "line of &lt;j-2&gt;" in page
    assert "and 9,980 more" in page
    states = [row[2].split()[0] for row in shown(client, 4, ["done", "pending", "running", "failed"]).rows]
    assert states == ["failed", "running", "pending", "done"]
    assert "40 % (40 of 100, epoch <4>)" in repr(table)


def test_lines_that_move_a_cursor_are_plain() -> None:
    assert printable("one\n 10 %\r 20 %\r") == " 20 %"
    assert printable("\x1b[31mred\x07") == " [31mred "
    assert (printable(""), len(printable("x" * 10_000))) == ("", 200)


def test_a_scan_is_a_bar(client: Client) -> None:
    scan = ScanHandle(client, Scan("scan-1", name="<t>", points=4, states={"done": 2, "failed": 1, "running": 1}))
    page = scan._repr_html_()
    assert '<progress max="4" value="3" aria-label="3 of 4 points have ended"' in page
    assert "&lt;t&gt; scan-1: 1 running, 2 done, 1 failed" in page
    assert "color" not in page


def test_a_job_is_a_table(client: Client) -> None:
    outcome = {"exit_code": 1, "reason": "<killed>", "remedy": "wait", "max_rss": 2_000_000_000, "cpu": 3.5}
    doc = {"id": "j-1", "name": "fit", "state": "failed", "outcome": outcome, "cpus": 2, "memory": "1G", "gpu": "none"}
    page = JobHandle(client, decode(Job, {**doc, "parameters": {"k": "7"}}))._repr_html_()
    cells = re.findall("<t[dh].*?>(.*?)</t", page)
    assert cells == [
        "job", "fit j-1", "state", "failed, exit code 1", "asked for", "2 CPU, 1 GiB", "has used",
        "1.9 GiB of memory, 3.5 s of CPU", "reason", "&lt;killed&gt;", "what to do", "wait", "k", "7",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("record", "outcome", "report", "words"),
    [
        ({}, Outcome(remedy="at most 8G"), {}, "at most 8G"),
        ({}, Outcome(remedy="its output says more", cause="exit"), {}, ""),
        (
            {},
            Outcome(cause="module"),
            {"missing": "uproot"},
            "%pip install the package of uproot in the session, and submit again",
        ),
        (
            {"gpu": "1g.18gb"},
            Outcome(),
            {"type": "OutOfMemoryError", "message": "CUDA out of memory"},
            'or a larger slice, as _job.resubmit(gpu="whole")',
        ),
        (
            {"memory": "2G"},
            Outcome(max_rss=2_100_000_000),
            {"type": "MemoryError"},
            'it had 2 GiB when it ended: _job.retry(mem="3G")',
        ),
        ({}, Outcome(reason="out of memory"), {}, 'mem="8G") tries it with more than the default'),
        ({"memory": "512M"}, Outcome(cause="memory"), {}, '_job.retry(mem="1G")'),
        ({"time_limit": "1h0m0s"}, Outcome(cause="time"), {}, 'it may run 1h0m0s: _job.retry(time="2h")'),
        ({"time_limit": "90s"}, Outcome(cause="time"), {}, '_job.retry(time="3m")'),
        ({}, Outcome(cause="signal", signal=11), {}, "a library has crashed"),
        ({}, Outcome(cause="signal", signal=15), {}, "_job.retry()"),
        ({}, Outcome(cause="output"), {}, "--out"),
        ({"after": ["j-0"]}, Outcome(cause="dependency"), {}, "see to slipway.job('j-0') first, then _job.retry()"),
        ({}, Outcome(cause="lost", remedy="wait"), {}, "wait; _job.retry() tries it again"),
        ({}, Outcome(cause="canceled"), {}, "_job.retry()"),
        ({}, Outcome(cause="exit", remedy="pass it with --in"), {"type": "FileNotFoundError"}, "pass it with --in"),
        ({}, Outcome(), {}, ""),
    ],
)
def test_advice(record: dict[str, Any], outcome: Outcome, report: dict[str, Any], words: str) -> None:
    told = advice(decode(Job, {"id": "j-1", **record}), outcome, report, "_job")
    assert words in told
    assert bool(words) == bool(told)


def test_an_error_is_a_card(notebook: Notebook) -> None:
    notebook.grid("--detach", "import no_such_module_at_all")
    job = notebook.value.wait(60)
    error = job.error
    assert isinstance(error, GridError)
    assert "no_such_module_at_all in the session, and submit again" in error.remedy
    page = error._repr_html_()
    assert page.startswith('<section role="alert"><p><strong>job cell (j-1) failed with exit code 1')
    assert "<summary>Traceback of the job</summary><pre>Traceback (most recent call last)" in page
    assert error._render_traceback_()[-1].startswith("  -> %pip install")
    notebook.grid("", "pass")
    assert notebook.names["_job"].error is None


def test_results_are_a_table() -> None:
    results = Results([1, {"a": 2}], [{"k": "1"}, {"k": "'x'"}])
    assert results == [1, {"a": 2}]
    assert repr(results._table()).splitlines() == ["point  k    result", "0      1    1", "1      'x'  {'a': 2}"]
    assert "<td>{&#x27;a&#x27;: 2}</td>" in results._repr_html_()
    assert type(pickle.loads(pickle.dumps(results))) is list
    assert Results(range(60), [{}] * 60)._table().remarks == ("and 10 more",)


def test_tables_have_one_order_and_short_numbers() -> None:
    parameters = [{"lr": "0.000316227766017", "depth": "2"}]
    head = Results([1], parameters)._table()
    assert (head.head[1:3], head.rows[0][1:3]) == (("depth", "lr"), ("2", "0.000316228"))
    assert [value_words(text) for text in ("1e-4", "'0.1234567'", "20261122", "0.5")] == [
        "1e-4", "'0.1234567'", "20261122", "0.5",
    ]  # fmt: skip


def test_the_time_of_a_point_is_what_it_ran(client: Client) -> None:
    came = {"job": "j-1", "state": "done", "up": "2026-11-20T10:05:00Z", "ended": "2026-11-20T10:07:00Z", "wall": 41.5}
    event = decode(PointEvent, came)
    table = live_table({0: event}, Scan("scan-1", points=1), [{"lr": "1", "depth": "2"}], Tails(client))
    assert table.head == ("point", "depth", "lr", "state", "time")
    assert table.rows[0][-1] == "41 s"


def test_jobs_and_scans_are_tables(notebook: Notebook) -> None:
    assert repr(slipway.jobs()) == "you have no jobs\nyour scans: slipway.scans()"
    notebook.grid("--name fit", "pass")
    notebook.grid("--name many --scan k=1,2", "pass")
    head, row, remark = repr(slipway.jobs()).splitlines()
    assert remark == "your scans: slipway.scans()"
    assert head.split() == ["id", "name", "state", "submitted", "ran"]
    assert row.split()[:3] == ["j-1", "fit", "done,"]
    assert row.endswith("1.5 s")
    assert "<td>2 done</td>" in slipway.scans()._repr_html_()
    assert slipway.jobs()[-1].result() is None
    assert slipway.scans()[0].id == "scan-2"


def test_going_through_a_scan_shows_a_bar(notebook: Notebook, page: Page) -> None:
    notebook.grid("--detach --scan k=1,2", "result = k")
    begun = len(page.shown)
    assert list(notebook.names["_scan"]) == [1, 2]
    assert 'aria-label="2 of 2 points have ended"' in page.shown[begun]["text/html"]
    assert len(page.shown) == begun + 1


def test_the_end_of_a_try_is_a_line() -> None:
    outcome = Outcome(exit_code=1, failed=True, reason="it broke", wall=2.5)
    assert repr(outcome) == "<Outcome: failed, exit code 1, it broke, 2.5 s>"


def test_a_directory_that_is_asked_for_is_named() -> None:
    job = decode(Job, {"id": "j-1", "out": ["sub"]})
    assert advice(job, Outcome(cause="output"), {"directories": {"sub": 1}}).startswith("sub is a directory, and only")


def test_results_stay_with_their_parameters() -> None:
    results = Results([1, 2, 3], [{"k": "a"}, {"k": "b"}, {"k": "c"}])
    assert not hasattr(results, "append")
    assert (results[-1], list(results[1:]), results != [1, 2], repr(results)) == (3, [2, 3], True, "[1, 2, 3]")
    assert results[1:].parameters == ({"k": "b"}, {"k": "c"})


def test_a_column_of_a_parameter_is_kept() -> None:
    results = Results([{"k_result": 4, "k": 5}, {"loss": 6}, 7], [{"k": "1", "result": "2"}] * 3)
    given = {"k": 1, "result": 2}
    assert results._rows() == [
        {**given, "k_result": 4, "k_result_result": 5},
        {**given, "loss": 6},
        {**given, "result_result": 7},
    ]


def test_results_are_a_frame_where_there_is_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    frame = Results([{"loss": 0.5}, {"loss": 0.25}], [{"lr": "0.1"}, {"lr": "0.2"}]).table()
    assert isinstance(frame, pandas.DataFrame)
    assert frame.to_dict("list") == {"lr": [0.1, 0.2], "loss": [0.5, 0.25]}


def test_in_a_kernel_a_scan_is_one_display(notebook: Notebook, page: Page) -> None:
    notebook.refused("--scan k=1,0", "1 / k")
    _, last, card = page.shown  # the environment, the scan, and what has failed
    assert 'role="alert"' in card["text/html"]
    assert last["text/plain"].startswith("▸ cell: 1 done, 1 failed, ")
    assert 'value="2" aria-label="2 of 2 points have ended"' in last["text/html"]
    assert last["text/html"].index("<td>failed</td>") < last["text/html"].index("<td>done</td>")
    assert page.updates < 50


def test_in_a_kernel_a_job_shows_how_far_it_is(notebook: Notebook, page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr("slipway._watch._LOOK", 0.02)
    monkeypatch.setattr("slipway._display._RATE", 0.0)

    def draw(words: str, progress: JobProgress | None) -> str:
        seen.append(str(progress))
        return words

    monkeypatch.setattr("slipway._watch.job_status", draw)
    cell = "import time\nfrom slipway import grid\nfor i in range(4):\n    grid.progress(i, 4)\n    time.sleep(0.3)"
    notebook.grid("", cell)
    assert any(words.endswith(" of 4") for words in seen)


def test_an_object_changes_where_it_is_shown(notebook: Notebook, page: Page, tmp_path: Path) -> None:
    cell = f"import os, time\nwhile not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.02)"
    notebook.grid("--detach --scan k=7,8", cell)
    notebook.grid("--detach", cell)
    scan, job = notebook.names["_scan"], notebook.names["_job"]
    begun = len(page.shown)
    scan._ipython_display_()
    job._ipython_display_()
    scan._ipython_display_()
    (tmp_path / "go").touch()
    for at in (begun, begun + 2):
        wait_for(lambda at=at: "2 done" in page.shown[at]["text/html"])  # type: ignore[misc]
        assert "<td>8</td>" in page.shown[at]["text/html"]
    wait_for(lambda: "done, exit code 0" in page.shown[begun + 1]["text/html"])
    updates = page.updates
    scan._ipython_display_()  # it has ended: nothing follows it
    assert page.updates == updates
    assert "2 done" in page.shown[-1]["text/plain"]


def wait_for(fact: Callable[[], bool]) -> None:
    for _ in range(3000):
        if fact():
            return
        time.sleep(0.02)
    raise AssertionError("it has not come to that")


def test_in_a_terminal_the_last_line_changes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr("slipway._display._RATE", 0.0)
    screen = Screen(None)
    line = screen.live()
    line.update("a", "1 running")
    screen.output("from the job\nhalf")
    line.update("a", "2 running")
    screen.output(" a line\n")
    line.done("2 done")
    out = capsys.readouterr().out
    assert out == ("▸ 1 running\r\x1b[Kfrom the job\n▸ 1 running\r\x1b[Khalf a line\n▸ 2 running\r\x1b[K▸ 2 done\n")
