"""What a cell says to the notebook and not to Python: in a job there is no IPython.

Of that, what times a statement becomes Python, what is about the page goes away, and of the rest is said what does it.
"""

from __future__ import annotations

import ast
import re

_LINE = re.compile(r"(\s*)(%{1,2})(\w+)[ \t]*(.*)", re.DOTALL)
_PAGE = re.compile(r"matplotlib|config|autoreload|load_ext\s+(autoreload|slipway)|reload_ext\s+slipway")
"""Figures come back anyway, and a job loads each module once."""
_TIMED = (
    "{0}slipway_begun = __import__('time').perf_counter(); {1}; "
    "print(f\"Wall time: {{__import__('time').perf_counter() - slipway_begun:.3g}} s\")"
)
_INSTALL = "install it in a cell of its own, before this one: the environment has it then"
_INSTEAD = {
    "pip": _INSTALL,
    "conda": _INSTALL,
    "mamba": _INSTALL,
    "uv": _INSTALL,
    "cd": "use os.chdir(...)",
    "env": "use os.environ",
    "run": "use runpy.run_path(...)",
    "timeit": "use timeit.timeit(...), or %time",
}
_NOT_PYTHON = re.compile(r"\s*(%|!|\?|[\w., ]+\s*=\s*[%!]|[\w.]+\?)")


def plain(cell: str) -> str:
    """Give a cell as a job runs it; its lines keep their numbers."""
    try:
        ast.parse(cell)
    except (SyntaxError, ValueError):
        return "\n".join(map(_plain_line, cell.split("\n")))
    return cell


def _plain_line(line: str) -> str:
    found = _LINE.fullmatch(line)
    if not found:
        return line
    indent, _, word, rest = found.groups()
    if word == "time":
        return _TIMED.format(indent, rest.rstrip("; ")) if rest else f"{indent}pass"  # the job's end tells its time
    return f"{indent}pass" if _PAGE.match(f"{word} {rest}") else line


def instead(line: str) -> str:
    """Say what to write in place of a line that only a notebook understands; empty: it is none."""
    if not _NOT_PYTHON.match(line):
        return ""
    said = re.search(r"(%{1,2}|!)\s*(\w*)(.*)", line)
    sign, word, rest = said.groups() if said else ("", "", "")
    if word in _INSTEAD and (sign != "!" or _INSTEAD[word] == _INSTALL):
        return f"{sign}{word} works in the notebook, not in a job: {_INSTEAD[word]}"
    if sign == "!":
        command = f"{word}{rest}".strip()
        return f"!command works in the notebook, not in a job: subprocess.run({command!r}, shell=True, check=True)"
    return "%magic and !command lines work in the notebook, not in a job: use Python (subprocess.run)"
