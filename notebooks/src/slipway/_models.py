"""What the service says, as plain values. Written by deploy/dev/python_models.py from the API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slipway._model_bases import (
    DataURLBase,
    DifferenceBase,
    EnvironmentBase,
    ExplanationBase,
    GPUsBase,
    ImportsBase,
    JobBase,
    JobPlanBase,
    JobProgressBase,
    KernelSpecBase,
    Model,
    OutcomeBase,
    ScanBase,
    ScanChangeBase,
    SessionBase,
    ShareBase,
    SliceBase,
)


@dataclass(frozen=True, repr=False)
class Alert(Model):
    """Says that a running session has come to one of its limits."""

    cause: str = ""
    """memory: programs of it were killed; disk: its changes take nearly what they may"""
    message: str = ""
    """with the figure"""
    remedy: str = ""
    """what to choose"""
    at: str = ""


@dataclass(frozen=True, repr=False)
class Clause(Model):
    """One requirement of a job, and how many slots it excludes."""

    words: str = ""
    text: str = ""
    """as the batch system has it"""
    excludes: int = 0
    """slots that fail it, whatever the others say"""
    alone: int = 0
    """slots that fail nothing else"""


@dataclass(frozen=True, repr=False)
class Mount(Model):
    """A directory in a session that shows a storage element."""

    path: str = ""
    cached: bool = False
    """it reads through the cache, and cannot be written to"""
    trouble: str = ""
    """why nothing is there now; empty: it is there"""


@dataclass(frozen=True, repr=False)
class DataURL(DataURLBase):
    """Where a file is for one use, now."""

    url: str = ""
    element: str = ""
    path: str = ""
    """on the server"""
    origin: str = ""
    """the URL at the origin, for when the cache goes away meanwhile"""
    cached: bool = False
    """url is the cache's"""
    why: str = ""
    """it is not, though there is a cache; empty: it was asked for so"""


@dataclass(frozen=True, repr=False)
class Event(Model):
    """One step of a workload."""

    seq: int = 0
    time: str = ""
    percent: int = -1
    """-1: unknown"""
    message: str = ""
    final: bool = False
    failed: bool = False


@dataclass(frozen=True, repr=False)
class Explanation(ExplanationBase):
    """Says why a job has not started yet."""

    job: str = ""
    summary: str = ""
    slots: int = 0
    """of all machines that the batch system knows; 0: there is no batch system"""
    fit: int = 0
    """that fulfil every requirement, busy or not"""
    free: int = 0
    """that could take it now"""
    clauses: Sequence[Clause] = ()
    """its requirements"""
    remedy: str = ""
    """what its owner can change; empty: nothing but wait"""


@dataclass(frozen=True, repr=False)
class JobFile(Model):
    """A file that a job has left."""

    name: str = ""
    size: int = 0


@dataclass(frozen=True, repr=False)
class GPUOffer(Model):
    """What can be asked for."""

    name: str = ""
    """as a profile or a job asks for it: "1g.18gb", "mps:25%/20G", "shared", "whole\""""
    free: int = 0
    """how many can be had now, if nothing else is taken"""
    most: int = 0
    isolation: str = ""
    """hardware, cgroup, process or none"""


@dataclass(frozen=True, repr=False)
class GPUUse(Model):
    """How much of a slice is used. What cannot be measured is null, never 0."""

    source: str = ""
    """gpm, utilisation, process, process-list; empty: nothing is"""
    sm: float | None = None
    """percent of its processors, of the last minute"""
    memory: int | None = None
    """bytes"""
    peak: int | None = None
    """bytes, most since it was leased"""
    energy_estimate: float | None = None
    """J since it was leased"""
    idle: str = ""
    """since when; null: it is not, or nobody can say"""
    hint: str = ""
    """such as "held 71G, used at most 9G: 1g.18gb would do\""""
    unmeasured: str = ""
    """why there is no number"""


@dataclass(frozen=True, repr=False)
class Image(Model):
    """An image that a profile offers."""

    name: str = ""
    title: str = ""
    ref: str = ""
    """as sessions of it have it"""
    active: int = 0
    """sessions of it that there are now, of the caller's hub"""


@dataclass(frozen=True, repr=False)
class Imports(ImportsBase):
    """Says whether an image alone, in a batch job, can import what kernels had imported when it was frozen."""

    state: str = ""
    tried: str = ""
    modules: int = 0
    """that were tried"""
    broken: int = 0
    """of these, that cannot be imported for a reason that lies in the image"""
    lines: Sequence[str] = ()
    """what is wrong, for people: "cannot import torch: libcudart.so.12: cannot open ...\""""


