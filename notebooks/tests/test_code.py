"""The kernel of notebooks in VS Code: the program that its extension runs, spoken to as the extension does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT

PROGRAM = ROOT / "deploy" / "images" / "code" / "extension" / "kernel.py"


class Kernel:
    """The program, with its lines."""

    def __init__(self, cwd: Path, **env: str) -> None:
        pipe = subprocess.PIPE
        environ = {**os.environ, "IPYTHONDIR": str(cwd / "ipython"), "TMPDIR": str(cwd), **env}
        self.process = subprocess.Popen(
            [sys.executable, PROGRAM], stdin=pipe, stdout=pipe, stderr=pipe, cwd=cwd, env=environ
        )

    def ask(self, **line: Any) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(line).encode() + b"\n")
        self.process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout
        line: dict[str, Any] = json.loads(self.process.stdout.readline())
        return line

    def until(self, event: str) -> list[dict[str, Any]]:
        heard = [self.hear()]
        while heard[-1]["event"] != event:
            heard.append(self.hear())
        return heard

    def run(self, number: int, code: str) -> list[dict[str, Any]]:
        self.ask(do="execute", id=number, code=code)
        return self.until("done")


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    kernel = Kernel(tmp_path_factory.mktemp("k"))
    assert kernel.hear()["language"]["name"] == "python"
    yield kernel
    with kernel.process as process:
        process.kill()


def test_a_cell(kernel: Kernel) -> None:
    printed, result, done = kernel.run(1, "print('hi')\n6 * 7")
    assert printed == {"event": "output", "id": 1, "type": "stream", "content": {"name": "stdout", "text": "hi\n"}}
    assert (result["type"], result["content"]["data"]) == ("execute_result", {"text/plain": "42"})
    assert (done["status"], done["id"]) == ("ok", 1)


def test_pictures_and_errors(kernel: Kernel) -> None:
    html, error, done = kernel.run(2, "from IPython.display import HTML\ndisplay(HTML('<b>x</b>'))\n1 / 0")
    assert html["content"]["data"]["text/html"] == "<b>x</b>"
    assert (error["type"], error["content"]["ename"], done["status"]) == ("error", "ZeroDivisionError", "error")


def test_a_question(kernel: Kernel) -> None:
    kernel.ask(do="execute", id=3, code="print(input('name? '))")
    assert kernel.hear() == {"event": "input", "prompt": "name? ", "password": False}
    kernel.ask(do="input", value="ada")
    assert kernel.until("done")[0]["content"]["text"] == "ada\n"


def test_an_interrupt(kernel: Kernel) -> None:
    kernel.ask(do="execute", id=4, code="import time\nprint('on', flush=True)\ntime.sleep(600)")
    kernel.until("output")
    kernel.ask(do="interrupt")
    assert kernel.until("done")[-2]["content"]["ename"] == "KeyboardInterrupt"


def test_what_programs_print_does_not_mix_with_the_lines(kernel: Kernel) -> None:
    assert kernel.run(5, "import os\nos.write(1, b'raw\\n')\n_ = os.system('echo raw')")[-1]["status"] == "ok"


def test_it_ends_with_its_kernel_and_with_its_input(tmp_path: Path) -> None:
    dying = Kernel(tmp_path)
    ended = Kernel(tmp_path)
    with dying.process, ended.process:
        dying.ask(do="execute", id=1, code="import os\nos._exit(3)")
        assert "the kernel has ended" in dying.until("failed")[-1]["why"]
        assert dying.process.wait(30) == 1
        ended.until("ready")
        assert ended.process.stdin
        ended.process.stdin.close()
        assert ended.process.wait(30) == 0
    assert not list(tmp_path.glob("slipway-kernel-*"))
