package engine

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"slipway/internal/units"
	"slipway/spawner"
)

// What is told of a download: no more than so often, and in steps of so many percent, for a journal holds so much.
const (
	fetchPause = time.Second
	fetchStep  = 2
	fetchWords = "Downloading the "
)

// fetched is how much of its image a run has, in percent.
type fetched struct {
	run     string
	percent int
}

// Fetching tells the owner of a workload that starts on another host how much of its image has come there: so many
// bytes of size. run is which run of it fetches; of one whose place was taken nothing is told. Nothing is saved, and
// what is said too often is not told. As long as more and more of it comes, the start is not given up because its agent
// does not.
func (r *Records) Fetching(id spawner.ID, run string, sent, size int64) {
	if size <= 0 {
		return
	}
	percent := int(min(max(sent, 0), size) * 100 / size)
	if sent < size {
		percent -= percent % fetchStep
	}
	tx := r.Begin()
	defer tx.End()
	e := r.work[id]
	if e == nil || !e.Remote || !e.furnishes() || e.Run() != run {
		return
	}
	text := fmt.Sprintf(
		"%s%s to %s: %d %% of %s", fetchWords, vehicle(e.Workload), cmp.Or(e.Host, "its worker node"), percent,
		units.DiskWords(size),
	)
	last := e.Journal.Latest()
	soon := strings.HasPrefix(last.Message, fetchWords) && time.Since(last.Time) < fetchPause
	if last.Message == text || soon && sent < size {
		return
	}
	if e.fetched.run != run || e.fetched.percent < percent {
		e.fetched = fetched{run, percent}
		if !e.startedAt.IsZero() {
			e.startedAt = time.Now()
		}
	}
	// "Runs on" is before, and the agent comes behind
	tx.Note(e, spawner.Event{Percent: 45 + percent*14/100, Message: text})
}

// vehicle says in what a workload runs, as its owner knows it: the image that she chose, or an environment that was
// frozen.
func vehicle(w spawner.Workload) string {
	if w.Kept == "" && w.Spec.Environment == "" {
		return "image"
	}
	return "environment"
}

// furnishes reports whether a workload may be getting on its host what it needs. A job there counts as running as soon
// as anything of it does, and its agent is heard when that is over.
func (e *Entry) furnishes() bool {
	return e.Phase == spawner.Starting || e.Kind.Batch() && e.Phase == spawner.Running && e.Status.State == ""
}
