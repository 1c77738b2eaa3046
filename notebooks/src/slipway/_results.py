"""The results of a scan: a sequence of values that shows itself as a table."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, overload

from ._board import parameter_names, short, value_words
from ._envs import Table

_SHOWN = 50
"""How many results a table shows."""


class Results(Sequence[Any]):
    """The values of ``result`` in the order of the points; ``parameters`` are those of each.

    Neither changes, so that they stay together: ``list(results)`` is a list to change.
    """

    def __init__(self, values: Iterable[Any], parameters: Iterable[Mapping[str, str]]) -> None:
        self._values = tuple(values)
        self.parameters = tuple(dict(given) for given in parameters)

    def __len__(self) -> int:
        """Count them."""
        return len(self._values)

    @overload
    def __getitem__(self, at: int) -> Any: ...
    @overload
    def __getitem__(self, at: slice) -> Results: ...
    def __getitem__(self, at: int | slice) -> Any:
        """Give a value, or some of them with their parameters."""
        return Results(self._values[at], self.parameters[at]) if isinstance(at, slice) else self._values[at]

    def __eq__(self, other: object) -> bool:
        """Compare the values, also with those of a list."""
        return list(self) == list(other) if isinstance(other, Results | list) else NotImplemented

    __hash__ = None  # type: ignore[assignment] # as of a list

    def __repr__(self) -> str:
        """Write them as a list."""
        return repr(list(self))

    def table(self) -> Any:
        """Give them with the points' parameters: a DataFrame of pandas where there is one, else a plain table.

        A result that is a dict has a column for each of its keys; one that a parameter has too ends in ``_result``.
        """
        if importlib.util.find_spec("pandas") is None:
            return self._table()
        import pandas  # type: ignore[import-not-found, import-untyped, unused-ignore]

        return pandas.DataFrame(self._rows())

    def _rows(self) -> list[dict[Any, Any]]:
        from ._runner import literal

        rows = []
        for given, value in zip(self.parameters, self, strict=True):
            row: dict[Any, Any] = {name: literal(text) for name, text in given.items()}
            for name, part in (value if isinstance(value, Mapping) else {"result": value}).items():
                while name in row:
                    name = f"{name}_result"
                row[name] = part
            rows.append(row)
        return rows

    def _table(self) -> Table:
        names = parameter_names(self.parameters)
        shown = list(zip(self.parameters, self, strict=True))[:_SHOWN]
        rows = [
            (str(at), *(short(value_words(given.get(name, ""))) for name in names), _written(value))
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
