package spawner

import (
	"context"
	"io"

	"slipway/internal/agent/control"
)

// Remote is a Backend whose workloads run on other hosts, where a batch system sends them. One may be Queued or Held
// for long, and be Evicted at any time; its agent dials the service from another host. A job needs no link: all that it
// runs travels with it (Launch.App), and what it leaves comes back with its end. A Start that is refused with
// errs.NoCapacity or errs.OverQuota is one that is not taken yet: the workload waits in line, and its owner reads the
// error's message.
type Remote interface {
	Backend
	// Title is the backend's name as people write it.
	Title() string
	// Judge refuses a workload that could never start there, with the reason and the remedy: before it is saved.
	Judge(ctx context.Context, w Workload) error
	// Why explains what a workload that is Queued or Held waits for.
	Why(ctx context.Context, w Workload) (Explanation, error)
	// Withdraw takes back a workload that has never begun to run there: what is left of it afterwards is nothing, or
	// never runs. Who has begun, also if it is over, is left as it is, and the error is of kind errs.Conflict.
	// Withdrawing what is not there is success.
	Withdraw(ctx context.Context, id ID) error
	// StagedOutput returns what a workload that has Exited left, until it is removed. errs.NotFound: nothing came back.
	StagedOutput(ctx context.Context, id ID) (StagedOutput, error)
}

// AnyBackend is for JobRequest.Backend the word for wherever it starts first: on this host if it would at once, else on
// another backend that takes it, else where the site's jobs usually go; and of these only where it may have what it
// asks for. It is resolved when the job is submitted.
const AnyBackend = "any"

// StagedOutput are what came back of a workload that has ended, as its agent would give it. All of it is the user's,
// and not trusted.
type StagedOutput interface {
	Status() control.Status // the agent's last word
	Log(ctx context.Context, from int64) (io.ReadCloser, error)
	File(ctx context.Context, name string) (io.ReadCloser, int64, error)
	// Changes returns what a session has changed over its environment, as package images/changeset streams it.
	// errs.NotFound: nothing came back; errs.Invalid: not all of it, and the rest never will.
	Changes(ctx context.Context) (io.ReadCloser, error)
}

// Explanation says why a workload has not started yet.
type Explanation struct {
	Summary string // one line
	Slots   int    // of all machines that the batch system knows
	Fit     int    // that fulfil every requirement, busy or not
	Free    int    // that fulfil every requirement and could take it now
	Clauses []Clause
	Remedy  string // what the user can change; empty: nothing but wait
}

// Clause is one requirement of a workload, and how many slots it excludes.
type Clause struct {
	Words    string // such as "a GPU of compute capability 8.0 or more"
	Text     string // as the batch system has it
	Excludes int    // slots that fail it, whatever the others say
	Alone    int    // slots that fail nothing else
}

// HeldAt is how Manager.Detail begins for a workload that a batch system holds, also one that has begun.
const HeldAt = "Held at "
