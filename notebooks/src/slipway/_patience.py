"""How often the service is asked for an end that is waited for."""

from __future__ import annotations

import time

_LONGEST = 2.0
"""Seconds between two questions, once it takes long."""


class Patience:
    """Pauses between questions, longer each time, until ``timeout`` seconds from now; None: for ever."""

    def __init__(self, timeout: float | None, first: float) -> None:
        self._end = None if timeout is None else time.monotonic() + timeout
        self._first = self._pause = first

    def soon(self) -> None:
        """Ask soon again: something has happened."""
        self._pause = self._first

    def pause(self) -> bool:
        """Sleep a little. It gives False at once when the time would be up by then."""
        if self._end is not None and time.monotonic() + self._pause > self._end:
            return False
        time.sleep(self._pause)
        self._pause = min(self._pause * 1.5, _LONGEST)
        return True
