// Package spawner is the engine: it keeps workloads (sessions and jobs) in the state that their owners want.
//
// Promises: a workload is saved before anything is done for it; its resources are leased before it starts and given back only
// when it was seen gone; what a killed service left is found again by the workload's ID and adopted; a stopped session keeps
// its changes. Who may see or change a workload is decided here, in the Manager's methods, and nowhere else.
//
// The package decides in one pure function (next) and acts in one place (the Manager). It must not import a backend, and knows
// nothing of images beyond their names, nor of HTTP.
package spawner

import (
	"context"
	"strings"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/gpu"
)

// ID names a workload for ever: "s-" or "j-" and 16 lower-case letters and digits. It is safe in paths, labels and host names.
type ID string

// OfJob tells a job from a session by the ID alone.
func (id ID) OfJob() bool { return strings.HasPrefix(string(id), "j-") }

// User is a person's name as the Hub has it, unchanged: case counts, and it may hold any characters.
type User string

// Kind says what a workload runs.
type Kind string

// The kinds of workload. All but Job are sessions.
const (
	Lab  Kind = "lab"  // JupyterLab
	Code Kind = "code" // VS Code in the browser, without a Jupyter server
	Job  Kind = "job"  // one batch job in a frozen environment
	// Kernel is a single Jupyter kernel. Its user starts it, not her Hub, and it keeps nothing when it ends.
	Kernel Kind = "kernel"
)

// Want is what the owner wants of a workload.
type Want string

// The wants.
const (
	WantRunning Want = "running"
	WantStopped Want = "stopped" // a session: stop, keep the changes. A job: cancel
	WantGone    Want = "gone"    // remove it with all that it left, and forget it
)

// Phase is how far a workload has come. The Manager saves it before it acts on it.
type Phase string

// The phases.
const (
	Pending  Phase = "pending"  // saved; holds nothing; waits for room
	Leased   Phase = "leased"   // its resources are its own; nothing runs yet
	Starting Phase = "starting" // the backend was asked to start it
	Booting  Phase = "booting"  // its agent is there and has been given the app
	Running  Phase = "running"  // a session answers; a job's payload runs
	Stopping Phase = "stopping" // is being ended
	Stopped  Phase = "stopped"  // holds nothing; a session's changes are kept, a job's outcome is known
	Removing Phase = "removing" // all that it left is being removed
)

// Active reports whether a workload of this phase holds resources or is about to.
func (p Phase) Active() bool { return p != Stopped && p != Removing }

// Resources are the limits of a workload, and what it leases of its backend.
type Resources struct {
	CPUs   float64 `json:"cpus"`
	Memory int64   `json:"memory"` // bytes
	Pids   int64   `json:"pids"`   // most processes and threads
	// Disk is how many bytes a session may write beside its home; zero: no limit. It is held to that while it runs, and leases none.
	Disk int64 `json:"disk,omitempty"`
}

// Spec is what a workload is to be. A session's spec may change between two starts, never while it is active.
type Spec struct {
	Profile     string            `json:"profile,omitempty"`
	Image       string            `json:"image,omitempty"`       // sessions: the engine's reference
	Environment string            `json:"environment,omitempty"` // its digest. Jobs run in it; a session starts from it, over Image; empty: from Image alone
	Argv        []string          `json:"argv"`
	Env         map[string]string `json:"env,omitempty"` // public variables; secrets travel in Secrets
	Resources   Resources         `json:"resources"`
	TimeLimit   time.Duration     `json:"time_limit,omitempty"`  // of a job's run; zero: none
	Prefix      string            `json:"prefix,omitempty"`      // sessions: the URL path that is theirs, decoded, with slashes at both ends
	Ready       string            `json:"ready,omitempty"`       // sessions: the path that answers when the app is up
	Inputs      []string          `json:"inputs,omitempty"`      // jobs: names of the input files
	Life        Life              `json:"life,omitzero"`         // sessions: when they are stopped
	GPU         gpu.Request       `json:"gpu,omitzero"`          // what slice of one; zero: none
	Preemptible bool              `json:"preemptible,omitempty"` // jobs: may borrow an idle session's slice, and is put back in line when it is wanted
	Rescue      bool              `json:"rescue,omitempty"`      // sessions: nothing of it writes to the home by itself, which may be full
	Retries     int               `json:"retries,omitempty"`     // jobs: how often it is tried again by itself when it fails
	Priority    int               `json:"priority,omitempty"`    // jobs: among its owner's, higher goes first
	Out         []string          `json:"out,omitempty"`         // jobs: names and patterns of the output files that it has to leave; empty: what it leaves
	EventsURL   string            `json:"events_url,omitempty"`  // sessions: where Config.AnnounceStart tells what happens in the start
	Interrupt   string            `json:"interrupt,omitempty"`   // kernels: how they are interrupted, by a "signal" or a "message"
}

