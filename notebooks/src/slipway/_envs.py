"""Environments as a notebook holds them: tables to look at, and what their owner does with them."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ._client import Client
from ._errors import InvalidError
from ._site import Environment
from ._wire import JSON, amount, items, text

_HEAD = ("environment", "digest", "made", "python", "packages", "size", "own", "shared with")


class Drawn(str):
    """A cell that is drawn on a page, and a text elsewhere."""

    page: str

    def __new__(cls, text: str, page: str) -> Drawn:
        """Make a cell of its text and its HTML."""
        drawn = super().__new__(cls, text)
        drawn.page = page
        return drawn


class Table:
    """Rows under a head, as text and as HTML; remarks stand below."""

    def __init__(self, head: Sequence[str], rows: Sequence[Sequence[str]], remarks: Sequence[str] = ()) -> None:
        self.head, self.rows, self.remarks = tuple(head), [tuple(row) for row in rows], tuple(remarks)

    def __repr__(self) -> str:
        """Write it in columns."""
        rows = [row for row in (self.head, *self.rows) if any(row)] if self.rows else []
        widths = [max(len(row[column]) for row in rows) for column in range(len(self.head))] if rows else []
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join([*lines, *self.remarks])

    def _repr_html_(self) -> str:
        head = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in self.head)
        head = f"<thead><tr>{head}</tr></thead>" if any(self.head) else ""
        body = "".join("<tr>" + "".join(self._cells(row)) + "</tr>" for row in self.rows)
        table = f"<table>{head}<tbody>{body}</tbody></table>" if self.rows else ""
        return table + "".join(f"<p>{html.escape(remark)}</p>" for remark in self.remarks)

    def _cells(self, row: Sequence[str]) -> Iterator[str]:
        """Write a row; where no head names the columns, its first cell names the row."""
        for at, cell in enumerate(row):
            text = cell.page if isinstance(cell, Drawn) else html.escape(cell)
            yield f'<th scope="row">{text}</th>' if at == 0 and not any(self.head) else f"<td>{text}</td>"


@dataclass(frozen=True)
class Difference:
    """What ``new`` has other than ``old``: ``lines`` for people, ``full`` for programs."""

    old: Environment
    new: Environment
    lines: tuple[str, ...] = ()
    full: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, doc: JSON) -> Difference:
        """Read a difference."""
        old, new, full = (doc.get(key) for key in ("old", "new", "full"))
        return cls(
            Environment.from_json(old if isinstance(old, Mapping) else {}),
            Environment.from_json(new if isinstance(new, Mapping) else {}),
            tuple(str(line) for line in items(doc, "lines")),
            full if isinstance(full, Mapping) else {},
        )

    def __repr__(self) -> str:
        """Write the lines."""
        return "\n".join([f"{self.old.label} -> {self.new.label}", *(self.lines or ("no difference",))])

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(repr(self))}</pre>"


class Env:
    """An environment. ``record`` is what the service says of it; nothing of it but its names and shares can change."""

    def __init__(self, client: Client, record: Environment) -> None:
        self.client = client
        self.record = record

    @property
    def digest(self) -> str:
        """The digest that names its bytes."""
        return self.record.digest

    @property
    def ref(self) -> str:
        """What %%grid --env, the spawn form and other people on this site may call it."""
        return self.record.ref

    def refresh(self) -> Env:
        """Ask again: what is in it is known some seconds after the freeze."""
        self.record = self.client.environment(self.ref)
        return self

    def packages(self) -> Table:
        """List what is installed in it, by all package managers."""
        inventory = self.client.environment_details(self.digest).get("inventory")
        found = [item for item in items(_mapping(inventory), "packages") if isinstance(item, Mapping)]
        rows = [(text(p, "name"), text(p, "version"), text(p, "manager")) for p in found]
        return Table(("package", "version", "manager"), rows, () if rows else ("no packages are known of it (yet)",))

    def history(self) -> Envs:
        """List what its name has stood for, and what came from the same session."""
        return Envs(self.client, self.client.environment_history(self.ref))

    def diff(self, other: Env | str | None = None) -> Difference:
        """Tell what this one has other than ``other``; without one, other than the one before it."""
        if other is None:
            others = [env for env in self.history() if env.digest != self.digest]
            earlier = [env for env in others if env.record.created <= self.record.created]
            if not earlier:
                raise InvalidError(
                    f"there is none before {self.record.label}", field="other", remedy="name the one to compare with"
                )
            other = earlier[0]
        old = other.digest if isinstance(other, Env) else other
        return Difference.from_json(self.client.environment_diff(old, self.digest))

    def share(self, with_: str = "public", group: str = "") -> Env:
        """Let others use it: ``share("public")``, ``share("group", "higgs")``, or nobody by ``share("private")``."""
        self.record = self.client.share_environment(self.ref, with_, group)
        return self

    def tag(self, name: str, tag: str = "") -> Env:
        """Give it another name, such as ``tag("ana", "v2")`` or ``tag("ana:v2")``."""
        name, tag = split_name(name, tag)
        return Env(self.client, self.client.tag_environment(self.ref, name, tag))

    def remove(self) -> None:
        """Take this name of it away; the bytes go when nothing needs them any more."""
        self.client.remove_environment(self.ref)

    def _table(self) -> Table:
        record, shared = self.record, self.record.share
        pairs = [
            ("environment", record.label + (" (the name leads to a newer one now)" if record.moved else "")),
            ("note", record.note),
            ("digest", record.digest),
            ("base", record.base),
            ("made", moment(record.created) + " UTC" if record.created else ""),
            ("size", f"{amount(record.size)}, {amount(record.own)} of it its own"),
            ("held still", f"{record.paused * 1000:.0f} ms" if record.paused else ""),
            ("python", record.python),
            ("packages", str(record.packages) if record.known else "not looked at yet: .refresh() in some seconds"),
            ("cuda", record.cuda + (f", driver {record.driver} or newer" if record.driver else "")),
            ("imports", record.imports.words if record.imports else ""),
            ("shared with", shared.words if record.mine else f"you, by {record.owner}"),
        ]
        how = ("nothing has changed since it was frozen",) if record.unchanged else ()
        wrong = record.imports.lines if record.imports else ()
        return Table(("", ""), [pair for pair in pairs if pair[1]], (*how, *wrong))

    def __repr__(self) -> str:
        """Tell what is known of it, without asking the service."""
        return repr(self._table())

    def _repr_html_(self) -> str:
        return self._table()._repr_html_()


class Envs(Sequence[Env]):
    """Environments, the newest first, as a table."""

    def __init__(self, client: Client, records: Sequence[Environment]) -> None:
        self._envs = [Env(client, record) for record in records]

    def __getitem__(self, at: Any) -> Any:
        """Give one, or a list of some."""
        return self._envs[at]

    def __len__(self) -> int:
        """Count them."""
        return len(self._envs)

    def __iter__(self) -> Iterator[Env]:
        """Go through them."""
        return iter(self._envs)

    def _table(self) -> Table:
        rows = [
            (
                e.label + (" (older)" if e.moved else ""),
                e.short,
                moment(e.created),
                e.python,
                str(e.packages) if e.known else "",
                amount(e.size),
                amount(e.own),
                e.share.words,
            )
            for e in (env.record for env in self._envs)
        ]
        return Table(_HEAD, rows, () if rows else ("there are none: %freeze makes one of this session",))

    def __repr__(self) -> str:
        """Write them in columns."""
        return repr(self._table())

    def _repr_html_(self) -> str:
        return self._table()._repr_html_()


def split_name(name: str, tag: str) -> tuple[str, str]:
    """Read name and tag, also written as one word: ana:v1."""
    if ":" not in name:
        return name, tag
    word, _, behind = name.partition(":")
    if tag and tag != behind:
        raise InvalidError(f"{name} has another tag than {tag}", field="tag", remedy="give the tag once")
    return word, behind


def moment(time: str) -> str:
    """Write a time as people read it, to the minute."""
    return time[:16].replace("T", " ")


def _mapping(value: object) -> JSON:
    return value if isinstance(value, Mapping) else {}
