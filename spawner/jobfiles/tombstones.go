package jobfiles

import (
	"time"

	"slipway/internal/errs"
	"slipway/spawner"
)

const (
	tombstoneLife  = 90 * 24 * time.Hour // for how long a job is remembered that has expired
	mostTombstones = 100_000             // of how many jobs
)

// Tombstone is what is remembered of a job that was removed because it had expired.
type Tombstone struct {
	Hub     string       `json:"hub"`
	Owner   spawner.User `json:"owner"`
	Scan    string       `json:"scan,omitempty"`
	Ended   time.Time    `json:"ended"`
	Removed time.Time    `json:"removed"`
}

// old reports whether it is not to be remembered any more.
func (t Tombstone) old(now time.Time) bool { return now.Sub(t.Removed) >= tombstoneLife }

// visible reports whether a user may know of it.
func (t Tombstone) visible(c spawner.Caller, id spawner.ID) bool {
	return c.May(spawner.Workload{ID: id, Kind: spawner.Job, Owner: t.Owner, Hub: t.Hub})
}

// gone is the error of what has expired.
func (t Tombstone) gone(what, name string) error {
	const day = "2 January 2006"
	days := int(t.Removed.Sub(t.Ended) / (24 * time.Hour))
	return errs.New(errs.NotFound, "%s %s ended on %s and was removed on %s, %d days after its end, as this site does",
		what, name, t.Ended.Format(day), t.Removed.Format(day), days).
		With("copy what you want to keep of a job before that, or submit it again")
}

// Tombstones are those of jobs, and of scans. Whoever has them sees to locking, and saves them.
type Tombstones struct {
	jobs  map[spawner.ID]Tombstone
	scans map[string]Tombstone // of each, when the last of its jobs ended and was removed
}

// NewTombstones returns none.
func NewTombstones() Tombstones {
	return Tombstones{jobs: map[spawner.ID]Tombstone{}, scans: map[string]Tombstone{}}
}

// Full reports whether there are as many as there may be.
func (t Tombstones) Full() bool { return len(t.jobs) >= mostTombstones }

// Add remembers a job.
func (t Tombstones) Add(id spawner.ID, of Tombstone) {
	t.jobs[id] = of
	if of.Scan == "" {
		return
	}
	if scan := t.scans[of.Scan]; scan.Ended.After(of.Ended) {
		of.Ended = scan.Ended
	}
	if scan := t.scans[of.Scan]; scan.Removed.After(of.Removed) {
		of.Removed = scan.Removed
	}
	t.scans[of.Scan] = of
}

// Old returns the jobs that are not to be remembered any more.
func (t Tombstones) Old(now time.Time) (ids []spawner.ID) {
	for id, of := range t.jobs {
		if of.old(now) {
			ids = append(ids, id)
		}
	}
	return ids
}

// Drop forgets a job, and its scan once all of that is old.
func (t Tombstones) Drop(id spawner.ID, now time.Time) {
	scan := t.jobs[id].Scan
	if delete(t.jobs, id); t.scans[scan].old(now) {
		delete(t.scans, scan)
	}
}

// NoWorkload is the error of a workload that is not there, or not the caller's. Of a job of theirs that has expired it
// says so.
func (t Tombstones) NoWorkload(c spawner.Caller, id spawner.ID) error {
	of, expired := t.jobs[id]
	if !expired || !of.visible(c, id) {
		return errs.New(errs.NotFound, "there is no session or job %q of yours", id).
			With("`slipway sessions` and `slipway jobs` list them")
	}
	return of.gone("job", string(id))
}

// NoScan is the error of a scan that is not there, or not the caller's. Of a scan of theirs that has expired it says
// so.
func (t Tombstones) NoScan(c spawner.Caller, scan string) error {
	of, expired := t.scans[scan]
	if !expired || !of.visible(c, "") {
		return errs.New(errs.NotFound, "there is no scan %.80q of yours", scan).With("`slipway jobs` lists them")
	}
	return of.gone("scan", scan)
}
