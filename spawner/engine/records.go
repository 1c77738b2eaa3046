package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"time"

	"slipway/internal/clock"
	"slipway/spawner"
	"slipway/spawner/backends"
	"slipway/spawner/jobfiles"
	"slipway/spawner/sched"
	"slipway/spawner/workqueue"
)

// Store keeps records over restarts of the service. internal/store has it.
type Store interface {
	// Put and Delete are quick, in order, and outlive the service; a crash of the host they outlive once Sync has
	// returned.
	Put(ctx context.Context, bucket, key string, value any) error
	Delete(ctx context.Context, bucket, key string) error
	All(ctx context.Context, bucket string) iter.Seq2[Record, error]
	// PutAll is many Puts, of which all are done or none.
	PutAll(ctx context.Context, bucket string, values map[string]any) error
	// Sync makes all that was written before it safe. Any number may wait for it at once.
	Sync(ctx context.Context) error
}

// Record is one key and its JSON value.
type Record = struct {
	Key   string
	Value json.RawMessage
}

// Sealer makes secrets fit to lie in the store, and opens them again after a restart; purpose must be the same both
// times. secret.Box is one.
type Sealer interface {
	Seal(plain []byte, purpose string) []byte
	Open(sealed []byte, purpose string) ([]byte, error)
}

// bucket is that of the store in which workloads are.
const bucket = "workloads"

// Records are what is known of all workloads, in the store and in memory, and the one lock over it. They decide nothing
// and start nothing: whoever changes a record has the workload looked at.
type Records struct {
	*kinds
	store    Store
	sealer   Sealer
	backends backends.Backends
	lend     Lend
	queue    *workqueue.Queue // of those that are to be looked at
	log      *slog.Logger
	ballots  ballots // has a lock of its own

	mu         lock // guards all below, and the entries
	work       map[spawner.ID]*Entry
	index      index
	sched      *sched.Scheduler
	held       map[spawner.ID]int  // bundles that submissions have that are under way
	tombstones jobfiles.Tombstones // of jobs that were removed because their time was over
	newest     time.Time           // on record when the service began
	counters   counters
}

func newRecords(cfg Config, site backends.Backends) *Records {
	r := &Records{
		kinds: &kinds{of: map[spawner.Kind]*Kind{}}, store: cfg.Store, sealer: cfg.Sealer, backends: site,
		lend: cfg.Lend, queue: workqueue.New(), log: cfg.Logger, work: map[spawner.ID]*Entry{}, index: newIndex(),
		held: map[spawner.ID]int{}, tombstones: jobfiles.NewTombstones(), counters: newCounters(),
	}
	c := sched.Config{
		Capacity: cfg.Capacity, Remote: site.Remotes(), SessionsFirst: cfg.SessionsFirst,
	}
	if cfg.GPUs != nil { // an interface that holds nil is not nil
		c.GPUs = cfg.GPUs
	}
	if cfg.Lend.On && cfg.Lend.Idle != nil {
		c.Lends = func(id spawner.ID) bool { return View{r}.lends(id) } // who asks the scheduler holds the lock
	}
	r.sched = sched.New(c)
	return r
}

// read takes the records into memory. It returns what has ended on this host.
func (r *Records) read(ctx context.Context) (ended []spawner.Workload, err error) {
	tx := r.Begin()
	defer tx.End()
	for one, err := range r.store.All(ctx, bucket) {
		if err != nil {
			return nil, fmt.Errorf("read the workloads: %w", err)
		}
		var w spawner.Workload
		if err := json.Unmarshal(one.Value, &w); err != nil {
			return nil, fmt.Errorf("read workload %s: %w", one.Key, err)
		}
		tx.recall(tx.admit(w))
		r.newest = clock.Latest(r.newest, w.Since)
		if w.Outcome != nil && !w.Up.IsZero() && !w.Remote {
			ended = append(ended, w)
		}
	}
	return ended, nil
}

