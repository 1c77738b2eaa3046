package batch

import (
	"context"
	"errors"
	"os"

	"slipway/spawner"
)

// System is a batch system, as its commands show it. It holds nothing of any workload: what is to be remembered is the
// Backend's. Its methods may be called at once.
type System interface {
	// Title is the batch system's name as people write it.
	Title() string
	// Arch returns the batch system's name for what Go calls an architecture; empty: a job may go anywhere.
	Arch(goarch string) string
	// Check says what is lacking for jobs of an account to be submitted; empty: of any user's.
	Check(ctx context.Context, login string) error
	// Queue returns the jobs of this service that are in the queue, and History those that have left it, the latest
	// first. Each bears the Marker's mark. An error, or an answer that cannot be read, says nothing of any job.
	Queue(ctx context.Context) ([]Job, error)
	History(ctx context.Context) ([]Job, error)
	// Describe says what is to be submitted for a workload.
	Describe(w spawner.Workload, r Record) (Description, error)
	// Submit submits what shares a description, and returns the jobs in the order of the entries: what is to be known
	// of each that its Entry does not tell. After an error some may have been taken.
	Submit(ctx context.Context, s Submission) ([]Job, error)
	// Remove removes jobs of one account from the queue; unbegun: only those that have not begun when the batch system
	// comes to them. That one is not there any more, or has begun, is no error.
	Remove(ctx context.Context, login string, names []string, unbegun bool) error
	// Judge refuses a workload that could never start there. Arch is of its environment, empty where it is not known.
	Judge(ctx context.Context, w spawner.Workload, arch string) error
	// Why explains what a workload waits for that is in the queue, which shows it as o.
	Why(ctx context.Context, w spawner.Workload, r Record, o spawner.Observation) (spawner.Explanation, error)
}

// Job is one job of the queue or of the history of a batch system.
type Job struct {
	ID    spawner.ID
	Run   string // as Encode has made it
	Login string // whose it is, by the batch system's word
	Name  string // in the batch system
	// Number and Task order jobs: one of a lower number was submitted before, and of several of one submission, one of
	// a lower task.
	Number, Task int64
	Begun        bool // the batch system has begun it at some time
	Leaving      bool // it is being removed
	// Over says that it has ended, and is shown until the batch system forgets it: it cannot be removed. One that stays
	// in the queue until it is removed is not.
	Over bool
	Seen spawner.Observation
	End  End // of the history, or of one that is Over: how it ended
}

// live reports whether something of a job runs, or may come to.
func (j Job) live() bool { return j.Seen.Existence != spawner.Exited }

func (j Job) begun() bool { return j.Begun }

// waiting reports whether a job has never begun, and may.
func (j Job) waiting() bool { return !j.Begun && j.live() }

// Description is what a batch system is to be told of a workload.
type Description struct {
	Head    string // what it shares with others: those with the same go in one submission
	Warning string // what its user should know before; empty: nothing
}

// Submission are jobs of one account that share a description.
type Submission struct {
	Login   string
	GID     int // the account's group
	Head    string
	Entries []Entry
	// Holds is to be held open by the command that submits, for as long as it runs.
	Holds *os.File
}

// Entry is what a job of a submission has for itself alone. None of its words has a sign that needs quotes.
type Entry struct {
	ID      spawner.ID
	Run     string // as Encode makes it
	Mark    string
	Sandbox Sandbox
	Point   int // of a scan; -1: it is of none
}

// TooMany is the error of a submission that is refused for its number of jobs alone.
type TooMany struct{ Err error }

func (e TooMany) Error() string { return e.Err.Error() }

func (e TooMany) Unwrap() error { return e.Err }

// Killed is the error of a command that was killed: what it has sent may yet be taken.
type Killed struct{ Err error }

func (e Killed) Error() string { return e.Err.Error() }

func (e Killed) Unwrap() error { return e.Err }

func isTooMany(err error) bool {
	_, ok := errors.AsType[TooMany](err)
	return ok
}

func isKilled(err error) bool {
	_, ok := errors.AsType[Killed](err)
	return ok
}
