"""The files that a job has left."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ._wire import amount

if TYPE_CHECKING:
    from ._job import JobHandle


@dataclass(frozen=True)
class OutputFile:
    """A file that a job has left."""

    name: str
    size: int
    job: JobHandle

    def read(self) -> bytes:
        """Fetch the content."""
        return self.job.client.job_file(self.job.id, self.name)

    def save(self, to: str | Path = ".") -> Path:
        """Write the file into a directory, or to a path, and give where it is."""
        path = Path(to)
        path = path / self.name if path.is_dir() else path
        part = path.with_name(f".{path.name}.part")
        try:
            with part.open("wb") as file:
                self.job.client.save_job_file(self.job.id, self.name, file)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
        return path

    def __repr__(self) -> str:
        """Name and size."""
        return f"<{self.name} {amount(self.size)}>"