@dataclass(frozen=True, repr=False)
class JobPlan(JobPlanBase):
    """What a job, or each point of a scan, would meet if it were submitted now."""

    backend: str = ""
    """where it would go"""
    free: int = -1
    """how many would start at once; -1: not limited, or not known"""
    most: int = -1
    """how many run at once when nothing else does; -1: not limited, or not known"""
    waiting: int = 0
    """how many stand in line before it"""
    lacks: str = ""
    """why none would start now, in words; empty: one would"""
    estimate: int = -1
    """seconds until its turn; -1: nobody knows"""
    typical: float = -1
    """seconds that the caller's jobs of this name have run of late, in the middle; -1: there are none"""
    points: int = 0
    """the most that a scan may have"""
    stored: int = 0
    """bytes that the caller's jobs keep"""
    store: int = 0
    """bytes that they may; 0: not limited"""
    gpu_hours: float = 0
    gpu_most: float = 0
    """of those, what the caller may have; 0: not limited"""


@dataclass(frozen=True, repr=False)
class JobProgress(JobProgressBase):
    """What a payload says of how far it is."""

    done: float = 0
    of: float = 0
    """0: it is not known of how much"""
    text: str = ""
    """may be empty"""


@dataclass(frozen=True, repr=False)
class KeptFiles(Model):
    """What one job, or a scan, keeps."""

    id: str = ""
    name: str = ""
    bytes: int = 0
    files: int = 0
    expires: str = ""
    """when it is removed; null: it goes on, or never"""


@dataclass(frozen=True, repr=False)
class KernelRoom(Model):
    """Says how soon a kernel would start."""

    state: str = ""
    """one of the constants below"""
    words: str = ""
    """for people"""
    wait: int = -1
    """seconds until a new one's turn; -1: nobody knows"""


@dataclass(frozen=True, repr=False)
class KernelStandbys(Model):
    """Are those of an entry of the site's, which may stand for several kernelspecs."""

    most: int = 0
    """that there may be"""
    ready: int = 0
    """that can be taken"""
    lacking: int = 0
    """users' next kernels for which none stands by though one may"""
    why: str = ""
    """why not, of one of those"""


@dataclass(frozen=True, repr=False)
class Left(Model):
    """Counts the files of a job but those of OfRunner."""

    files: int = 0
    bytes: int = 0


@dataclass(frozen=True, repr=False)
class Me(Model):
    """Says who the service takes the caller for."""

    user: str = ""
    hub: str = ""
    admin: bool = False
    session: str = ""
    """the workload that the caller runs in; empty outside"""


@dataclass(frozen=True, repr=False)
class PointEvent(Model):
    """What a scan's stream says of one point: how it stands now, not what has changed."""

    point: int = 0
    job: str = ""
    state: str = ""
    attempt: int = 1
    progress: JobProgress | None = None
    host: str = ""
    """empty: the service's own, or none yet"""
    slice: str = ""
    """what it holds of a GPU, in words; empty: nothing"""
    reason: str = ""
    """why it waits, or failed"""
    up: str = ""
    """when it began to run"""
    ended: str = ""
    wall: float = 0
    """seconds that it ran, once it has ended: its end may be seen long after it was"""


@dataclass(frozen=True, repr=False)
class Profile(Model):
    """One kind of session that the site offers."""

    name: str = ""
    title: str = ""
    description: str = ""
    kind: str = ""
    images: Sequence[Image] = ()
    """the first is the default"""
    cpus: float = 0
    memory: str = ""
    """"2G" is 2 GiB"""
    gpu: str = ""
    """the slice of one; "none": none"""
    max_cpus: float = 0
    max_memory: str = ""
    isolation: str = ""
    """the weakest that its slice has; empty without one"""
    default: bool = False
    backend: str = ""
    """where its sessions run; empty: where the site's usually do"""
    free: int = -1
    """how many would start at once; -1: not limited, or not known"""
    most: int = -1
    """how many run at once when nothing else does; -1: not limited, or not known"""
    waiting: int = 0
    """how many stand in line before it"""
    lacks: str = ""
    """why none would start now, in words; empty: one would"""
    estimate: int = -1
    """seconds until its turn; -1: nobody knows"""


@dataclass(frozen=True, repr=False)
class FreezeStep(Model):
    """One step of a freeze."""

    stage: str = ""
    percent: float = -1
    """of the stage; -1: unknown"""
    files: int = 0
    bytes: int = 0
    message: str = ""


@dataclass(frozen=True, repr=False)
class Queue(Model):
    """Where a workload stands in line for room."""

    place: int = 0
    """from 1"""
    lacks: str = ""
    """what is missing for the first in line"""
    estimate: int = -1
    """seconds until its turn; -1: nobody knows"""


