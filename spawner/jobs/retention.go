package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"slipway/internal/clock"
	"slipway/spawner"
	"slipway/spawner/engine"
	"slipway/spawner/jobfiles"
)

// The store's buckets of what is remembered of jobs that were removed because they had expired, and of what is known
// of the clock of this host.
const (
	tombstones = "expired"
	clocks     = "clock"
)

const (
	mostExpired = 100 // jobs that one resync removes: where the clock is wrong there is time to see it
	tidyEvery   = time.Hour
	noteEvery   = 10 * time.Minute
)

// retention removes what has had its time. It belongs to Resynced alone.
type retention struct {
	born   time.Time
	before clock.Note // what was known of the clock when the service began
	clock  clock.Trust
	noted  time.Duration // when the service had been up so long, what is known of the clock was last saved; 0: never
	tidy   time.Duration // when the service had been up so long, what is not looked at each time was last
	// tidied: it was, since the service began: one that is started anew each hour clears away as well.
	tidied bool
}

// tidy removes jobs that ended long ago, what is remembered of such jobs, and files that no job has.
func (j *Jobs) tidy(ctx context.Context) {
	k := &j.retention
	up, now := time.Since(k.born), time.Now()
	believed := k.clock.Look(now.Round(0), up, k.before)
	j.noteClock(ctx, up)
	if believed {
		j.expireJobs(ctx, now)
	}
	j.engine.JobFiles().ExpireBundles(up)
	if k.tidied && up-k.tidy < tidyEvery {
		return
	}
	k.tidied, k.tidy = true, up
	j.engine.JobFiles().ExpireBlobs(now)
	if believed {
		j.dropTombstones(ctx, now)
	}
}

func (j *Jobs) expireJobs(ctx context.Context, now time.Time) {
	for _, id := range j.overdue(now) {
		if err := j.expire(ctx, id, now); err != nil {
			j.log.Warn("cannot remove a job whose time is over", "id", id, "err", err)
			return
		}
	}
}

// overdue returns some of the jobs that are to be removed.
func (j *Jobs) overdue(now time.Time) (ids []spawner.ID) {
	if j.cfg.Retention == 0 {
		return nil
	}
	v := j.engine.View()
	defer v.End()
	for id, e := range v.All() {
		if len(ids) < mostExpired && j.isOverdue(v, e, now) {
			ids = append(ids, id)
		}
	}
	return ids
}

func (j *Jobs) isOverdue(v engine.View, e *engine.Entry, now time.Time) bool {
	at := j.expires(v, &e.Workload)
	return !at.IsZero() && now.After(at) && e.Want != spawner.WantGone
}

// Expires returns when a job is removed with its files; zero: it has not ended, or never. A point of a scan stays as
// long as the last of them.
func (j *Jobs) Expires(w spawner.Workload) time.Time {
	v := j.engine.View()
	defer v.End()
	return j.expires(v, &w)
}

func (j *Jobs) expires(v engine.View, w *spawner.Workload) time.Time {
	active, ended := v.ScanEnd(w.Scan)
	return jobfiles.Expires(w, active, ended, j.cfg.Retention)
}

// expire removes a job, and has it remembered.
func (j *Jobs) expire(ctx context.Context, id spawner.ID, now time.Time) error {
	tx := j.engine.Begin()
	defer tx.End()
	e := tx.Entry(id)
	if e == nil || !j.isOverdue(tx.View, e, now) { // tried again meanwhile
		return nil
	}
	t := jobfiles.Tombstone{Hub: e.Hub, Owner: e.Owner, Scan: e.Scan, Ended: e.Outcome.At, Removed: now}
	if !tx.Tombstones().Full() {
		if err := tx.Put(ctx, tombstones, string(id), t); err != nil {
			return err
		}
		tx.Tombstones().Add(id, t)
	}
	return tx.Change(ctx, e, func(e *engine.Entry) { e.Want = spawner.WantGone })
}

// readTombstones reads what is remembered.
func (j *Jobs) readTombstones(ctx context.Context) error {
	tx := j.engine.Begin()
	defer tx.End()
	for r, err := range tx.Records(ctx, tombstones) {
		if err != nil {
			return fmt.Errorf("read which jobs were removed: %w", err)
		}
		var t jobfiles.Tombstone
		if err := json.Unmarshal(r.Value, &t); err != nil {
			j.log.Warn("what is remembered of a job cannot be read", "id", r.Key, "err", err)
			continue
		}
		tx.Tombstones().Add(spawner.ID(r.Key), t)
	}
	return nil
}

func (j *Jobs) dropTombstones(ctx context.Context, now time.Time) {
	tx := j.engine.Begin()
	defer tx.End()
	for _, id := range tx.Tombstones().Old(now) {
		if err := tx.Delete(ctx, tombstones, string(id)); err != nil {
			j.log.Warn("cannot forget a job that was removed", "id", id, "err", err)
			return
		}
		tx.Tombstones().Drop(id, now)
	}
}

// noteClock saves what is known of the clock: at the start, when it has jumped, and from time to time.
func (j *Jobs) noteClock(ctx context.Context, up time.Duration) {
	k := &j.retention
	if k.noted > 0 && up-k.noted < noteEvery && k.clock.EvenSince() <= k.noted {
		return
	}
	tx := j.engine.Begin()
	defer tx.End()
	if err := tx.Put(ctx, clocks, clocks, k.clock.Note()); err != nil {
		j.log.Warn("cannot save what is known of the clock", "err", err)
		return
	}
	k.noted = max(up, 1)
}

// readClock reads what the run before has left; after one that has left nothing, the newest time on record is the last
// look.
func (j *Jobs) readClock(ctx context.Context) error {
	v := j.engine.View()
	defer v.End()
	j.retention.before = clock.Note{Seen: v.NewestRecord()}
	for r, err := range v.Records(ctx, clocks) {
		if err != nil {
			return fmt.Errorf("read what is known of the clock: %w", err)
		}
		if err := json.Unmarshal(r.Value, &j.retention.before); err != nil {
			j.log.Warn("what is known of the clock cannot be read", "err", err)
			j.retention.before = clock.Doubtful()
		}
	}
	return nil
}
