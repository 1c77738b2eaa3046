"""What failed is tried again or submitted anew, by the same objects."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import slipway
from fake import FakeService, Fault
from slipway import Client, ConflictError, GridError, InvalidError, JobHandle, NotFoundError, UnavailableError
from slipway._display import Live
from test_board import wait_for
from test_magic import Notebook, Page, notebook, page

__all__ = ["notebook", "page"]


def flaky(flag: Path) -> str:
    return f"import os\nassert os.path.exists({str(flag)!r}), 'not yet'\nresult = "


def test_a_job_is_tried_again_and_stays_the_same(notebook: Notebook, service: FakeService, tmp_path: Path) -> None:
    service.outcome = {"cause": "memory", "max_rss": 2_100_000_000}
    error = notebook.refused("--mem 2G", flaky(tmp_path / "go") + "5")
    assert error.remedy.startswith('it had 2 GiB when it ended: _job.retry(mem="3G") tries')
    (tmp_path / "go").touch()
    assert notebook.run("again = _job.retry(mem='8G', time='2h')") is None
    job = notebook.names["_job"]
    assert notebook.names["again"] is job
    assert job.result() == 5
    assert (job.id, job.record.attempt, job.record.memory, job.record.attempts[0].cause) == ("j-1", 2, "8G", "memory")
    with pytest.raises(InvalidError, match="retry has no option gpu: its options are cpus, mem, time"):
        job.retry(gpu="whole")
    with pytest.raises(InvalidError, match="nothing is meant"):
        job.retry(failed=False, canceled=False)
    assert job.retry(done=True).wait(60).record.attempt == 3


def test_what_goes_on_is_not_tried_again(notebook: Notebook, service: FakeService) -> None:
    notebook.grid("--detach", "import time; time.sleep(60)")
    with pytest.raises(ConflictError, match="has not ended: cancel it first"):
        notebook.value.retry()
    while service.jobs["j-1"].process is None:
        pass
    notebook.value.cancel()


def test_a_scan_is_repaired(notebook: Notebook, service: FakeService, tmp_path: Path) -> None:
    error = notebook.refused(
        "--scan k=1,2,3", f"import os\nassert k != 2 or os.path.exists({str(tmp_path / 'go')!r})\nresult = k"
    )
    assert isinstance(error, GridError)
    scan = notebook.names["_scan"]
    (tmp_path / "go").touch()
    assert scan.retry(mem="8G").changed == 1
    assert scan.results(60) == [1, 2, 3]
    assert [job.record.attempt for job in scan.points] == [1, 2, 1]
    assert repr(scan.points).splitlines()[0].split() == [
        *("point", "k", "state", "exit", "try", "time", "memory", "cpu", "host", "job", "remark")
    ]
    assert scan.states == {"done": 3}


def test_what_another_has_tried_again_is_seen(notebook: Notebook, client: Client, tmp_path: Path) -> None:
    notebook.refused("--scan k=1,2", f"import os\nassert os.path.exists({str(tmp_path / 'go')!r})\nresult = k")
    scan = notebook.names["_scan"]
    bad = scan.failed[0]
    (tmp_path / "go").touch()
    client.retry_scan(scan.id, states=["failed"])
    assert bad.result(60) == 1
    assert scan.results(60) == [1, 2]
    with pytest.raises(GridError):
        notebook.refused("", "1 / 0").job.result()


def test_a_stream_that_breaks_is_not_the_end(
    notebook: Notebook, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook.grid("--scan k=1,2", "result = k")
    scan = notebook.names["_scan"]

    def broken(*_: object, **__: object) -> Iterator[object]:
        yield from ()
        raise ValueError("of another kind")

    monkeypatch.setattr(type(scan.client), "watch_scan", broken)
    with pytest.raises(ValueError, match="of another kind"):
        list(scan.as_completed(30))


def test_what_is_shown_stays_when_the_service_is_away(page: Page) -> None:
    def away() -> Iterator[dict[str, str]]:
        yield from ()
        raise UnavailableError("away")

    live = Live()
    live.show({"text/plain": "as it was"}, away)
    wait_for(lambda: page.updates > 0)
    assert page.shown[-1] == {"text/plain": "as it was"}


def test_the_advice_is_of_the_scan(notebook: Notebook, service: FakeService) -> None:
    service.outcome = {"cause": "memory", "max_rss": 2_100_000_000}
    error = notebook.refused("--scan k=1,2", "1 / (k - 1)")
    assert '_scan.retry(mem="3G")' in error.remedy
    assert "slipway.scan('scan-1').points.where('done')" in error.remedy


def test_new_jobs_of_old_ones(notebook: Notebook, service: FakeService) -> None:
    notebook.grid("--name fit", "result = 1")
    job = notebook.names["_job"]
    new = job.resubmit(mem="8G", to="any", retry=2, after=job, env=slipway.env("gpu:1"), name="more")
    assert isinstance(new, JobHandle)
    assert new.result() == 1
    asked = service.jobs["j-2"].body
    keys = ("name", "memory", "backend", "retries", "after", "environment")
    assert [asked[key] for key in keys] == ["more", "8G", "any", 2, ["j-1"], "gpu:1"]
    notebook.grid("--scan k=1,2", "result = k")
    scan = notebook.names["_scan"].resubmit(priority=5)
    assert scan.id != notebook.names["_scan"].id
    assert scan.results(60) == [1, 2]
    with pytest.raises(InvalidError, match="resubmit has no option memory: did you mean mem"):
        job.resubmit(memory="8G")
    service.fail("resubmit", Fault("invalid", 422, "memory: 1T is too much", field="memory", remedy="at most 8G"))
    with pytest.raises(InvalidError, match=r"^mem=: 1T is too much: at most 8G"):
        job.resubmit(mem="1T")


def test_what_is_missing_of_its_files_is_told(notebook: Notebook) -> None:
    error = notebook.refused("--out hist.root", "result = 1")
    assert "it has not left ['hist.root']" in str(error)
    assert "--out" in error.remedy


def test_an_expired_job_says_so(service: FakeService, notebook: Notebook) -> None:
    words = "job j-1 ended on 2026-10-20 and was removed on 2026-11-19, 30 days after its end, as this site does"
    from fake import Fault

    service.fail("/jobs/j-1", Fault("not_found", 404, words))
    with pytest.raises(NotFoundError, match="30 days after its end"):
        slipway.grid.job("j-1")


def test_results_come_with_one_request_each(notebook: Notebook, service: FakeService) -> None:
    code = "from slipway import grid\n@grid.function\ndef f(x): return x\nm = f.map(range(12))"
    assert notebook.run(code) is None
    scan = notebook.names["m"].wait(60)
    before = len(service.asked)
    assert sorted(job.result() for job in scan.as_completed(60)) == list(range(12))
    assert len(service.asked) - before == 13  # the stream, and a file each


def test_a_restart_is_bridged(notebook: Notebook, service: FakeService, tmp_path: Path) -> None:
    code = "from slipway import grid\nimport os, time\n@grid.function\ndef f(x):\n"
    code += f"    while not os.path.exists({str(tmp_path / 'go')!r}):"
    assert notebook.run(code + " time.sleep(0.02)\n    return x\nm = f.map(range(3))") is None
    seen: list[int] = []

    def each(scan: slipway.Scan) -> None:
        if not seen:
            service.down()
            service.up()
            (tmp_path / "go").touch()
        seen.append(scan.points)

    scan = notebook.names["m"]
    assert scan.wait(60, each=each).states == {"done": 3}
    resumed = [at for at, (_, path) in enumerate(service.asked) if path.endswith("/events")]
    assert [bool(service.headers[at].get("Last-Event-ID")) for at in resumed] == [False, True]