// admit takes a workload into memory.
func (tx Tx) admit(w spawner.Workload) *Entry {
	e := NewEntry(w)
	e.Secrets = tx.r.unseal(w)
	tx.r.work[w.ID] = e
	tx.book(spawner.Workload{}, e)
	return e
}

// book makes the index and the scheduler agree with a workload, which was before until now. It reports whether
// somebody who waits may go now.
func (tx Tx) book(before spawner.Workload, e *Entry) (wake bool) {
	tx.r.index.put(before, e)
	look, wake := tx.r.sched.Put(before, &e.Workload, time.Now())
	for _, id := range look {
		tx.r.queue.Add(id)
	}
	return wake
}

// Change saves a change of a workload and makes it known. The change is refused (false) when the workload is gone or
// its record is not as in e any more: what was decided on an older record does not overrule a newer one. Nothing
// changes when it cannot be saved.
func (r *Records) Change(ctx context.Context, e Entry, edit func(*Entry)) (bool, error) {
	tx := r.Begin()
	defer tx.End()
	now := tx.Unchanged(e)
	if now == nil {
		return false, nil
	}
	return true, tx.Change(ctx, now, edit)
}

// Change saves a change, and makes it in memory when that is done. Readers go on meanwhile; see lock.
func (tx Tx) Change(ctx context.Context, e *Entry, edit func(*Entry)) error {
	return tx.save(ctx, []change{e.change(edit)})
}

// ChangeAll is Change of some different workloads: all or none.
func (tx Tx) ChangeAll(ctx context.Context, list []*Entry, edit func(*Entry)) error {
	changes := make([]change, len(list))
	for i, e := range list {
		changes[i] = e.change(edit)
	}
	return tx.save(ctx, changes)
}

// change returns a change of e that is decided.
func (e *Entry) change(edit func(*Entry)) change {
	next := *e
	edit(&next)
	next.Rev++
	if next.Phase != e.Phase {
		next.Since = time.Now()
	}
	return change{e, edit, next.Workload}
}

// apply makes a change that was saved. What else is known of the workload may have changed with others that were
// saved with it.
func (tx Tx) apply(c change) {
	e, next, before := c.e, *c.e, c.e.Workload
	c.edit(&next)
	next.Workload = c.w
	if tx.r.work[e.ID] == nil {
		before = spawner.Workload{}
	}
	if e.Phase != next.Phase {
		tx.r.log.Info(
			"workload", "id", e.ID, "hub", e.Hub, "owner", e.Owner, "from", e.Phase, "to", next.Phase, "want",
			next.Want,
		)
	}
	*e = next
	tx.entered(before, e)
}

// entered makes a change that was saved known: of a workload that was before until now, and the zero Workload if
// it is new.
func (tx Tx) entered(before spawner.Workload, e *Entry) {
	tx.r.work[e.ID] = e
	wake := tx.book(before, e)
	tx.Announce(e)
	if tx.r.queue.Add(e.ID); wake {
		tx.wakeHeads()
	}
}

// Announce lets all that wait on a workload look again.
func (tx Tx) Announce(e *Entry) {
	close(e.changed)
	e.changed = make(chan struct{})
}

// wakeHeads has a look at whoever is next in a line: room of one kind may be what another line waits for.
func (v View) wakeHeads() {
	for _, id := range v.r.sched.Heads() {
		v.r.queue.Add(id)
	}
}

// Note writes an event into a workload's journal.
func (tx Tx) Note(e *Entry, ev spawner.Event) {
	ev.Launch = e.Launch
	if ev.Time.IsZero() {
		ev.Time = time.Now()
	}
	e.Journal.Note(ev)
	tx.Announce(e)
}

func (r *Records) note(id spawner.ID, ev spawner.Event) {
	tx := r.Begin()
	defer tx.End()
	if e := r.work[id]; e != nil {
		tx.Note(e, ev)
	}
}

// Wake asks for a look at a workload now; backends that hear of changes call it.
func (r *Records) Wake(id spawner.ID) { r.queue.Add(id) }
