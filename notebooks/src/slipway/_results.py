"""The results of a scan: a list of values that shows itself as a table."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping
from typing import Any

from ._board import short
from ._envs import Table

_SHOWN = 50
"""How many results a table shows."""


class Results(list[Any]):
    """The values of ``result`` in the order of the points; ``parameters`` are those of each."""

    def __init__(self, values: Iterable[Any], parameters: Iterable[Mapping[str, str]]) -> None:
        super().__init__(values)
        self.parameters = [dict(given) for given in parameters]

    def table(self) -> Any:
        """Give them with the points' parameters: a DataFrame of pandas where there is one, else a plain table.

        A result that is a dict has a column for each of its keys.
        """
        if importlib.util.find_spec("pandas") is None:
            return self._table()
        import pandas  # type: ignore[import-not-found, import-untyped, unused-ignore]

        from ._runner import literal

        rows = []
        for given, value in zip(self.parameters, self, strict=True):
            found = value if isinstance(value, Mapping) else {"result": value}
            rows.append({**{name: literal(text) for name, text in given.items()}, **found})
        return pandas.DataFrame(rows)

    def _table(self) -> Table:
        names = list(dict.fromkeys(name for given in self.parameters for name in given))
        shown = list(zip(self.parameters, self, strict=True))[:_SHOWN]
        rows = [
            (str(at), *(short(given.get(name, "")) for name in names), _written(value))
            for at, (given, value) in enumerate(shown)
        ]
        more = len(self) - len(rows)
        return Table(("point", *names, "result"), rows, [f"and {more:,} more"] if more else [])

    def _repr_html_(self) -> str:
        return self._table()._repr_html_()

    def __reduce__(self) -> Any:
        """Elsewhere it is a list."""
        return list, (list(self),)


def _written(value: Any) -> str:
    try:
        return short(repr(value))
    except Exception as error:  # noqa: BLE001 - a user's __repr__ may raise anything
        return f"({type(value).__name__}, whose text raises {type(error).__name__})"
