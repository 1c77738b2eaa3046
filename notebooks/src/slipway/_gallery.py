"""What a job has displayed, as the notebook shows it."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._errors import NotFoundError
from ._shown import KINDS, MANIFEST, MOST, MOST_BYTES, PREFIX
from ._wire import amount, items, text, whole

if TYPE_CHECKING:
    from ._job import JobHandle


@dataclass(frozen=True)
class Shown:
    """One thing that a payload has displayed: a figure, a table. As the last expression of a cell it is shown."""

    job: JobHandle
    text: str
    files: Mapping[str, str]
    size: int
    """How many bytes its files have."""

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


def shown_by(job: JobHandle, room: int = MOST_BYTES) -> tuple[list[Shown], int]:
    """Give what a job has displayed in a richer form than text, in ``room`` bytes, and how much of it is left out.

    The list is the job's word: what is fetched is as bounded as if anyone had written it.
    """
    sizes = {file.name: file.size for file in job.client.job_files(job.id)}
    things, doc = list[Shown](), _manifest(job) if 0 < sizes.get(MANIFEST, 0) <= MOST_BYTES else {}
    listed = [item for item in items(doc, "shown") if isinstance(item, Mapping)]
    for item in listed[:MOST]:
        files = _files(item.get("files"), sizes)
        thing = Shown(job, text(item, "text"), files, sum(sizes[name] for name in files.values()))
        if files and thing.size <= room:
            things.append(thing)
            room -= thing.size
    return things, len(listed) - len(things) + max(whole(doc, "left_out") or 0, 0)


def _manifest(job: JobHandle) -> Mapping[str, Any]:
    try:
        doc = json.loads(job.client.job_file(job.id, MANIFEST))
    except (NotFoundError, ValueError, RecursionError):
        return {}
    return doc if isinstance(doc, Mapping) else {}


def _files(given: object, sizes: Mapping[str, int]) -> dict[str, str]:
    """Give the forms that notebooks show, whose files the job has kept for that."""
    listed = given if isinstance(given, Mapping) else {}
    return {kind: name for kind in KINDS if (name := str(listed.get(kind))).startswith(PREFIX) and name in sizes}


def display_shown(job: JobHandle, room: int = MOST_BYTES) -> tuple[int, str]:
    """Show in the notebook what a job has displayed, in ``room`` bytes. Give how many it took, and what is missing."""
    from IPython.display import publish_display_data

    things, left_out = shown_by(job, room)
    for thing in things:
        publish_display_data(thing.data())  # type: ignore[no-untyped-call]
    missing = f"{left_out} more were displayed than are shown: at most {MOST} of a job, {amount(MOST_BYTES)} together"
    return sum(thing.size for thing in things), missing if left_out else ""