// Workload is one session or job as the store has it.
type Workload struct {
	ID      ID        `json:"id"`
	Kind    Kind      `json:"kind"`
	Owner   User      `json:"owner"`
	Hub     string    `json:"hub"`               // the hub that vouches for Owner
	Name    string    `json:"name"`              // sessions: the Hub's server name, may be empty; jobs: the user's word
	Session ID        `json:"session,omitempty"` // jobs and kernels: the session it was submitted from, if any
	Backend string    `json:"backend"`
	Spec    Spec      `json:"spec"`
	Want    Want      `json:"want"`
	Phase   Phase     `json:"phase"`
	Launch  string    `json:"launch"` // names the current start; a new one for each
	Outcome *Outcome  `json:"outcome,omitempty"`
	Created time.Time `json:"created"`
	Since   time.Time `json:"since"`            // when Phase began
	Started time.Time `json:"started,omitzero"` // when the current start was asked for
	Up      time.Time `json:"up,omitzero"`      // when it last became Running
	Ran     bool      `json:"ran,omitempty"`    // it was Running in some start: it may have changes
	Rev     int64     `json:"rev"`              // counts changes
	// Account is as whom its current start runs, or its last one ran; zero: it has not begun. What becomes of the account meanwhile is for
	// the next start.
	Account Account `json:"account,omitzero"`
	Turn    int64   `json:"turn,omitempty"` // counts the starts of all workloads: who waits with a lower one goes first

	Slice  *gpu.Slice `json:"slice,omitempty"`  // of a GPU; leased or borrowed; nil: none
	Lender ID         `json:"lender,omitempty"` // jobs: the session whose slice it has borrowed; empty: the slice is its own
	Moving bool       `json:"moving,omitempty"` // it is being ended to go back in line: its slice turned out bad, or is called back
	Moves  int        `json:"moves,omitempty"`  // how often it went back in line since its start was asked for
	Bad    []BadPart  `json:"bad,omitempty"`    // the parts of GPUs that this start found bad, since it last ran

	Scan  string `json:"scan,omitempty"`  // jobs: names the scan of which it is a point
	Point int    `json:"point,omitempty"` // its number in the scan, from 0
	Held  bool   `json:"held,omitempty"`  // jobs: its owner has it wait until she releases it
	// Bundle names the input files of jobs that were submitted together, or anew; empty: there are none, or those of an old record.
	Bundle ID `json:"bundle,omitempty"`
	// After are the jobs and scans that it waits for, as far as they are not done.
	After    []string  `json:"after,omitempty"`
	Attempt  int       `json:"attempt,omitempty"`  // jobs: how many tries ended before this one
	Attempts []Outcome `json:"attempts,omitempty"` // jobs: how, without their tails; the oldest are dropped
	Rests    bool      `json:"rests,omitempty"`    // jobs: it waits a while before this try, which nobody has asked for
	Retried  []string  `json:"retried,omitempty"`  // jobs: the requests that had it tried again; the oldest are dropped
	Origin   ID        `json:"origin,omitempty"`   // jobs: from which it was submitted anew
	// Jobs: it is being ended to be held, where it has not begun to run. If it turns out that it has, it goes on.
	Withdrawn bool `json:"withdrawn,omitempty"`

	// Of what runs on other hosts.
	Remote    bool      `json:"remote,omitempty"`    // its backend is a Remote
	Host      string    `json:"host,omitempty"`      // where this start of it runs, or ran; empty: nowhere yet
	Asked     time.Time `json:"asked,omitzero"`      // when its agent was asked to end; zero: it was not
	From      string    `json:"from,omitempty"`      // sessions: the environment that this run, or the last one, was started from
	Kept      string    `json:"kept,omitempty"`      // sessions: the environment that holds what it had changed when it last ended
	Saved     bool      `json:"saved,omitempty"`     // what came back of the run that has ended is here, or is known never to come
	Unkept    string    `json:"unkept,omitempty"`    // sessions: why what it had changed could not be kept. It lies with its backend until it is
	Evictions int       `json:"evictions,omitempty"` // how often its place was taken away since its start was asked for

	// Of kernels.
	Kernel    string     `json:"kernel,omitempty"`    // by which its clients know it: not to be told to anybody else, for in its first minute it opens the kernel
	Entry     string     `json:"entry,omitempty"`     // the site's word for what it is; empty: there is none but Name
	Notebooks []Notebook `json:"notebooks,omitempty"` // that have it
	// Standby is the name of which it is to be its owner's next kernel: it has all of a kernel but its app. Empty: it is one that was asked for.
	Standby string `json:"standby,omitempty"`

	Sealed []byte `json:"sealed,omitempty"` // a session's secrets, until its app has them; for as long as it may have to begin anew elsewhere
	// Of the current start of a session; zero: never. Active is saved from time to time only.
	Active    time.Time `json:"active,omitzero"`     // when something last went on in it
	Visited   time.Time `json:"visited,omitzero"`    // when somebody first opened it
	KeepUntil time.Time `json:"keep_until,omitzero"` // until when its owner wants it kept though nothing goes on in it
}

