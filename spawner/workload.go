package spawner

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"slipway/internal/gpu"
)

// Resources are the limits of a workload, and what it leases of its backend.
type Resources struct {
	CPUs   float64 `json:"cpus"`
	Memory int64   `json:"memory"` // bytes
	Pids   int64   `json:"pids"`   // most processes and threads
	// Disk is how many bytes a session may write beside its home; zero: no limit. It is held to that while it runs, and
	// leases none.
	Disk int64 `json:"disk,omitempty"`
}

// Spec is what a workload is to be: what all have in common, and the parts of jobs and of sessions. A request for one
// has the same Spec as its record. A session's may change between two starts, never while it is active.
type Spec struct {
	Environment string            `json:"environment,omitempty"` // its digest. Jobs run in it; a session starts from it, over Image; empty: from Image alone
	Argv        []string          `json:"argv"`
	Env         map[string]string `json:"env,omitempty"` // public variables; secrets travel in Secrets
	Resources   Resources         `json:"resources"`
	GPU         gpu.Request       `json:"gpu,omitzero"` // what slice of one; zero: none
	JobSpec
	SessionSpec
}

// JobSpec is what only jobs have in their Spec.
type JobSpec struct {
	TimeLimit   time.Duration `json:"time_limit,omitempty"`  // of its run; zero: none
	Inputs      []string      `json:"inputs,omitempty"`      // names of the input files
	Preemptible bool          `json:"preemptible,omitempty"` // it may borrow an idle session's slice, and is put back in line when its owner returns
	Retries     int           `json:"retries,omitempty"`     // how often it is tried again by itself when it fails, at most MostRetries
	Priority    int           `json:"priority,omitempty"`    // among its owner's, up to MostPriority: higher goes first
	Out         []string      `json:"out,omitempty"`         // names and patterns of the output files that it has to leave; empty: what it leaves
}

// SessionSpec is what only sessions, kernels among them, have in their Spec.
type SessionSpec struct {
	Profile   string `json:"profile,omitempty"`
	Image     string `json:"image,omitempty"`      // the engine's reference
	Prefix    string `json:"prefix,omitempty"`     // the URL path that is theirs, decoded, with slashes at both ends
	Ready     string `json:"ready,omitempty"`      // the path that answers when the app is up
	Life      Life   `json:"life,omitzero"`        // when they are stopped
	Rescue    bool   `json:"rescue,omitempty"`     // nothing of it writes to the home by itself, which may be full
	EventsURL string `json:"events_url,omitempty"` // where Config.AnnounceStart tells what happens in the start
	Interrupt string `json:"interrupt,omitempty"`  // kernels: how they are interrupted, by a "signal" or a "message"
}

// Life says when a running session is stopped. Zero fields mean never.
type Life struct {
	Idle         time.Duration `json:"idle,omitempty"`          // after nothing went on in it for so long
	MaxAge       time.Duration `json:"max_age,omitempty"`       // after it has run so long, busy or not
	FirstConnect time.Duration `json:"first_connect,omitempty"` // after so long without anybody having opened it
	Away         time.Duration `json:"away,omitempty"`          // kernels: after so long without a client, busy or not
	FirstClient  time.Duration `json:"first_client,omitempty"`  // kernels: after so long in which no client has ever come
	Connected    bool          `json:"connected,omitempty"`     // kernels: one that a client is connected to does not idle
	Warning      time.Duration `json:"warning,omitempty"`       // how long before a stop its user is told
	MaxKeep      time.Duration `json:"max_keep,omitempty"`      // most that its user may ask it to be kept while idle; zero: not at all
	BusyCPU      float64       `json:"busy_cpu,omitempty"`      // processors; one that uses more is active. Zero: their use says nothing
}

// Workload is one session or job as the store has it: what all have in common, and the parts that only some have.
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
	// Account is as whom its current start runs, or its last one ran; zero: it has not begun. What becomes of the
	// account meanwhile is for the next start.
	Account Account `json:"account,omitzero"`
	Turn    int64   `json:"turn,omitempty"` // counts the starts of all workloads: who waits with a lower one goes first

	LeaseRecord
	RemoteRecord
	JobRecord
	SessionRecord
	KernelRecord
}

// LeaseRecord is what a workload has of a GPU, and how it came by it.
type LeaseRecord struct {
	Slice  *gpu.Slice `json:"slice,omitempty"`  // leased or borrowed; nil: none
	Lender ID         `json:"lender,omitempty"` // jobs: the session whose slice it has borrowed; empty: the slice is its own
	Moving bool       `json:"moving,omitempty"` // it is being ended to go back in line: its slice turned out bad, or is called back
	Moves  int        `json:"moves,omitempty"`  // how often it went back in line since its start was asked for
	Bad    []BadPart  `json:"bad,omitempty"`    // the parts of GPUs that this start found bad, since it last ran
}

// RemoteRecord is what only workloads have that run on other hosts.
type RemoteRecord struct {
	Remote    bool      `json:"remote,omitempty"`    // its backend is a Remote
	Host      string    `json:"host,omitempty"`      // where this start of it runs, or ran; empty: nowhere yet
	Asked     time.Time `json:"asked,omitzero"`      // when its agent was asked to end; zero: it was not
	From      string    `json:"from,omitempty"`      // sessions: the environment that this run, or the last one, was started from
	Kept      string    `json:"kept,omitempty"`      // sessions: the environment that holds what it had changed when it last ended
	Saved     bool      `json:"saved,omitempty"`     // what came back of the run that has ended is here, or is known never to come
	Unkept    string    `json:"unkept,omitempty"`    // sessions: why what it had changed could not be kept. It lies with its backend until it is
	Evictions int       `json:"evictions,omitempty"` // how often its place was taken away since its start was asked for
}

