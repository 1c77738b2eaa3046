"""Clean text on the notebook's page, without widgets: it reads as well in a terminal and after nbconvert."""

from __future__ import annotations

import sys
import time
from typing import Any

_RATE = 0.2
"""The least time, in seconds, between two updates of a line."""


def shell() -> Any:
    """Give the IPython that this runs in; None outside of one."""
    module = sys.modules.get("IPython")
    return module.get_ipython() if module is not None else None


class Screen:
    """Writes lines, the payload's raw output, and one line that changes in place. ``quiet`` keeps only output.

    A line of our own never cuts a line of the payload: it waits until that is complete, or for the end.
    """

    def __init__(self, shell: Any, *, quiet: bool = False) -> None:
        self._in_notebook = getattr(shell, "kernel", None) is not None
        self._quiet = quiet
        self._at_line_start = True
        self._waiting: list[str] = []

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

    def _release(self) -> None:
        text, self._waiting = "".join(self._waiting), []
        if text:
            self._write(text)

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()
        self._at_line_start = text.endswith("\n")

    def live(self) -> LiveLine:
        """Give a line that changes in place until it is done."""
        return LiveLine(self, in_place=self._in_notebook and not self._quiet)


class LiveLine:
    """One line of progress. Where a page cannot change, only new stages and the end are written."""

    def __init__(self, screen: Screen, *, in_place: bool) -> None:
        self._screen = screen
        self._in_place = in_place
        self._handle: Any = None
        self._last = 0.0
        self._stage = ""

    @property
    def in_place(self) -> bool:
        """Whether it changes on the page, so that more than a line is seen."""
        return self._in_place

    def update(self, stage: str, text: str, page: str = "") -> None:
        """Show how far it is, on a page as HTML where it is given; updates that come too fast are left out."""
        now = time.monotonic()
        if self._in_place:
            if now - self._last >= _RATE or stage != self._stage:
                self._put(text, page)
                self._last = now
        elif stage != self._stage:
            self._screen.line(text)
        self._stage = stage

    def done(self, text: str, page: str = "") -> None:
        """Replace the line by how it ended."""
        if self._in_place:
            self._put(text, page)
        else:
            self._screen.line(text)

    def _put(self, text: str, page: str) -> None:
        from IPython.display import display

        bundle = {"text/plain": f"▸ {text}", **({"text/html": page} if page else {})}
        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(bundle, raw=True)