@dataclass(frozen=True, repr=False)
class Scan(ScanBase):
    """A number of jobs that were submitted together: its points."""

    id: str = ""
    user: str = ""
    name: str = ""
    backend: str = ""
    created: str = ""
    environment: str = ""
    points: int = 0
    """that there are still"""
    states: Mapping[str, int] = field(default_factory=dict)
    """how many of them are in each; those with none are left out"""
    held: int = 0
    """of the pending ones, how many wait to be released"""
    waiting: str = ""
    """why the first that waits does, in words"""
    failure: str = ""
    """the reason of the first that has failed"""


@dataclass(frozen=True, repr=False)
class ScanChange(ScanChangeBase):
    """Says what came of a change to all points of a scan."""

    scan: Scan = field(default_factory=lambda: Scan())
    changed: int = 0
    """points to which it was done"""
    refused: int = 0
    """points to which it could not be done"""
    why: str = ""
    """of the first of these"""


@dataclass(frozen=True, repr=False)
class Share(ShareBase):
    """Says who may use an environment beside its owner."""

    with_: str = "private"
    """private, group or public"""
    group: str = ""


@dataclass(frozen=True, repr=False)
class Slice(SliceBase):
    """The part of a GPU that a session or job holds."""

    name: str = ""
    model: str = ""
    uuid: str = ""
    """of the GPU"""
    memory: int = 0
    isolation: str = ""
    simulated: bool = False
    borrowed: bool = False
    """from an idle session: the job goes back in line when its owner returns"""
    use: GPUUse = field(default_factory=lambda: GPUUse())


@dataclass(frozen=True, repr=False)
class SliceUse(Model):
    """What a job has made of its slice of a GPU."""

    busy: float = 0
    """of the slice, 0 to 1, in the mean"""
    memory: int = 0
    """the most at once, in bytes"""
    energy: float = 0
    """joules; 0: not measured"""


@dataclass(frozen=True, repr=False)
class Stops(Model):
    """Says when and why the service will stop a session."""

    at: str = ""
    why: str = ""
    can_keep: bool = False
    max_keep: str = ""
    """such as "24h0m0s\""""
    warning: str = ""
    """how long before then its user is to be told, such as "10m0s\""""


@dataclass(frozen=True, repr=False)
class Storage(Model):
    """One storage element, as the caller reaches it."""

    name: str = ""
    origin: str = ""
    """root://host:port"""
    path: str = ""
    """the directory there below which everything lies"""
    write: bool = False
    """whether anybody may write there"""
    cache: str = ""
    """empty: there is none"""
    cache_up: bool = False
    trouble: str = ""
    """with the cache; empty: none"""
    mounts: Sequence[Mount] = ()
    """in the session that asks; elsewhere empty"""


@dataclass(frozen=True, repr=False)
class Environment(EnvironmentBase):
    """An immutable software environment, under one of its names."""

    digest: str = ""
    owner: str = ""
    """the user; a reference to another's is owner/name:tag"""
    mine: bool = True
    name: str = ""
    tag: str = ""
    moved: bool = False
    """the name and tag lead to another one now, and the digest alone to this"""
    note: str = ""
    created: str = ""
    """when its owner first had it"""
    used: str = ""
    """for a job or session, the last time"""
    size: int = 0
    """bytes of the image"""
    own: int = 0
    """bytes of that which are not its base's"""
    base: str = ""
    session: str = ""
    unchanged: bool = False
    paused: float = 0
    """seconds for which the freeze that made it held the session still"""
    share: Share = field(default_factory=lambda: Share())
    known: bool = False
    """what follows was found out; it takes some seconds after a freeze"""
    packages: int = 0
    python: str = ""
    cuda: str = ""
    driver: str = ""
    """the least that its CUDA needs"""
    imports: Imports | None = None
    """nil: no session has said what it had imported"""
    warnings: Sequence[str] = ()
    """of a freeze: of quotas that are nearly used up"""
    secrets: Sequence[str] = ()
    """of a freeze: files that it let through by her word, though they look like secrets"""


@dataclass(frozen=True, repr=False)
class Difference(DifferenceBase):
    """Says what one environment has other than another."""

    old: Environment = field(default_factory=lambda: Environment())
    new: Environment = field(default_factory=lambda: Environment())
    lines: Sequence[str] = ()
    """for people: "+ torch 2.9.0\""""
    full: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, repr=False)
