"""Scans: how they are written, submitted, watched and fetched."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

import slipway
from conftest import ROOT
from fake import FakeService
from slipway import Client, GridError, InvalidError, Job, JobHandle, NotFoundError, Points, Scan, ScanHandle
from slipway._decode import decode
from slipway._payload.runner import literal
from slipway._points import parse_scan, read_points
from slipway._watch import WatchInterrupted
from test_magic import Notebook, Page, notebook, page

__all__ = ["notebook", "page"]

TABLE = json.loads((ROOT / "hubapi" / "testdata" / "scans.json").read_text())
FILES = json.loads((ROOT / "hubapi" / "testdata" / "grid-files.json").read_text())


def test_a_large_product_takes_no_room() -> None:
    tracemalloc.start()
    with pytest.raises(InvalidError, match="10,000,000 points are too many"):
        parse_scan(["a=range(1000)", "b=linear(0,1,100)", "c=log(1,2,100)"])
    assert tracemalloc.get_traced_memory()[1] < 100_000
    tracemalloc.stop()


def as_read(points: Any) -> list[dict[str, str]]:
    """Show the values, with their types, that a job reads for points: the command may write the same otherwise."""
    return [{name: repr(literal(text)) for name, text in point.items()} for point in points]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *[("1", 1), ("-0", 0), ("+5", 5), ("1e5", 1e5), (".5", 0.5), ("1.", 1.0), ("-.5E+3", -500.0)],
        *[("true", True), ("False", False), ("null", None), ("None", None), ("[1, true, null]", [1, True, None])],
        *[('{"a": [0.5]}', {"a": [0.5]}), ('"7"', "7"), ("[NaN]", "[NaN]"), ("(1, 2)", "(1, 2)"), ("0x1f", "0x1f")],
        *[("'7'", "'7'"), ("007", "007"), ("nan", "nan"), ("", ""), (" 7 ", " 7 "), ("[" * 4096, "[" * 4096)],
    ],
)
def test_a_value_is_read_as_what_it_says(text: str, value: object) -> None:
    assert repr(literal(text)) == repr(value)


@pytest.mark.parametrize("case", FILES, ids=lambda case: str(case["text"]))
def test_points_from_a_file(case: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / str(case["name"])
    path.write_bytes(str(case["text"]).encode())
    if "points" in case:
        assert as_read(read_points(path.name)) == as_read(case["points"])
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
        assert as_read(read_points(path.name)) == as_read(case["points"])
        return
    with pytest.raises(InvalidError, match=re.escape(str(case["refused"]))) as refused:
        read_points(path.name)
    assert refused.value.remedy
    assert refused.value.field == "grid_file"


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("p.csv", "k\n" + "\n".join(map(str, range(10_001))), "p.csv: 10,001 points are too many"),
        ("p.json", "[" * 200_000, "p.json: a value is nested too deeply"),
        ("p.json", f'[{{"k": {"9" * 5000}}}]', "or has too many digits"),
    ],
)
def test_large_files_are_refused(name: str, text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InvalidError, match=re.escape(words)):
        read_points(str(tmp_path / name))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match="No such file"):
        read_points(str(tmp_path / "p.csv"))
    (tmp_path / "p.csv").write_bytes(b"k\n\xff\n")
    with pytest.raises(InvalidError, match="not UTF-8 text"):
        read_points(str(tmp_path / "p.csv"))


@pytest.mark.parametrize("case", TABLE, ids=lambda case: " ".join(case["given"]))
def test_scans_are_written_as_for_the_command(case: dict[str, object]) -> None:
    given = case["given"]
    assert isinstance(given, list)
    if "points" in case:
        assert parse_scan(given) == case["points"]
        return
    with pytest.raises(InvalidError) as refused:
        parse_scan(given)
    assert str(case["refused"]) in str(refused.value)
    assert refused.value.remedy
    assert refused.value.field == "scan"


def test_points_are_counted_before_they_are_made() -> None:
    with pytest.raises(InvalidError, match="points are too many: at most 10,000 points"):
        parse_scan([f"{name}={','.join(map(str, range(100)))}" for name in "abcdefg"])
    assert len(parse_scan([f"{name}={','.join(map(str, range(100)))}" for name in "ab"])) == 10_000
    assert parse_scan([]) == []
    with pytest.raises(InvalidError, match="for is a word of Python"):
        parse_scan(["for=1"])


def submit(client: Client, code: str, *values: str) -> ScanHandle:
    scan, _ = client.submit_scan(
        [{"k": value} for value in values], environment="sha256:1", argv=[sys.executable, "-u", "-c", code], name="t"
    )
    return ScanHandle(client, scan)


def test_a_scan_goes_on_and_ends(client: Client, service: FakeService) -> None:
    scan = submit(client, "import os, sys; print(os.environ['k']); sys.exit(os.environ['k'] == '2')", "1", "2", "3")
    assert repr(scan).startswith("<scan t scan-1, 3 points: ")
    assert [len(client.jobs()), len(client.jobs(points=False))] == [3, 0]
    seen: list[Scan] = []
    assert scan.wait(30, each=seen.append).states == {"done": 2, "failed": 1}
    assert [job.log() for job in scan.points] == ["1\n", "2\n", "3\n"]
    assert scan.points.where("failed")[0].record.parameters == {"k": "2"}
    text = repr(scan.points)
    assert text.splitlines()[0].split() == [
        *("point", "k", "state", "exit", "time", "memory", "cpu", "host", "job", "remark")
    ]
    assert text.splitlines()[2].split()[:4] == ["1", "2", "failed", "1"]
    assert "<td>failed</td>" in scan.points._repr_html_()
    assert repr(scan.points[:0]) == "no points are left"
    assert decode(Scan, {"id": "x"}).ended
    assert [found.id for found in client.scans()] == [scan.id]
    with pytest.raises(GridError, match=r"1 of 3 points of scan t are not done; the first of them, point 1 \(k=2\)"):
        scan.results()
    assert scan.delete().changed == 3
    with pytest.raises(NotFoundError):
        client.scan(scan.id)


def test_a_scan_is_submitted_once(client: Client, service: FakeService) -> None:
    service.fail("POST /api/v1/jobs", 0.0)
    request = {"environment": "sha256:1", "argv": [sys.executable, "-c", ""], "request_id": "r"}
    for _ in range(2):
        scan, first = client.submit_scan([{"k": "1"}, {"k": "2"}], **request)  # type: ignore[arg-type]
        assert (scan.id, scan.points, first.id, len(client.points(scan.id))) == ("scan-1", 2, "j-1", 2)
    service.wait_jobs()


def test_a_scan_is_changed(client: Client, service: FakeService) -> None:
    scan = submit(client, "import time; time.sleep(60)", "1", "2")
    assert scan.hold().changed == 2
    assert scan.record.held == 2
    assert scan.points[0].record.held
    assert scan.release().scan.held == 0
    assert scan.requeue().changed == 2
    assert repr(scan.why()).splitlines() == [
        "j-1: no slot is free",
        "  -> wait",
        "of 9 slots, 2 have what it asks for, 0 of them free",
        "  2 CPUs: excludes 7, it alone 3",
    ]
    with pytest.raises(TimeoutError, match="it runs on"):
        scan.wait(0.1)
    while any(job.process is None for job in service.jobs.values()):
        time.sleep(0.01)
    assert scan.cancel().changed == 2
    assert scan.wait(30).states == {"canceled": 2}
    with pytest.raises(GridError, match="was canceled"):
        scan.check()


def test_a_job_is_changed(client: Client, service: FakeService) -> None:
    job = submit(client, "import time; time.sleep(60)", "1").points[0]
    assert job.hold().record.held
    assert not job.release().record.held
    job.requeue()
    assert job.why().clauses[0].alone == 3
    while service.jobs["j-1"].process is None:
        time.sleep(0.01)
    job.cancel().wait(30)
    assert [what for _, what in service.changes] == ["hold", "release", "requeue", "cancel"]


def test_where_a_job_runs_is_told(client: Client) -> None:
    job = decode(Job, {"id": "j-1", "name": "fit", "state": "running", "host": "wn042", "parameters": {"k": 1}})
    assert repr(JobHandle(client, job)) == "<job fit j-1: running, on wn042>"
    many = Points(client, [decode(Job, {"id": f"j-{n}", "point": n, "state": "done"}) for n in range(60)])
    assert repr(many).splitlines()[-1] == "and 10 more"


# --- in the notebook


def test_a_cell_runs_once_for_each_point(notebook: Notebook, service: FakeService) -> None:
    cell = "import os\nprint('at', k, mode)\nresult = (k + 1, mode, os.environ['SLIPWAY_POINT'])"
    out = notebook.grid("--name train --to local --scan k=1,2.5 --scan mode=fast,slow", cell)
    assert notebook.names["result"] == [(2, "fast", "0"), (2, "slow", "1"), (3.5, "fast", "2"), (3.5, "slow", "3")]
    lines = out.splitlines()
    assert any(line.startswith("▸ scan train scan-1, 4 points, submitted to local") for line in lines)
    assert lines[-1].startswith("▸ train: 4 done, ")
    scan = notebook.names["_scan"]
    assert scan.states == {"done": 4}
    assert repr(slipway.scan(scan.id).points) == repr(scan.points)
    assert [found.id for found in slipway.scans()] == [scan.id]
    assert service.jobs["j-1"].body["backend"] == "local"
    assert "_job" not in notebook.names


def test_a_cell_runs_once_for_each_line_of_a_file(notebook: Notebook, tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("k,mode\n1,fast\n2.5,slow\n")
    notebook.grid(f"--grid-file {tmp_path}/p.csv", "result = (k + 1, mode)")
    assert notebook.names["result"] == [(2, "fast"), (3.5, "slow")]
    assert "give one of them" in str(notebook.refused("--grid-file p.csv --scan k=1", "pass"))
    notebook.grid("--scan 'x=linear(0,1,2)' --scan \"s='7'\"", "result = (x, s)")
    assert notebook.names["result"] == [(0.0, "7"), (1.0, "7")]


def test_a_scan_is_left_alone(notebook: Notebook) -> None:
    notebook.grid("--detach --scan k=1,2", "result = k")
    scan = notebook.value
    assert isinstance(scan, ScanHandle)
    assert scan.results(30) == [1, 2]


def test_failed_points_are_told(notebook: Notebook) -> None:
    notebook.names["result"] = "old"
    error = notebook.refused("--name t --scan k=1,0,2", "result = 1 / k")
    assert isinstance(error, GridError)
    assert "1 of 3 points of scan t are not done; the first of them, point 1 (k=0): " in str(error)
    shown = error._render_traceback_()
    assert shown[0] == "Traceback (most recent call last):"
    assert shown[-1].endswith(".points.where('done')] gives the 2 that are there")
    assert "ZeroDivisionError" in error.traceback
    assert notebook.names["result"] == "old"
    assert [job.result() for job in notebook.names["_scan"].points.where("done")] == [1.0, 0.5]


def test_on_a_page_failed_points_are_a_card(notebook: Notebook, page: Page) -> None:
    error = notebook.refused("--name t --scan k=1,0,2", "result = 1 / k")
    assert error._render_traceback_() == ["GridError: 1 of 3 points of scan t are not done"]
    card = page.shown[-1]
    assert "the cell raised ZeroDivisionError" in card["text/plain"]
    assert "<summary>Traceback of the job</summary>" in card["text/html"]
    with pytest.raises(GridError) as caught:
        notebook.names["_scan"].results()
    assert caught.value._render_traceback_()[0] == "Traceback (most recent call last):"


def test_what_is_wrong_with_a_scan_is_said_before(notebook: Notebook, service: FakeService) -> None:
    for line, words in {
        "--scan k=1,1": "1 is there twice",
        "--in k --scan k=1": "k is in --in and in --scan",
        "--scan j=1": "k",
    }.items():
        notebook.names["k"] = 1
        assert words in str(notebook.refused(line, "print(k)"))
    assert service.jobs == {}
    assert service.freezes == 0


def test_an_interrupt_leaves_the_scan(notebook: Notebook, service: FakeService, tmp_path: Path) -> None:
    def interrupt() -> None:
        while not service.count("GET", "/events"):  # it is being watched
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    flag = tmp_path / "go"
    thread = threading.Thread(target=interrupt)
    thread.start()
    cell = f"import os, time\nwhile not os.path.exists({str(flag)!r}): time.sleep(0.05)"
    error = notebook.refused("--scan k=1,2", cell)
    thread.join()
    flag.touch()
    assert isinstance(error, WatchInterrupted)
    assert "slipway.scan('scan-1')" in str(error)
    assert notebook.names["_scan"].wait(60).states == {"done": 2}