// BadPart is a part of a GPU on which a workload could not run.
type BadPart struct {
	Slice gpu.Slice `json:"slice"`
	Why   string    `json:"why"`
	// Shun says that the workload is not to have the part again: it has only its own word for it, so others may.
	Shun bool `json:"shun,omitempty"`
}

// Outcome is how the last start of a workload ended.
type Outcome struct {
	ExitCode int               `json:"exit_code"`
	Reason   string            `json:"reason"`           // in plain words; empty after an ordinary end
	Remedy   string            `json:"remedy,omitempty"` // what the user can do
	Tail     string            `json:"tail,omitempty"`   // the last lines of its output
	Failed   bool              `json:"failed"`
	Canceled bool              `json:"canceled,omitempty"`
	Expired  bool              `json:"expired,omitempty"` // its time was up: see Life
	At       time.Time         `json:"at"`
	MaxRSS   int64             `json:"max_rss,omitempty"`  // bytes
	CPU      float64           `json:"cpu,omitempty"`      // seconds
	Wall     float64           `json:"wall,omitempty"`     // seconds that it ran
	Signal   int               `json:"signal,omitempty"`   // that ended it
	Cause    Cause             `json:"cause,omitempty"`    // jobs: why it failed, in a word
	GPU      *SliceUse         `json:"gpu,omitempty"`      // jobs: what it made of its slice
	Progress *control.Progress `json:"progress,omitempty"` // jobs: what its payload said last of how far it is
}

// Cause says in one word why a job has failed, as hubapi.Cause has it.
type Cause string

// SliceUse is what a job has made of its slice of a GPU.
type SliceUse struct {
	Busy   float64 `json:"busy"`             // of the slice, 0 to 1, in the mean
	Memory int64   `json:"memory"`           // the most at once, in bytes
	Energy float64 `json:"energy,omitempty"` // joules; 0: not measured
}

// Account is who a workload runs as.
type Account struct {
	UID, GID int
	Groups   []Group // beside the first: what they let in is hers in workloads of this host
	Login    string  // fit for a line of /etc/passwd
	HomeDir  string  // on this host
	Home     string  // inside the workload
}

// Group is a group of this host.
type Group struct {
	ID   int
	Name string // fit for a line of /etc/group
}