class GPUSlice(Model):
    """A part of a GPU: held, cut out and free, somebody else's, or not to be used."""

    name: str = ""
    place: str = ""
    """the memory slots, such as "0-3"; empty: the GPU is not cut"""
    memory: int = 0
    state: str = ""
    """held, lent, ready, foreign or quarantined"""
    user: str = ""
    """empty: nobody, or not the caller's to know"""
    workload: str = ""
    """likewise"""
    borrower: str = ""
    """the job that has it meanwhile; likewise"""
    since: str = ""
    """of the lease"""
    until: str = ""
    """of a quarantine"""
    why: str = ""
    use: GPUUse = field(default_factory=lambda: GPUUse())


@dataclass(frozen=True, repr=False)
class JobsUsage(Model):
    """What the caller's jobs keep, and what she has used."""

    stored: int = 0
    """bytes"""
    store: int = 0
    """bytes that may be; 0: not limited"""
    kept: Sequence[KeptFiles] = ()
    """the largest first; a scan is one"""
    inputs: int = 0
    """bytes of stored, that no job needs any more, and that go by themselves"""
    gpu_hours: float = 0
    gpu_most: float = 0
    """0: not limited"""
    window: str = ""
    """over which GPUHours counts, such as "168h0m0s\""""


@dataclass(frozen=True, repr=False)
class KernelSpec(KernelSpecBase):
    """A kind of Jupyter kernel that the caller may start, as it would start now."""

    name: str = ""
    display_name: str = ""
    language: str = ""
    profile: str = ""
    backend: str = ""
    """empty: where the site's sessions usually run"""
    environment: str = ""
    """what it is called; empty: it runs in none"""
    digest: str = ""
    """the environment's"""
    stack: str = ""
    """the software stack that it runs; empty: none"""
    cpus: float = 0
    memory: str = ""
    """"2G" is 2 GiB"""
    gpu: str = ""
    """the slice of one; "none": none"""
    idle_limit: str = ""
    """such as "1h0m0s"; "0s": it is never shut down for being idle"""
    gpus: Sequence[str] = ()
    """To what its user may switch her next kernels."""
    max_cpus: float = 0
    max_memory: str = ""
    switched: Mapping[str, str] = field(default_factory=dict)
    """what she has switched"""
    available: KernelRoom = field(default_factory=lambda: KernelRoom())
    standbys: KernelStandbys | None = None
    """What stands by to be next kernels, for administrators; null: none may, or the caller is not told."""


@dataclass(frozen=True, repr=False)
class Outcome(OutcomeBase):
    """How the last start of a workload ended."""

    exit_code: int | None = None
    reason: str = ""
    remedy: str = ""
    tail: str = ""
    """the last lines of its output; lists of jobs do without"""
    failed: bool = False
    canceled: bool = False
    expired: bool = False
    """a session whose time was up: it was idle, too old or never opened"""
    at: str = ""
    max_rss: int = 0
    """the most memory it had at once, in bytes"""
    cpu: float = 0
    """seconds"""
    wall: float = 0
    """seconds that it ran"""
    signal: int = 0
    """that ended it; 0: none did"""
    cause: str = ""
    """of a failure, for programs"""
    gpu: SliceUse | None = None
    """null: it had none, or nothing was measured"""


@dataclass(frozen=True, repr=False)
class Session(SessionBase):
    """One interactive workload."""

    id: str = ""
    user: str = ""
    name: str = ""
    backend: str = ""
    created: str = ""
    kind: str = ""
    phase: str = ""
    want: str = ""
    launch: str = ""
    cpus: float = 0
    memory: str = ""
    """"2G" is 2 GiB"""
    gpu: str = ""
    """the slice of one; "none": none"""
    since: str = ""
    """when the phase began"""
    up: str = ""
    """when it last began to run"""
    outcome: Outcome | None = None
    waiting: str = ""
    """why it waits, here or in a batch system's queue, in words"""
    queue: Queue | None = None
    """where it stands in line; null: it does not wait"""
    slice: Slice | None = None
    """what it holds of one; null: nothing"""
    host: str = ""
    """where a batch system runs it, or ran it last; empty: nowhere, or on the service's own host"""
    evictions: int = 0
    """Evictions is how often a batch system took its place away since its start was asked for: each time it began anew."""
    standby: bool = False
    """Standby is whether it is a kernel that its user has not asked for yet, and is to become her next: it starts, or stands ready."""
    profile: str = ""
    image: str = ""
    environment: str = ""
    """the digest of what it started from, over Image; empty: from the image alone"""
    prefix: str = ""
    """the URL path that is its own, decoded"""
    url: str = ""
    """of a start, where the Hub knows under which address its users find it"""
    page: str = ""
    """the path, on the Hub's host, of the page that shows it; null: there are no pages"""
    ssh: str = ""
    """what to type to reach it by ssh; empty: there is none, or none that could be typed"""
    active: str = ""
    """when something last went on in it"""
    visited: str = ""
    """when somebody first opened it"""
    keep_until: str = ""
    """before then it is not stopped for want of activity"""
    stops: Stops | None = None
    """null: it is not stopped unless somebody asks"""
    alerts: Sequence[Alert] = ()
    """Alerts are what its owner is to know of its limits, one for each cause, the newest last."""


