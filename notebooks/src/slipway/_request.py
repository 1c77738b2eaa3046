"""What jobs are submitted with, and submitted anew with, as the service reads it."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Required, TypedDict, Unpack

from ._content import Content, pieces

FILE_LIMIT = 1 << 30
"""How many bytes one file has at most that goes to a job or comes back from it."""


class JobRequest(TypedDict, total=False):
    """What a job is submitted with, as ``Client.submit`` takes it.

    ``blobs`` are more input files, by the digests of what was put into the caller's store. One that fails is tried
    again up to ``retries`` times. It waits until the jobs and scans of ``after`` are done. ``priority`` counts among
    the caller's own jobs. Where ``out`` is given, these files have to be there at the end, and no others come back. A
    ``preemptible`` job may borrow the slice of an idle session; it starts anew when that session's owner returns.
    """

    environment: Required[str]
    argv: Required[Sequence[str]]
    name: str
    env: Mapping[str, str] | None
    files: Mapping[str, Content] | None
    blobs: Mapping[str, str] | None
    cpus: float | None
    memory: str | int | None
    time_limit: str | None
    gpu: str | None
    preemptible: bool
    backend: str | None
    retries: int
    after: Sequence[str]
    priority: int
    out: Sequence[str]
    request_id: str | None


class Changes(TypedDict, total=False):
    """What a job that is submitted anew has other than the one that it comes from."""

    name: str | None
    environment: str | None
    cpus: float | None
    memory: str | int | None
    time_limit: str | None
    gpu: str | None
    backend: str | None
    retries: int | None
    after: Sequence[str] | None
    priority: int | None


def given(**values: Any) -> dict[str, Any]:
    """Leave out what is not given."""
    return {key: value for key, value in values.items() if value not in (None, "")}


def job_request(**job: Unpack[JobRequest]) -> dict[str, Any]:
    """Write a request; its files are small: ``Client.submit`` has put the others into the caller's store."""
    files = job.get("files") or {}
    keys = ("cpus", "memory", "time_limit", "gpu", "backend")
    some = {
        "preemptible": job.get("preemptible"),
        "blobs": dict(job.get("blobs") or {}),
        "retries": job.get("retries"),
        "after": list(job.get("after") or ()),
        "priority": job.get("priority"),
        "out": list(job.get("out") or ()),
    }
    return {
        "name": job.get("name", ""),
        "environment": job["environment"],
        "argv": list(job["argv"]),
        "env": dict(job.get("env") or {}),
        "files": {key: base64.b64encode(b"".join(pieces(data))).decode() for key, data in files.items()},
        "request_id": job.get("request_id") or str(uuid.uuid4()),
        **given(**{key: job.get(key) for key in keys}),
        **{key: value for key, value in some.items() if value},
    }


def change_request(**changes: Unpack[Changes]) -> dict[str, Any]:
    """Write what is to be other; it is repeated with the same id, so that nothing is submitted twice."""
    return {"request_id": str(uuid.uuid4()), **{key: value for key, value in changes.items() if value is not None}}


def retry_request(
    states: Sequence[str], cpus: float | None, memory: str | int | None, time_limit: str | None
) -> dict[str, Any]:
    """Write what is to be tried again; it is repeated with the same id, so that nothing is tried twice."""
    return {
        "states": list(states),
        "request_id": str(uuid.uuid4()),
        **given(cpus=cpus, memory=memory, time_limit=time_limit),
    }
