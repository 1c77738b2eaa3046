"""Objects that change where a notebook shows them, until what they stand for has ended. No cell waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

from ._errors import SlipwayError
from ._show import shell

Bundle = dict[str, str]
_PLACES = 3
"""In how many places an object that is shown again and again changes: the last ones."""


class Live:
    """One object's displays: where there is a page that can change, one thread draws all of them anew."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._places: list[Any] = []
        self._drawn = False

    def show(self, first: Bundle, follow: Callable[[], Iterator[Bundle]] | None) -> None:
        """Show an object, and what ``follow`` gives of it from then on."""
        from IPython.display import display

        if follow is None or getattr(shell(), "kernel", None) is None:
            display(first, raw=True)  # type: ignore[no-untyped-call]
            return
        place = display(first, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        with self._turn:
            self._places = [*self._places, place][-_PLACES:]
            if not self._drawn:
                self._drawn = True
                threading.Thread(target=self._draw, args=(first, follow()), daemon=True).start()

    def _draw(self, bundle: Bundle, news: Iterator[Bundle]) -> None:
        try:
            for bundle in news:
                for place in self._places:
                    place.update(bundle, raw=True)
        except SlipwayError:
            pass  # what stands there is what was known last
        finally:
            with self._turn:
                late, self._places, self._drawn = self._places, [], False
        for place in late:  # one that came during the last drawing has not been drawn
            place.update(bundle, raw=True)
