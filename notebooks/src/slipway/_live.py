"""Objects that change where a notebook shows them, until what they stand for has ended. No cell waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

from ._errors import SlipwayError
from ._show import shell

Bundle = dict[str, str]


class Live:
    """One object's display: where there is a page that can change, a thread of its own draws what it is given."""

    def __init__(self) -> None:
        self._last = threading.Event()

    def show(self, first: Bundle, follow: Callable[[Callable[[], bool]], Iterator[Bundle]] | None) -> None:
        """Show an object, and what ``follow`` gives of it then; shown once more, it changes only there."""
        from IPython.display import display

        self._last.set()
        if follow is None or getattr(shell(), "kernel", None) is None:
            display(first, raw=True)  # type: ignore[no-untyped-call]
            return
        self._last = stop = threading.Event()
        place = display(first, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        news = follow(lambda: not stop.is_set())
        threading.Thread(target=_draw, args=(place, news, stop), daemon=True).start()


def _draw(place: Any, news: Iterator[Bundle], stop: threading.Event) -> None:
    try:
        for bundle in news:
            if stop.is_set():
                return
            place.update(bundle, raw=True)
    except SlipwayError:
        return  # what stands there is what was known last
