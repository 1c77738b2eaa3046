package engine

import (
	"cmp"
	"time"

	"slipway/spawner"
	"slipway/spawner/journal"
	"slipway/spawner/place"
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
	tx := r.Begin()
	defer tx.End()
	e := r.work[id]
	if size <= 0 || e == nil || !e.Remote || !e.furnishes() || e.Run() != run {
		return
	}
	d := journal.Download{What: place.Software(&e.Workload), Host: cmp.Or(e.Host, "its worker node"), Sent: sent, Size: size}
	event, news := e.Journal.Downloading(d, time.Now())
	if !news {
		return
	}
	if now := (fetched{run, d.Percent()}); e.fetched.run != run || e.fetched.percent < now.percent {
		e.fetched = now
		if !e.startedAt.IsZero() {
			e.startedAt = time.Now()
		}
	}
	tx.Note(e, event)
}

// furnishes reports whether a workload may be getting on its host what it needs. A job there counts as running as soon
// as anything of it does, and its agent is heard when that is over.
func (e *Entry) furnishes() bool {
	return e.Phase == spawner.Starting || e.Kind.Batch() && e.Phase == spawner.Running && e.Status.State == ""
}