@dataclass(frozen=True, repr=False)
class GPU(Model):
    """A physical GPU."""

    index: int = 0
    uuid: str = ""
    model: str = ""
    mode: str = ""
    """whole, mig, mps or shared"""
    isolation: str = ""
    """of its slices"""
    condition: str = ""
    """ready, occupied, drained, lost or unset"""
    why: str = ""
    memory: int = 0
    """bytes"""
    memory_used: int | None = None
    """bytes; null: not known"""
    utilisation: float | None = None
    """percent of the time in which any kernel ran; null: it cannot be measured"""
    power: float | None = None
    """W"""
    temperature: int | None = None
    """degrees Celsius"""
    offers: Sequence[GPUOffer] = ()
    slices: Sequence[GPUSlice] = ()


@dataclass(frozen=True, repr=False)
class GPUs(GPUsBase):
    """What there is of GPUs and who has it. What the caller may not know of others is left out: their names, sessions and jobs."""

    driver: str = ""
    """its version; empty: none was asked"""
    cuda: str = ""
    """the newest that it serves, such as "13.0\""""
    simulated: bool = False
    """no such hardware exists"""
    problem: str = ""
    """why the driver could not be asked; the rest is then of an earlier time"""
    taken: str = ""
    offers: Sequence[GPUOffer] = ()
    """of all GPUs together"""
    gpus: Sequence[GPU] = ()


@dataclass(frozen=True, repr=False)
class Job(JobBase):
    """One batch workload."""

    id: str = ""
    user: str = ""
    name: str = ""
    backend: str = ""
    created: str = ""
    kind: str = ""
    phase: str = ""
    want: str = ""
    launch: str = ""
    cpus: float = 0
    memory: str = ""
    """"2G" is 2 GiB"""
    gpu: str = ""
    """the slice of one; "none": none"""
    since: str = ""
    """when the phase began"""
    up: str = ""
    """when it last began to run"""
    outcome: Outcome | None = None
    waiting: str = ""
    """why it waits, here or in a batch system's queue, in words"""
    queue: Queue | None = None
    """where it stands in line; null: it does not wait"""
    slice: Slice | None = None
    """what it holds of one; null: nothing"""
    host: str = ""
    """where a batch system runs it, or ran it last; empty: nowhere, or on the service's own host"""
    evictions: int = 0
    """Evictions is how often a batch system took its place away since its start was asked for: each time it began anew."""
    standby: bool = False
    """Standby is whether it is a kernel that its user has not asked for yet, and is to become her next: it starts, or stands ready."""
    environment: str = ""
    """a digest; in a request also a unique prefix of it, name or name:tag"""
    argv: Sequence[str] = ()
    """only its owner is told, where she asks for one job: it may hold secrets"""
    retries: int = 0
    """how often it is tried again by itself when it fails"""
    priority: int = 0
    """among its owner's jobs: higher goes first"""
    after: Sequence[str] = ()
    """the jobs and scans of its owner's that it waits for until they are done"""
    out: Sequence[str] = ()
    """names or patterns of the output files that it has to leave, of which no other comes back; empty: whatever it leaves"""
    scan: str = ""
    """of which it is a point; empty: of none"""
    point: int = 0
    """its number in the scan, from 0"""
    parameters: Mapping[str, str] | None = None
    """Parameters are what sets the point apart from others of its scan; null: it is of none."""
    session: str = ""
    time_limit: str = ""
    """such as "1h0m0s\""""
    state: str = ""
    requeued: int = 0
    """how often it went back in line: its slice was called back, or turned out bad; or a batch system evicted it"""
    held: bool = False
    """its owner has it wait until she releases it"""
    progress: JobProgress | None = None
    """what its payload says of how far it is; null: nothing"""
    attempt: int = 1
    """which try this is, from 1"""
    attempts: Sequence[Outcome] = ()
    """Attempts are how the tries before this one ended, where one job is asked for; lists do without."""
    origin: str = ""
    """the job from which it was submitted anew; empty: none"""
    expires: str = ""
    """when its record and its files will be removed; null: it has not ended, or never"""
    left: Left | None = None
    """Left is what a job that has ended has left, where a list is asked for with files=yes."""
