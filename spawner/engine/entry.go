package engine

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	"slipway/internal/agent/control"
	"slipway/spawner"
	"slipway/spawner/culling"
	"slipway/spawner/journal"
)

// NewID makes an ID of a kind.
func NewID(k spawner.Kind) spawner.ID {
	prefix := spawner.ID("s-")
	if k.Batch() {
		prefix = "j-"
	}
	return prefix + spawner.ID(strings.ToLower(rand.Text()[:16]))
}

// Entry is one workload with what is known of it while the service runs.
type Entry struct {
	spawner.Workload
	Secrets   control.Env         // until its app has them; nil then, and when their seal cannot be opened
	announced string              // the launch that Config.AnnounceStart tells of
	prepared  bool                // the agent of a standby knows what it is to become
	Begun     bool                // the backend's Start succeeded for this launch
	startedAt time.Time           // when it did; of a Remote, since when it is seen to run there
	fetched   fetched             // how much of its image a Remote has
	Seen      spawner.Observation // by the last look at what a Remote has of it
	blindly   time.Time           // when a Remote was last asked to end it though it was not seen
	// when the agent of a Remote told that the app has exited, and it with that; zero: it has not
	quit       time.Time
	parting    string            // the run whose agent, on another host, has said that it ends
	Collecting time.Time         // since when what its app left is being fetched; zero: it is not
	Hindrance  string            // what keeps what a job has left from being kept here, in words; empty: nothing
	Keeping    Attempts          // at keeping what came back of a run; zero: there was none
	Status     control.Status    // the agent's last word; zero while the link is down
	Pulse      culling.Pulse     // what is known of what goes on in it
	Alerts     journal.Alerts    // what its owner is to know of its limits
	Reported   *control.Progress // what its payload has last said of how far it is; nil: nothing
	Journal    journal.Journal
	abort      context.CancelFunc // ends what is being done and may take long; nil when nothing is
	changed    chan struct{}      // closed and replaced at every change
	LogCopy    chan struct{}      // holds one token while a job's log is being copied here
}

// NewEntry returns a workload of which nothing more is known yet.
func NewEntry(w spawner.Workload) *Entry {
	return &Entry{Workload: w, changed: make(chan struct{}), LogCopy: make(chan struct{}, 1)}
}

// Changed returns what closes at the next change of a workload.
func (e *Entry) Changed() <-chan struct{} { return e.changed }
