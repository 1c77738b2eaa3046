"""Slipway in Python: ``%load_ext slipway`` gives %%grid; ``slipway.job(id)`` gives a job back in any later session.

``slipway.scan(id)`` does the same for a scan, and ``from slipway import grid`` gives @grid.function.

The Hub's side is ``slipway.spawner.SlipwaySpawner``; it is imported only where JupyterHub is.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from . import grid
from ._client import Client
from ._environments import Env, Envs
from ._errors import (
    BusyError,
    ConflictError,
    ForbiddenError,
    InternalError,
    InvalidError,
    MissingError,
    NoCapacityError,
    NoSpaceError,
    NotFoundError,
    OverQuotaError,
    SlipwayError,
    TooLargeError,
    UnauthorizedError,
    UnavailableError,
)
from ._jobs import GridError, JobHandle, OutputFile, ResultError
from ._models import (
    GPU,
    Clause,
    Difference,
    Environment,
    Event,
    Explanation,
    FreezeStep,
    GPUOffer,
    GPUs,
    GPUSlice,
    GPUUse,
    Job,
    JobFile,
    JobPlan,
    JobProgress,
    JobsUsage,
    KeptFiles,
    KernelRoom,
    KernelSpec,
    Me,
    Outcome,
    PointEvent,
    Profile,
    Queue,
    Scan,
    ScanChange,
    Session,
    Share,
    Slice,
    SliceUse,
    Stops,
)
from ._payload.progress import progress
from ._scans import Points, ScanHandle, job, jobs, scan, scans
from ._transport import Target

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__version__ = "0.1.0"
__all__ = [
    "GPU",
    "BusyError",
    "Clause",
    "Client",
    "ConflictError",
    "Difference",
    "Env",
    "Environment",
    "Envs",
    "Event",
    "Explanation",
    "ForbiddenError",
    "FreezeStep",
    "GPUOffer",
    "GPUSlice",
    "GPUUse",
    "GPUs",
    "GridError",
    "InternalError",
    "InvalidError",
    "Job",
    "JobFile",
    "JobHandle",
    "JobPlan",
    "JobProgress",
    "JobsUsage",
    "KeptFiles",
    "KernelRoom",
    "KernelSpec",
    "Me",
    "MissingError",
    "NoCapacityError",
    "NoSpaceError",
    "NotFoundError",
    "Outcome",
    "OutputFile",
    "OverQuotaError",
    "PointEvent",
    "Points",
    "Profile",
    "Queue",
    "ResultError",
    "Scan",
    "ScanChange",
    "ScanHandle",
    "Session",
    "Share",
    "Slice",
    "SliceUse",
    "SlipwayError",
    "Stops",
    "Target",
    "TooLargeError",
    "UnauthorizedError",
    "UnavailableError",
    "env",
    "environments",
    "envs",
    "gpus",
    "grid",
    "job",
    "jobs",
    "keep",
    "load_ipython_extension",
    "progress",
    "scan",
    "scans",
    "session",
]


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def environments(**client: Any) -> list[Environment]:
    """List your environments."""
    with Client(**client) as connection:
        return connection.environments()


def envs(*, shared: bool = False, **client: Any) -> Envs:
    """List your environments as a table, with ``shared`` also those that others share with you."""
    connection = Client(**client)
    return Envs(connection, connection.environments(shared=shared))


def env(ref: str, **client: Any) -> Env:
    """Give one environment by digest, name, name:tag or owner/name:tag: what is in it, its history, who may use it."""
    connection = Client(**client)
    return Env(connection, connection.environment(ref))


def gpus(**client: Any) -> GPUs:
    """List the site's GPUs: what can be asked for, and what of it is free."""
    with Client(**client) as connection:
        return connection.gpus()


def session(**client: Any) -> Session:
    """Give the session that this runs in: what it has, and when and why it will be stopped."""
    with Client(**client) as connection:
        return connection.session()


def keep(time: str = "4h", **client: Any) -> Session:
    """Keep this session from being stopped as idle or too old, for a time from now on."""
    with Client(**client) as connection:
        return connection.keep(time)


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Register the magics; IPython calls this on ``%load_ext slipway``."""
    from .magic import FreezeMagics, GridMagics, KernelMagics

    told: set[str] = set()
    shell.user_ns.setdefault("slipway", sys.modules[__name__])  # what is advised says slipway.job(...)
    shell.register_magics(GridMagics(shell, told=told), FreezeMagics(shell, told=told), KernelMagics(shell))
