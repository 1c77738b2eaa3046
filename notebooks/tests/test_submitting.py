"""What is said and sent before a job is there: its plan, its options, its large inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fake import FakeService, Fault
from slipway import InvalidError, Job, JobPlan
from slipway._client import Cargoes
from slipway._decode import decode
from slipway._submission import _turn
from test_magic import Notebook, notebook

__all__ = ["notebook"]

OPTIONS = "--retry 2 --after _job,scan-9 --priority -5 --out 'hist.root,*.png' --to any"


def test_all_options_reach_the_service(notebook: Notebook, service: FakeService) -> None:
    notebook.grid("", "pass")
    cell = "import pathlib\n[pathlib.Path(n).touch() for n in ('hist.root', '*.png')]"
    notebook.grid(OPTIONS, cell)
    asked = service.jobs["j-2"].body
    assert {key: asked[key] for key in ("retries", "after", "priority", "out", "backend")} == {
        "retries": 2, "after": ["j-1", "scan-9"], "priority": -5, "out": ["hist.root", "*.png"], "backend": "any",
    }  # fmt: skip
    assert not {"retries", "after", "priority", "out", "blobs"} & {*service.jobs["j-1"].body}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--retry many", "--retry many"),
        ("--retry -1", "--retry -1"),
        ("--priority 1.5", "--priority 1.5"),
        ("--priority 101", "--priority 101 is more than the 100 that it may be"),
        ("--out a/b", "--out a/b"),
        ("--out ..", "--out .."),
        ("--local --to slurm", "--local and --to slurm"),
    ],
)
def test_refused(notebook: Notebook, service: FakeService, line: str, words: str) -> None:
    error = notebook.refused(line, "pass")
    assert words in str(error)
    assert error.remedy
    assert service.asked == []


def test_a_trial_is_the_first_point_here(notebook: Notebook, service: FakeService) -> None:
    notebook.grid("--local --scan k=1,2,3", "result = k")
    assert notebook.names["result"] == [1]
    assert "▸ scan cell scan-1, the first of 3 points, submitted to local" in notebook.out
    assert [job.body["backend"] for job in service.jobs.values()] == ["local"]
    code = "from slipway import grid\n@grid.function(local=True)\ndef f(x): return x\nm = f.map(iter([4, 5]))"
    assert notebook.run(code) is None
    assert notebook.names["m"].results() == [4]


def test_functions_have_the_options_too(notebook: Notebook, service: FakeService) -> None:
    code = "from slipway import grid\n@grid.function\ndef f(): return 1\njob = f.remote()\n"
    code += "g = f.with_options(retry=2, after=[job, 'scan-9'], priority=-5, out=('a', '*.png'))\ng.remote()"
    assert notebook.run(code) is None
    asked = service.jobs["j-2"].body
    assert [asked[key] for key in ("retries", "after", "priority", "out")] == [2, ["j-1", "scan-9"], -5, ["a", "*.png"]]


def test_the_plan_is_one_line(notebook: Notebook, service: FakeService) -> None:
    service.plan |= {"free": 3, "most": 8, "typical": 300}
    out = notebook.grid("--name fit --scan k=1,2,3", "pass")
    (line,) = [line for line in out.splitlines() if "environment" in line]
    assert line.startswith("▸ environment abababababab frozen now, 42 kB of yours on a base of 2.5 GB (")
    assert line.endswith("kB; local: 3 of 8 places free, such jobs have run 5 min, all 3 in about 5 min once they run")
    assert service.checked[0]["points"][2] == {"parameters": {"k": "3"}}
    assert "environment cdcdcdcdcdcd gpu:1; sends " in notebook.grid("--env gpu:1", "pass")


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ({}, ""),
        ({"free": 2}, "local: 2 places free"),
        (
            {"free": 0, "lacks": "2 CPUs", "waiting": 4, "estimate": 240},
            "local: no place free (2 CPUs), 4 in line, the next in about 4 min",
        ),
        (
            {"free": -1, "gpu_hours": 3.75, "gpu_most": 100, "stored": 19e9, "store": 20e9},
            "3.75 of 100 GPU hours used, your jobs keep 19 GB of 20 GB",
        ),
        ({"typical": 7.25}, "such jobs have run 7.2 s"),
        ({"typical": 36_000, "most": 10}, "such jobs have run 10.0 h, all 500 in about 500.0 h once they run"),
    ],
)
def test_plans_in_words(plan: dict[str, Any], words: str) -> None:
    assert decode(JobPlan, {"backend": "local", **plan}).words(500, gpu=True) == words


def test_a_place_in_line_is_told() -> None:
    for estimate, words in {
        -1: "number 2 in line",
        20: "begins in about a minute",
        600: "begins in about 10 min",
    }.items():
        assert _turn(decode(Job, {"id": "j-1", "queue": {"place": 2, "estimate": estimate}})).endswith(words)


# --- large inputs


def test_a_large_value_is_sent_once(notebook: Notebook, service: FakeService) -> None:
    notebook.names["data"], notebook.names["n"] = b"x" * 11_000_000, 1
    assert "; sends 11 MB" in notebook.grid("--in n,data", "result = len(data) + n")
    assert notebook.names["result"] == 11_000_001
    assert len(service.blobs) == 1
    notebook.names["n"] = 2
    assert " kB, 11 MB are there already" in notebook.grid("--in n,data", "result = len(data) + n")
    assert notebook.names["result"] == 11_000_002
    assert service.count("PUT", "/blobs/sha256:") == 1
    assert service.count("HEAD", "/blobs/sha256:") == 2
    assert len(str(service.jobs["j-2"].body)) < 200_000


def test_a_large_argument_is_sent_once(notebook: Notebook, service: FakeService) -> None:
    code = "from slipway import grid\n@grid.function\ndef f(x, y): return len(x) + y\nx = b'x' * 11_000_000\n"
    assert notebook.run(code + "m = f.starmap([(x, 1), (x, 2)]); job = f.remote(x, 3)") is None
    assert notebook.names["m"].results() == [11_000_001, 11_000_002]
    assert notebook.names["job"].result() == 11_000_003
    assert service.count("PUT", "/blobs/") == 1


def test_what_is_one_value_stays_one(notebook: Notebook) -> None:
    assert notebook.run("big = [bytes(11_000_000)]\nsame = {'big': big}") is None
    notebook.grid("--in same,big", "result = same['big'] is big")
    assert notebook.names["result"] is True


def test_the_stores_refusal_is_shown(notebook: Notebook, service: FakeService) -> None:
    notebook.names["data"] = b"x" * 11_000_000
    service.fail("PUT", Fault("over_quota", 429, "your jobs keep 20 GB of 20 GB", remedy="slipway jobs rm"))
    assert str(notebook.refused("--in data", "data")) == "your jobs keep 20 GB of 20 GB: slipway jobs rm"
    assert service.jobs == {}


def test_too_large_for_any_job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("slipway._client.FILE_LIMIT", 10)
    with pytest.raises(InvalidError, match="a is 11 B, at most 10 B can be sent"):
        Cargoes({"a": b"x" * 11})
