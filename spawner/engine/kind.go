package engine

import (
	"context"
	"time"

	"slipway/internal/agent/control"
	"slipway/spawner"
	"slipway/spawner/jobfiles"
	"slipway/spawner/lifecycle"
)

// Kind is what is particular to the workloads of a kind. Of a function that is nil, nothing is. What takes a Tx or a
// View is called under the lock: it is quick, and asks the Manager nothing.
type Kind struct {
	Role lifecycle.Role
	// Postponed says that a start for which something is missing just now goes back in line, for nobody is there to try
	// again.
	Postponed bool
	// Evicted says what becomes of a workload that has lost its place on another host.
	Evicted string
	// Remembered is for how long it is known of one that has ended by itself why it did. Zero: until its owner removes
	// it.
	Remembered time.Duration

	// Run does what goes on beside all workloads, until ctx ends.
	Run func(ctx context.Context)
	// Resynced is called after each look at everything.
	Resynced func(ctx context.Context)
	// Count adds what is particular to a state in numbers.
	Count func(v View, s *spawner.Stats)

	// Prewarmed notes that a standby has done what can be done of its start beforehand.
	Prewarmed func(tx Tx, e *Entry)
	// FindBase saves from which environment a workload is to start on another host.
	FindBase func(ctx context.Context, e Entry) error
	// SendInputs gives an agent what its app needs, before it is given the app.
	SendInputs func(ctx context.Context, e Entry) error
	// Up notes that a workload has come up.
	Up func(tx Tx, e *Entry)

	// Follow follows what goes on in a workload for as long as the link to its agent is up.
	Follow func(ctx context.Context, id spawner.ID)
	// Heard notes the word of an agent, and returns what is to be done without the lock; nil: nothing.
	Heard func(tx Tx, e *Entry, s control.Status) func(context.Context)
	// Active notes what a workload's agent tells of what goes on in it, before the engine does.
	Active func(tx Tx, e *Entry, a control.Activity)
	// Left hears whether all clients of a workload have left it.
	Left func(ctx context.Context, id spawner.ID, left bool)
	// Waits looks at a workload with which nothing is to be done now.
	Waits func(ctx context.Context, e Entry)

	// Due reports whether a running workload is to be ended now, and Expired says why.
	Due     func(e Entry, now time.Time) bool
	Expired func(e Entry) spawner.Outcome
	// Canceled returns the outcome of a workload that its owner has ended. It is required.
	Canceled func(e Entry) spawner.Outcome
	// Exited returns the outcome of a workload whose agent says that its app has exited.
	Exited func(e Entry, o spawner.Observation) spawner.Outcome
	// Failed completes why a workload is given up, and Ailment why one has failed that is given up or has ended by
	// itself.
	Failed  func(e Entry, o spawner.Outcome) spawner.Outcome
	Ailment func(e Entry, o spawner.Outcome) spawner.Outcome
	// SliceUse says what a workload has made of its slice of a GPU so far. It does not wait.
	SliceUse func(w spawner.Workload) *spawner.SliceUse
	// Collect brings here what an app has left that has exited, and completes its outcome. It reports false where that
	// cannot be kept now: it stays where it is, and Collect is called again. Until a time, what fails is tried again.
	Collect func(
		ctx context.Context, e Entry, from jobfiles.Source, until time.Time, o *spawner.Outcome,
	) (kept bool, err error)
	// Checkpoint brings here what came back of a run on another host, which is tried since a time, and calls NoteSaved;
	// r is nil where nothing has come back. What it reports is as of Collect.
	Checkpoint func(ctx context.Context, e Entry, r spawner.StagedOutput, since time.Time) (kept bool, err error)
	// CheckpointViaAgent keeps what a workload on another host has changed before it is ended, where that may not come
	// back by way of its batch system. It reports false when it has not.
	CheckpointViaAgent func(ctx context.Context, e Entry) bool
	// Ended completes the outcome of a workload that ends at o.At, however it does.
	Ended func(e *Entry, o spawner.Outcome) spawner.Outcome
	// Ending notes how a workload comes to its end, before that is saved.
	Ending func(tx Tx, e *Entry, o spawner.Outcome)
	// Released is called when what a workload held was given back.
	Released func(e Entry)

	// Retry, EndBackoff and ClearDependency carry out the actions of package lifecycle that are called so.
	Retry           func(ctx context.Context, e Entry) error
	EndBackoff      func(ctx context.Context, e Entry) error
	ClearDependency func(ctx context.Context, e Entry) error
}

// kinds are those of which something is particular.
type kinds struct {
	of  map[spawner.Kind]*Kind
	all []*Kind
}

// Register has the engine ask k about the workloads of some kinds. It is called before Run.
func (ks *kinds) Register(k Kind, of ...spawner.Kind) {
	for _, kind := range of {
		ks.of[kind] = &k
	}
	ks.all = append(ks.all, &k)
}

// Kind returns what is particular to a kind.
func (ks *kinds) Kind(of spawner.Kind) *Kind {
	if k := ks.of[of]; k != nil {
		return k
	}
	return &Kind{}
}

// ended returns the outcome of a workload that ends now, with what is known of its kind beside.
func (ks *kinds) ended(e *Entry, o spawner.Outcome) spawner.Outcome {
	o.At = time.Now()
	if complete := ks.Kind(e.Kind).Ended; complete != nil {
		o = complete(e, o)
	}
	return o
}

// due reports whether a running workload is to be ended now.
func (k *Kind) due(e Entry) bool { return k.Due != nil && k.Due(e, time.Now()) }
