package spawner

import (
	"context"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/gpu"
)

// Backend is where workloads run. It finds what it made by the workload's ID alone, so nothing needs to be remembered
// for it. Every method may be called again at any time, after a crash at any point: it goes on from what it finds.
// Methods for different workloads run at once; the Manager never calls two for one workload at once.
type Backend interface {
	// Name is the backend's name in records and configuration.
	Name() string
	// Check says what the backend lacks on this host, with the remedy; nil when it can start workloads.
	Check(ctx context.Context) error
	// Start brings the workload up, with its agent as first process. What an earlier start left is adopted: a running
	// one is success, a stopped session is started again with its changes and with the limits of l. After an error
	// nothing of this start runs.
	Start(ctx context.Context, l Launch) error
	// Observe looks. An error means Unknown.
	Observe(ctx context.Context, id ID) (Observation, error)
	// Stop ends the workload's processes: asks, waits grace, kills. It returns when they are gone. A session's changes
	// stay. Stopping what is stopped or gone is success.
	Stop(ctx context.Context, id ID, grace time.Duration) error
	// Remove removes all that is left of a stopped workload. Removing what is gone is success.
	Remove(ctx context.Context, id ID) error
	// List returns every workload of which the backend holds anything, running or not, and what can be seen of it
	// without a closer look. It is one question to the engine, however many there are.
	List(ctx context.Context) (map[ID]Existence, error)
}

// Grouper is a Backend that knows the control group of what it runs.
type Grouper interface {
	// Cgroup returns the path, below the hierarchy's mount point, of the group that holds all processes of a running
	// workload.
	Cgroup(ctx context.Context, id ID) (string, error)
}

// Existence is what a backend sees of a workload.
type Existence string

// What can be seen.
const (
	Unknown Existence = "unknown" // the backend could not be asked: not an answer, and never taken for one
	Absent  Existence = "absent"  // nothing of it is left
	Created Existence = "created" // something is there that never ran
	Queued  Existence = "queued"  // a batch system has it in its queue; nothing of it runs or ever ran
	// a batch system has it in its queue, and does not start it until it is released; Reason says why
	Held   Existence = "held"
	Up     Existence = "up"     // runs
	Exited Existence = "exited" // ran and ended; a session's changes are there
)

// Alive reports whether what is seen runs, or may come to run without being asked again.
func (e Existence) Alive() bool { return e == Up || e == Queued || e == Held }

// Observation is one look at a workload.
type Observation struct {
	Existence Existence
	ExitCode  int // of Exited
	// why it ended, where the backend knows: "out of memory (limit 2.0 GB)", "time limit of 1h0m0s reached"
	Reason string
	Remedy string // what the user can do about it
	Tail   string // the last lines of what its first process printed; of Exited
	// What all its processes have used together, the container's own among them; zero where the backend does not know.
	Memory int64   // the most bytes at once, with what the kernel keeps of files for them
	CPU    float64 // seconds
	Host   string  // where it runs, or ran; empty: on this host, or it is not known
	Detail string  // of Queued: what it waits for, in words; empty: nothing is known
	// Deadline says of Up when the batch system's time for it ends, less what its end needs; zero: it is not known.
	Deadline time.Time `json:",omitzero"`
	// Returning says of Up that it has ended, and what it leaves is on its way back.
	Returning bool
	// Shaken says of Up that the batch system has lost touch with it for a while: what it leaves may not come back by
	// its way.
	Shaken bool
	// Evicted says of Exited that a batch system took its place away: it may run again, elsewhere, and begins anew
	// there.
	Evicted bool
	// HeldBy names of Held who alone lifts it in the batch system; empty: its owner may.
	HeldBy string
}

// Launch is all that a backend needs to start a workload.
type Launch struct {
	Workload
	Account Account
	// Dir is the workload's own directory on this host, made by the Manager, root's. In it: link/ (bound read-only on
	// control.LinkDir; the service listens there), run/ (the user's; what a backend without tmpfs binds on
	// control.RunDir).
	Dir      string
	InputDir string // on this host, holds what Spec.Inputs names
	AgentDir string // on this host, holds the agent's static program `slipway`; bound read-only on control.BinDir
	// SIF is the image file of the environment, for jobs and for all workloads of a Remote. For those, Spec.Environment
	// is the digest of what is in it, also where a session was asked for by its image alone, or goes on from what it
	// had kept.
	SIF string
	// Areas are what it sees of this host beside its home. HomeFollows: what is mounted in the home later is to be seen
	// inside.
	Areas       []Area
	HomeFollows bool
	// Storage is the directory on this host that a workload sees as /storage, with what is mounted below it later;
	// empty: it has none.
	Storage string
	// Uplink and App are for a Remote alone: how the agent reaches the service from another host, and what a job's
	// agent starts by itself, whether it reaches the service or not. App is nil for sessions, whose secrets travel over
	// the link.
	Uplink *control.Uplink
	App    *control.App
	// Thaw returns what a session is to start from, when its container is made anew: one that is kept has it already.
	// It is nil for one that starts from its image alone.
	Thaw func(ctx context.Context) (Thaw, error)
	// GPU is what makes its slice of a GPU usable inside; nil: it must see none, whatever its image asks for.
	GPU *gpu.Binding
	// Report tells the user of a step that takes time (percent < 0: unknown). Never nil.
	Report func(message string, percent int)
}

// Thaw is an environment from which a session starts: changes over an image.
type Thaw struct {
	Digest string // Spec.Environment
	Image  string // the engine's ID of the image that Fill's changes are over; empty: whatever Spec.Image names now
	// Fill writes the changes into upper, an empty directory that becomes an overlay's upper one. After an error it
	// holds nothing that may be used.
	Fill func(ctx context.Context, upper string) error
}
