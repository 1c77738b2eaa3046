package engine

import (
	"context"
	"fmt"
	"sync"

	"slipway/spawner"
)

// Update is a change of one workload that somebody asks for. Those of many who ask at once are saved together: each is
// decided as if it had come alone, and what it costs is shared.
type Update struct {
	// Decide says under the lock what is to be changed of which workload. No edit: nothing is, and w is as it stands.
	// revived counts the jobs of each that those who are saved together with it, and came before, make active: the
	// index does not have them yet.
	Decide func(tx Tx, revived map[spawner.Principal]int) (e *Entry, edit func(*Entry), err error)
	After  func(tx Tx, e *Entry) // is done under the lock when the change is saved
	w      spawner.Workload
	err    error
	done   chan struct{}
}

// ballots are those that wait for the lock.
type ballots struct {
	mu   sync.Mutex
	wait []*Update
}

// MostTogether is how many changes are saved together: others have their turn after so many.
const MostTogether = 500

// Update has a change decided and saved, with those that others ask for meanwhile.
func (r *Records) Update(ctx context.Context, b *Update) (spawner.Workload, error) {
	b.done = make(chan struct{})
	r.ballots.mu.Lock()
	r.ballots.wait = append(r.ballots.wait, b)
	first := len(r.ballots.wait) == 1
	r.ballots.mu.Unlock()
	if first { // and does it for all who come before the lock is free
		tx := r.Begin()
		for _, b := range tx.count(ctx) {
			close(b.done)
		}
		tx.End()
	}
	<-b.done
	return r.Vouch(ctx, b.w, b.err)
}

// count decides all that wait, and gives them.
func (tx Tx) count(ctx context.Context) []*Update {
	tx.r.ballots.mu.Lock()
	all := tx.r.ballots.wait
	tx.r.ballots.wait = nil
	tx.r.ballots.mu.Unlock()
	for rest := all; len(rest) > 0; {
		rest = rest[tx.countSome(ctx, rest):]
	}
	return all
}

// countSome decides the first of some, and says how many: none of them rests on what is not saved yet of another.
func (tx Tx) countSome(ctx context.Context, some []*Update) (n int) {
	changes, of := []change{}, []*Update{}
	touched, revived := map[*Entry]bool{}, map[spawner.Principal]int{}
	for _, b := range some[:min(len(some), MostTogether)] {
		e, edit, err := b.Decide(tx, revived)
		if e != nil && touched[e] {
			break
		}
		n++
		if b.err = err; e != nil {
			b.w = e.Workload
		}
		if err != nil || edit == nil {
			continue
		}
		c := e.change(edit)
		changes, of, touched[e] = append(changes, c), append(of, b), true
		if c.w.Kind.Batch() && c.w.Phase.Active() && !e.Phase.Active() {
			revived[c.w.Principal()]++
		}
	}
	err := tx.save(ctx, changes)
	for i, b := range of {
		if b.err = err; err == nil {
			b.w = changes[i].e.Workload
			b.After(tx, changes[i].e)
		}
	}
	return n
}

// change is one that is decided and not made yet.
type change struct {
	e    *Entry
	edit func(*Entry)
	w    spawner.Workload // as it will be
}

// save saves changes of different workloads, all or none, and makes them in memory when that is done.
func (tx Tx) save(ctx context.Context, changes []change) error {
	if len(changes) == 0 {
		return nil
	}
	ctx = context.WithoutCancel(ctx) // a change that was begun is saved also when its caller has gone
	err := tx.r.mu.save(func() error {
		if len(changes) == 1 {
			return tx.r.store.Put(ctx, bucket, string(changes[0].e.ID), changes[0].w)
		}
		records := make(map[string]any, len(changes))
		for _, c := range changes {
			records[string(c.e.ID)] = c.w
		}
		return tx.r.store.PutAll(ctx, bucket, records)
	})
	if err != nil && len(changes) == 1 {
		return fmt.Errorf("save %s: %w", changes[0].e.ID, err)
	} else if err != nil {
		return fmt.Errorf("save %d changes: %w", len(changes), err)
	}
	for _, c := range changes {
		tx.apply(c)
	}
	return nil
}
