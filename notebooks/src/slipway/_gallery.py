"""What a job has displayed, as the notebook shows it."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._errors import NotFoundError
from ._shown import MANIFEST, MOST, MOST_BYTES
from ._wire import amount, items, text, whole

if TYPE_CHECKING:
    from ._job import JobHandle


@dataclass(frozen=True)
class Shown:
    """One thing that a payload has displayed: a figure, a table. As the last expression of a cell it is shown."""

    job: JobHandle
    text: str
    files: Mapping[str, str]

    def data(self) -> dict[str, Any]:
        """Fetch its forms: text by kind, pictures in base 64, as notebooks keep them."""
        found: dict[str, Any] = {"text/plain": self.text or "(no text)"}
        for kind, name in self.files.items():
            content = self.job.client.job_file(self.job.id, name)
            picture = kind in ("image/png", "image/jpeg")
            found[kind] = base64.b64encode(content).decode() if picture else content.decode("utf-8", "replace")
        return found

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return self.data()

    def __repr__(self) -> str:
        """Name it."""
        return f"<shown by {self.job.id}: {self.text or ', '.join(self.files)}>"


def shown_by(job: JobHandle) -> tuple[list[Shown], int]:
    """Give what a job has displayed in a richer form than text, and how much of that it has not kept."""
    try:
        doc = json.loads(job.client.job_file(job.id, MANIFEST))
    except (NotFoundError, ValueError):
        return [], 0
    if not isinstance(doc, Mapping):
        return [], 0
    listed = [item for item in items(doc, "shown") if isinstance(item, Mapping)][:MOST]
    things = [Shown(job, text(item, "text"), _files(item.get("files"))) for item in listed]
    return things, whole(doc, "left_out") or 0


def _files(given: object) -> dict[str, str]:
    return {str(kind): str(name) for kind, name in given.items()} if isinstance(given, Mapping) else {}


def display_shown(job: JobHandle) -> str:
    """Show in the notebook what a job has displayed, and say what is missing of it; empty: nothing is."""
    from IPython.display import publish_display_data

    things, left_out = shown_by(job)
    for thing in things:
        publish_display_data(thing.data())  # type: ignore[no-untyped-call]
    if not left_out:
        return ""
    return f"{left_out} more were displayed and not kept: at most {MOST} of a job, {amount(MOST_BYTES)} together"
