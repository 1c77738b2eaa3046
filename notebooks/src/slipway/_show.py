"""Clean text on the notebook's page, without widgets: it reads as well in a terminal and after nbconvert."""

from __future__ import annotations

import os
import shutil
import sys
import time
from typing import Any, Literal

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
