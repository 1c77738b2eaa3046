package engine

import (
	"context"
	"iter"
	"maps"
	"time"

	"slipway/spawner"
	"slipway/spawner/jobfiles"
	"slipway/spawner/sched"
)

// View is what may be read while the lock is held for it. It must not outlive the function that began it.
type View struct{ r *Records }

// Tx is a View in which records are changed too: each change is decided and saved before the next one is decided. It is
// the one way to change a record.
type Tx struct{ View }

// View waits until nothing changes in memory. The caller ends it, and asks the Manager nothing meanwhile.
func (r *Records) View() View {
	r.mu.RLock()
	return View{r}
}

// End lets others change what was looked at.
func (v View) End() { v.r.mu.RUnlock() }

// Begin waits for the turn to change records. The caller ends it, and asks the Manager nothing meanwhile.
func (r *Records) Begin() Tx {
	r.mu.Lock()
	return Tx{View{r}}
}

// End ends the turn.
func (tx Tx) End() { tx.r.mu.Unlock() }

// Sched returns the scheduler, which asks nobody for the lock.
func (v View) Sched() *sched.Scheduler { return v.r.sched }

// Entry returns a workload, whosever it is; nil: there is none.
func (v View) Entry(id spawner.ID) *Entry { return v.r.work[id] }

// Unchanged returns a workload that was read as e; nil: it is gone, or its record has changed since.
func (v View) Unchanged(e Entry) *Entry {
	if now := v.r.work[e.ID]; now != nil && now.Rev == e.Rev {
		return now
	}
	return nil
}

// All returns all workloads, in no order.
func (v View) All() iter.Seq2[spawner.ID, *Entry] { return maps.All(v.r.work) }

// OfKind returns all workloads of a kind, in no order.
func (v View) OfKind(k spawner.Kind) iter.Seq2[spawner.ID, *Entry] { return ofKind(v.r.work, k) }

// OwnedOfKind returns a user's workloads of a kind, in no order.
func (v View) OwnedOfKind(o spawner.Principal, k spawner.Kind) iter.Seq2[spawner.ID, *Entry] {
	return ofKind(v.r.index.owned[o], k)
}

func ofKind(all map[spawner.ID]*Entry, k spawner.Kind) iter.Seq2[spawner.ID, *Entry] {
	return func(yield func(spawner.ID, *Entry) bool) {
		for id, e := range all {
			if e.Kind == k && !yield(id, e) {
				return
			}
		}
	}
}

// Server returns one of a user's sessions of a server name that matches; nil: there is none.
func (v View) Server(hub string, user spawner.User, name string, match func(*Entry) bool) *Entry {
	return v.r.index.server(hub, user, name, match)
}

// ByPrefix returns the active session of a hub with a path; nil: there is none.
func (v View) ByPrefix(hub, prefix string) *Entry {
	return v.r.work[v.r.index.routes[route{hub, prefix}]]
}

// Owned returns a user's workloads, in no order.
func (v View) Owned(o spawner.Principal) map[spawner.ID]*Entry { return v.r.index.owned[o] }

// Insert saves new workloads, all or none, and takes them into memory. Then it has each seen to.
func (tx Tx) Insert(ctx context.Context, list []spawner.Workload, each func(*Entry)) error {
	records := make(map[string]any, len(list))
	for i := range list {
		list[i].Turn, list[i].Rev = tx.r.sched.NextTurn(), 1
		records[string(list[i].ID)] = &list[i] // a copy of each would be as much memory again
	}
	err := tx.r.mu.save(func() error { return tx.r.store.PutAll(context.WithoutCancel(ctx), bucket, records) })
	if err != nil {
		return err
	}
	for _, w := range list {
		e := NewEntry(w)
		tx.entered(spawner.Workload{}, e)
		each(e)
	}
	return nil
}

// Reopen has no event of a workload so far be final: it begins anew.
func (tx Tx) Reopen(e *Entry) { e.Journal.Reopen() }

// ScanEnd reports whether some points of a scan have not ended, and returns the latest end of one there is, or was.
func (v View) ScanEnd(scan string) (active bool, ended time.Time) {
	s := v.r.index.stays[scan]
	return s.active > 0, s.ended
}

// Tombstones are what is remembered of jobs that have expired.
func (v View) Tombstones() jobfiles.Tombstones { return v.r.tombstones }

// NewestRecord returns the newest time on record when the service began.
func (v View) NewestRecord() time.Time { return v.r.newest }

// Records returns what the store has in a bucket.
func (v View) Records(ctx context.Context, bucket string) iter.Seq2[Record, error] {
	return v.r.store.All(ctx, bucket)
}

// Put saves a record that is none of a workload. Readers go on meanwhile.
func (tx Tx) Put(ctx context.Context, bucket, key string, value any) error {
	return tx.r.mu.save(func() error { return tx.r.store.Put(ctx, bucket, key, value) })
}

// Delete drops a record.
func (tx Tx) Delete(ctx context.Context, bucket, key string) error {
	return tx.r.mu.save(func() error { return tx.r.store.Delete(ctx, bucket, key) })
}

// JobsOfBundle returns how many jobs have some input files.
func (v View) JobsOfBundle(b spawner.ID) int { return v.r.index.bundles[b] }

// HoldBundle says that input files are needed by a submission that is under way.
func (tx Tx) HoldBundle(b spawner.ID) { tx.r.held[b]++ }

// ReleaseBundle ends what HoldBundle has begun.
func (tx Tx) ReleaseBundle(b spawner.ID) {
	if tx.r.held[b]--; tx.r.held[b] <= 0 {
		delete(tx.r.held, b)
	}
}

// CountStrangers notes how many sessions of a hub it has not known twice.
func (tx Tx) CountStrangers(hub string, n int) { tx.r.counters.strange[hub] = n }

// CountRefused counts jobs that were refused, by reason.
func (tx Tx) CountRefused(why string) { tx.r.counters.refused[why]++ }

// SaveActivity saves what memory has already: who is in a session is there also when the disk is full.
func (tx Tx) SaveActivity(ctx context.Context, e *Entry, now time.Time) {
	e.Pulse.Saved = now
	if err := tx.Change(ctx, e, func(*Entry) {}); err != nil {
		tx.r.log.Warn("cannot save that a session is used", "id", e.ID, "err", err)
	}
}

// Overrun returns why a session is to end that has gone beyond a limit; nil: it has not.
func (e *Entry) Overrun() *spawner.Alert {
	if e.Alerts.Launch != e.Launch {
		return nil
	}
	return e.Alerts.Over
}
