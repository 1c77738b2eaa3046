"""%slipway in a real IPython: what a kernel has, and what the next one is to have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fake import FakeService
from slipway import Client, InvalidError, KernelSpec, NotFoundError
from slipway._decode import decode
from slipway.magic import switched_words
from test_magic import Notebook, notebook  # noqa: F401 - a fixture

TESTDATA = Path(__file__).parents[2] / "hubapi" / "testdata"
SLICE = {"name": "1g.18gb", "model": "NVIDIA H200", "memory": 18 << 30, "isolation": "hardware"}


def said(notebook: Notebook, line: str) -> str:  # noqa: F811
    error = notebook.run(f"%slipway {line}")
    assert error is None, f"{error}\n{notebook.out}"
    return notebook.out


def test_what_a_kernel_on_a_slice_has(notebook: Notebook, service: FakeService) -> None:  # noqa: F811
    stops = {"at": "2026-11-20T12:05:00Z", "why": "if nothing goes on in it for 1 h", "can_keep": True}
    more: dict[str, Any] = {"backend": "htcondor", "host": "node7", "up": "2026-11-20T10:05:00Z", "stops": stops}
    more |= {"memory": "8G", "cpus": 4, "gpu": "1g.18gb", "slice": SLICE}
    service.session(id="s-self", kind="kernel", name="python-gpu", **more)
    out = said(notebook, "")
    for line in (
        "kernel   python-gpu (s-self)",
        "slice    1g.18gb of NVIDIA H200, 18 GiB, isolation: hardware",
        "memory   8 GiB, 4 CPU",
        "where    htcondor: node7",
        "if nothing goes on in it for 1 h",
    ):
        assert line in out, out
    assert "since    2026-11-20" in out
    assert "simulated" not in out
    service.session(id="s-self", kind="kernel", name="python-gpu", **more | {"slice": SLICE | {"simulated": True}})
    assert "isolation: hardware, simulated\n" in said(notebook, "")


def test_a_kernel_of_a_session_says_so(notebook: Notebook, service: FakeService) -> None:  # noqa: F811
    service.session(id="s-self", name="", memory="2G", cpus=1, gpu="none")
    out = said(notebook, "")
    assert "session  default (s-self)" in out
    assert "it shares what the session has" in out
    assert "slice    none" in out
    assert "since" not in out


def test_the_next_kernel_is_switched_and_back(notebook: Notebook, service: FakeService) -> None:  # noqa: F811
    out = said(notebook, "switch gpu 3g.71gb")
    assert "Your next kernels of python-gpu have GPU 3g.71gb, 4 CPU, 8 GiB;" in out
    assert "%slipway switch gpu default goes back." in out
    assert "Kernel > Shut Down Kernel" in out
    assert "Now: 3 free now" in out
    assert service.switched == {"gpu": "3g.71gb"}
    both = KernelSpec("python-gpu", switched={"gpu": "3g.71gb", "memory": "4G"})
    assert "; %slipway switch gpu default and %slipway switch memory default go back." in switched_words(both)
    assert "1g.18gb, 4 CPU, 8 GiB, as usual" in said(notebook, "switch gpu default --kernel python-gpu")
    assert service.switched == {}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("switch gpu 7g.141gb", "one of 1g.18gb, 3g.71gb, or default"),
        ("switch gpu 3g.71gb --kernel other", "one of python-gpu"),
        ("switch gpu", "such as %slipway switch gpu 3g.71gb"),
        ("switch", "needs what to switch"),
        ("switch colour red", "invalid choice"),
        ("swap gpu 3g.71gb", "invalid choice"),
        ('switch gpu "3g', "close the quote"),
    ],
)
def test_refused(notebook: Notebook, line: str, words: str) -> None:  # noqa: F811
    error = notebook.run(f"%slipway {line}")
    assert isinstance(error, InvalidError | NotFoundError)
    assert words in str(error)


def test_help(notebook: Notebook) -> None:  # noqa: F811
    assert "%slipway switch gpu 3g.71gb" in said(notebook, "--help")


def test_kernelspecs(client: Client) -> None:
    (spec,) = client.kernelspecs()
    assert isinstance(spec, KernelSpec)
    assert (spec.name, spec.gpus, spec.available.state) == ("python-gpu", ("1g.18gb", "3g.71gb"), "free")
    assert decode(KernelSpec, {"name": "x"}).words == ""


def test_the_shared_example_is_read() -> None:
    doc = json.loads((TESTDATA / "kernelspec.json").read_text())
    spec = decode(KernelSpec, doc)
    assert {name for name in doc if getattr(spec, name, None) in (None, "", (), {})} <= {"stack"}
    assert (spec.words, spec.switched, spec.available.wait) == ("GPU 3g.71gb, 4 CPU, 8 GiB", {"gpu": "3g.71gb"}, 660)