// JobRecord is what only jobs have.
type JobRecord struct {
	Scan  string `json:"scan,omitempty"`  // names the scan of which it is a point
	Point int    `json:"point,omitempty"` // its number in the scan, from 0
	Held  bool   `json:"held,omitempty"`  // its owner has it wait until she releases it
	// Bundle names the input files of jobs that were submitted together, or anew; empty: there are none, or those of an
	// old record.
	Bundle ID `json:"bundle,omitempty"`
	// After are the jobs and scans that it waits for, as far as they are not done.
	After      []string  `json:"after,omitempty"`
	Attempt    int       `json:"attempt,omitempty"`  // how many tries ended before this one
	Attempts   []Outcome `json:"attempts,omitempty"` // how, without their tails; the oldest are dropped
	BackingOff bool      `json:"rests,omitempty"`    // it waits a while before this try, which nobody has asked for
	Retried    []string  `json:"retried,omitempty"`  // the requests that had it tried again; the oldest are dropped
	Origin     ID        `json:"origin,omitempty"`   // from which it was submitted anew
	// Withdrawn: it is being ended to be held, where it has not begun to run. If it turns out that it has, it goes on.
	Withdrawn bool `json:"withdrawn,omitempty"`
}

// SessionRecord is what only sessions have, kernels among them, of their current start. Zero times: never.
type SessionRecord struct {
	Sealed    []byte    `json:"sealed,omitempty"`    // its secrets, until its app has them; for as long as it may have to begin anew elsewhere
	Active    time.Time `json:"active,omitzero"`     // when something last went on in it; saved from time to time only
	Visited   time.Time `json:"visited,omitzero"`    // when somebody first opened it
	KeepUntil time.Time `json:"keep_until,omitzero"` // until when its owner wants it kept though nothing goes on in it
}

// KernelRecord is what only kernels have.
type KernelRecord struct {
	Kernel    string     `json:"kernel,omitempty"`    // by which its clients know it: not to be told to anybody else, for in its first minute it opens the kernel
	Entry     string     `json:"entry,omitempty"`     // the site's word for what it is; empty: there is none but Name
	Notebooks []Notebook `json:"notebooks,omitempty"` // that have it
	// Standby is the name of which it is to be its owner's next kernel: it has all of a kernel but its app. Empty: it
	// is one that was asked for.
	Standby string `json:"standby,omitempty"`
}

// Principal returns whose w is.
func (w Workload) Principal() Principal { return Principal{w.Hub, w.Owner} }

// Run names one run of a workload's launch: after a move, and when a job is tried again, the same launch is run again.
func (w Workload) Run() string {
	run := w.Launch
	if w.Attempt > 0 {
		run = fmt.Sprintf("%s~%d", run, w.Attempt)
	}
	if w.Moves > 0 {
		run = fmt.Sprintf("%s.%d", run, w.Moves)
	}
	return run
}

// InQueue reports whether w stands in line for room: those that asked first go first, so that a large one is not
// starved by small ones.
func (w Workload) InQueue() bool {
	return w.Phase == Pending && w.Standby == "" && w.Want == WantRunning && !w.Held && !w.Moving && !w.BackingOff &&
		len(w.After) == 0
}

// AwaitsDependencies reports whether w waits for others to be done before it stands in line.
func (w *Workload) AwaitsDependencies() bool {
	return len(w.After) > 0 && w.Phase == Pending && w.Want == WantRunning
}

// Settled reports whether a workload is where its owner wants it.
func (w Workload) Settled() bool {
	return w.Phase == Running && w.Want == WantRunning || w.Phase == Stopped && w.Want == WantStopped
}

// Withdrawing reports whether a job is being taken back, and not ended for another reason.
func (w Workload) Withdrawing() bool { return w.Withdrawn && w.Want == WantRunning }

// LocalGPU is what w asks of the GPUs that the service leases. Those of a Remote are the batch system's.
func (w Workload) LocalGPU() gpu.Request {
	if w.Remote {
		return gpu.Request{}
	}
	return w.Spec.GPU
}

// SliceHolder names to the GPUs for whom a workload's slice was made: the lender of a borrowed one, also when that has
// gone meanwhile.
func (w Workload) SliceHolder() string {
	if w.Lender != "" {
		return string(w.Lender)
	}
	return string(w.ID)
}

// FoundBad reports whether a start could not run on a place.
func (w Workload) FoundBad(s gpu.Slice) bool {
	return slices.ContainsFunc(w.Bad, func(b BadPart) bool { return b.Slice.Same(s) })
}

// BadPart is a part of a GPU on which a workload could not run.
type BadPart struct {
	Slice gpu.Slice `json:"slice"`
	Why   string    `json:"why"`
	// Shun says that the workload is not to have the part again: it has only its own word for it, so others may.
	Shun bool `json:"shun,omitempty"`
}

// IsStandby reports whether w is a standby that may still be taken.
func (w *Workload) IsStandby() bool {
	return w.Standby != "" && w.Want == WantRunning && w.Phase.Active() && w.Phase != Stopping
}

// EntryName is what a kernel is counted as: users' words are not in it.
func (w *Workload) EntryName() string { return cmp.Or(w.Entry, w.Name) }