// Launch is all that a backend needs to start a workload.
type Launch struct {
	Workload
	Account Account
	// Dir is the workload's own directory on this host, made by the Manager, root's. In it: link/ (bound read-only on
	// control.LinkDir; the service listens there), run/ (the user's; what a backend without tmpfs binds on control.RunDir).
	Dir      string
	InputDir string // on this host, holds what Spec.Inputs names
	AgentDir string // on this host, holds the agent's static program `slipway`; bound read-only on control.BinDir
	// SIF is the image file of the environment, for jobs and for all workloads of a Remote. For those, Spec.Environment is the digest of
	// what is in it, also where a session was asked for by its image alone, or goes on from what it had kept.
	SIF string
	// Areas are what it sees of this host beside its home. HomeFollows: what is mounted in the home later is to be seen inside.
	Areas       []Area
	HomeFollows bool
	// Storage is the directory on this host that a workload sees as /storage, with what is mounted below it later; empty: it has none.
	Storage string
	// Uplink and App are for a Remote alone: how the agent reaches the service from another host, and what a job's agent starts by
	// itself, whether it reaches the service or not. App is nil for sessions, whose secrets travel over the link.
	Uplink *control.Uplink
	App    *control.App
	// Thaw returns what a session is to start from, when its container is made anew: one that is kept has it already. It is nil for
	// one that starts from its image alone.
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
	// Fill writes the changes into upper, an empty directory that becomes an overlay's upper one. After an error it holds nothing
	// that may be used.
	Fill func(ctx context.Context, upper string) error
}

// Existence is what a backend sees of a workload.
type Existence string

// What can be seen.
const (
	Unknown Existence = "unknown" // the backend could not be asked: not an answer, and never taken for one
	Absent  Existence = "absent"  // nothing of it is left
	Created Existence = "created" // something is there that never ran
	Queued  Existence = "queued"  // a batch system has it in its queue; nothing of it runs or ever ran
	Held    Existence = "held"    // a batch system has it in its queue, and does not start it until it is released; Reason says why
	Up      Existence = "up"      // runs
	Exited  Existence = "exited"  // ran and ended; a session's changes are there
)

// Observation is one look at a workload.
type Observation struct {
	Existence Existence
	ExitCode  int    // of Exited
	Reason    string // why it ended, where the backend knows: "out of memory (limit 2.0 GB)", "time limit of 1h0m0s reached"
	Remedy    string // what the user can do about it
	Tail      string // the last lines of what its first process printed; of Exited
	// What all its processes have used together, the container's own among them; zero where the backend does not know.
	Memory int64   // the most bytes at once, with what the kernel keeps of files for them
	CPU    float64 // seconds
	Host   string  // where it runs, or ran; empty: on this host, or it is not known
	Detail string  // of Queued: what it waits for, in words; empty: nothing is known
	// Returning says of Up that it has ended, and what it leaves is on its way back.
	Returning bool
	// Shaken says of Up that the batch system has lost touch with it for a while: what it leaves may not come back by its way.
	Shaken bool
	// Evicted says of Exited that a batch system took its place away: it may run again, elsewhere, and begins anew there.
	Evicted bool
	// HeldBy names of Held who alone lifts it in the batch system; empty: its owner may.
	HeldBy string
}

// Backend is where workloads run. It finds what it made by the workload's ID alone, so nothing needs to be remembered for it.
// Every method may be called again at any time, after a crash at any point: it goes on from what it finds. Methods for
// different workloads run at once; the Manager never calls two for one workload at once.
type Backend interface {
	// Name is the backend's name in records and configuration.
	Name() string
	// Check says what the backend lacks on this host, with the remedy; nil when it can start workloads.
	Check(ctx context.Context) error
	// Start brings the workload up, with its agent as first process. What an earlier start left is adopted: a running one is
	// success, a stopped session is started again with its changes and with the limits of l. After an error nothing of this
	// start runs.
	Start(ctx context.Context, l Launch) error
	// Observe looks. An error means Unknown.
	Observe(ctx context.Context, id ID) (Observation, error)
	// Stop ends the workload's processes: asks, waits grace, kills. It returns when they are gone. A session's changes stay.
	// Stopping what is stopped or gone is success.
	Stop(ctx context.Context, id ID, grace time.Duration) error
	// Remove removes all that is left of a stopped workload. Removing what is gone is success.
	Remove(ctx context.Context, id ID) error
	// List returns every workload of which the backend holds anything, running or not, and what can be seen of it without a closer
	// look. It is one question to the engine, however many there are.
	List(ctx context.Context) (map[ID]Existence, error)
}
