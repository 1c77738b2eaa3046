package spawner

import (
	"time"

	"slipway/internal/agent/control"
)

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

// SliceUse is what a job has made of its slice of a GPU.
type SliceUse struct {
	Busy   float64 `json:"busy"`             // of the slice, 0 to 1, in the mean
	Memory int64   `json:"memory"`           // the most at once, in bytes
	Energy float64 `json:"energy,omitempty"` // joules; 0: not measured
}

// Cause says in one word why a job has failed, as hubapi.Cause has it.
type Cause string

// The causes, in words for programs; hubapi has the same.
const (
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

// Ending is how a job has come to its end.
type Ending string

// The ends of jobs.
const (
	Done     Ending = "done"
	Failed   Ending = "failed"
	Canceled Ending = "canceled"
)

// Ending says how a job that has stopped has ended.
func (w Workload) Ending() Ending {
	switch {
	case w.Outcome == nil || w.Outcome.Canceled:
		return Canceled
	case w.Outcome.Failed:
		return Failed
	default:
		return Done
	}
}
