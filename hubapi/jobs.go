package hubapi

import "time"

// JobProgress is what a payload says of how far it is.
type JobProgress struct {
	Done float64 `json:"done"`
	Of   float64 `json:"of"`   // 0: it is not known of how much
	Text string  `json:"text"` // may be empty
}

// Cause says in one word why a job has failed.
type Cause string

// The causes.
const (
	CauseNone      Cause = ""           // it has not failed
	CauseExit      Cause = "exit"       // its payload says so, by its exit code
	CauseSignal    Cause = "signal"     // a signal ended it
	CauseMemory    Cause = "memory"     // it needed more than it may have
	CauseGPUMemory Cause = "gpu-memory" // the same of its slice of a GPU
	CauseTime      Cause = "time"       // its time limit was reached
	CauseModule    Cause = "module"     // its environment lacks a module
	// it ended well, and has not left what it was to leave, or not all could be kept
	CauseOutput     Cause = "output"
	CauseDisk       Cause = "disk"       // a disk was full
	CauseDependency Cause = "dependency" // what it was to wait for has failed
	CauseStart      Cause = "start"      // it could not be started
	CauseLost       Cause = "lost"       // what ran of it is gone, nobody knows why
	CauseCanceled   Cause = "canceled"   // its owner, or the administrator, ended it
)

// SliceUse is what a job has made of its slice of a GPU.
type SliceUse struct {
	Busy   float64 `json:"busy"`   // of the slice, 0 to 1, in the mean
	Memory int64   `json:"memory"` // the most at once, in bytes
	Energy float64 `json:"energy"` // joules; 0: not measured
}

// JobPlan is what a job, or each point of a scan, would meet if it were submitted now.
type JobPlan struct {
	Backend string `json:"backend"` // where it would go
	Availability
	Typical  float64 `json:"typical"` // seconds that the caller's jobs of this name have run of late, in the middle; -1: there are none
	Points   int     `json:"points"`  // the most that a scan may have
	Stored   int64   `json:"stored"`  // bytes that the caller's jobs keep
	Store    int64   `json:"store"`   // bytes that they may; 0: not limited
	GPUHours float64 `json:"gpu_hours"`
	GPUMost  float64 `json:"gpu_most"` // of those, what the caller may have; 0: not limited
}

// JobsUsage is what the caller's jobs keep, and what she has used.
type JobsUsage struct {
	Stored   int64       `json:"stored"` // bytes
	Store    int64       `json:"store"`  // bytes that may be; 0: not limited
	Kept     []KeptFiles `json:"kept"`   // the largest first; a scan is one
	Inputs   int64       `json:"inputs"` // bytes of stored, that no job needs any more, and that go by themselves
	GPUHours float64     `json:"gpu_hours"`
	GPUMost  float64     `json:"gpu_most"` // 0: not limited
	Window   string      `json:"window"`   // over which GPUHours counts, such as "168h0m0s"
}

// KeptFiles is what one job, or a scan, keeps.
type KeptFiles struct {
	ID      string     `json:"id"`
	Name    string     `json:"name"`
	Bytes   int64      `json:"bytes"`
	Files   int        `json:"files"`
	Expires *time.Time `json:"expires"` // when it is removed; null: it goes on, or never
}

// PointEvent is what a scan's stream says of one point: how it stands now, not what has changed.
type PointEvent struct {
	Point    int          `json:"point"`
	Job      string       `json:"job"`
	State    State        `json:"state"`
	Attempt  int          `json:"attempt"`
	Progress *JobProgress `json:"progress"`
	Host     string       `json:"host"`   // empty: the service's own, or none yet
	Slice    string       `json:"slice"`  // what it holds of a GPU, in words; empty: nothing
	Reason   string       `json:"reason"` // why it waits, or failed
	Up       *time.Time   `json:"up"`     // when it began to run
	Ended    *time.Time   `json:"ended"`
	Wall     float64      `json:"wall"` // seconds that it ran, once it has ended: its end may be seen long after it was
}

// The names of the events of a scan's stream.
const (
	EventPoint = "point" // data: PointEvent
	EventScan  = "scan"  // data: Scan
)
