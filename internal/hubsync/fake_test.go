package hubsync

import (
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway/hubapi/hub"
	"slipway/internal/clock"
	"slipway/internal/errs"
	"slipway/internal/secret"
	"slipway/internal/testenv"
	"slipway/spawner"
)

// down is the error of a Hub that does not answer.
func down() error { return errs.New(errs.Unavailable, "the Hub does not answer") }

// posted is one thing that a Hub was told.
type posted struct {
	At    time.Duration // since it began to listen
	User  string
	Name  string // of the server
	Stamp time.Time
	Event hub.Event
	Token string
	JSON  string // of flavors
}

// fakeHub notes what it is told. fault, when set, decides first.
type fakeHub struct {
	mu    sync.Mutex // guards what follows
	born  time.Time
	tries int
	told  []posted
	users []hub.User
	group []hub.Group
	fault func(p posted) error
	slow  time.Duration // each answer takes
	busy  int           // calls under way
	most  int           // of them at once
}

func newFakeHub() *fakeHub { return &fakeHub{born: time.Now()} }

func (f *fakeHub) note(ctx context.Context, all ...posted) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tries++
	f.busy++
	f.most = max(f.most, f.busy)
	slow := f.slow
	f.mu.Unlock()
	gone := !clock.Sleep(ctx, slow)
	f.mu.Lock()
	if f.busy--; gone {
		return ctx.Err()
	}
	for i := range all {
		all[i].At = time.Since(f.born)
		if f.fault == nil {
			continue
		}
		if err := f.fault(all[i]); err != nil {
			return err
		}
	}
	f.told = append(f.told, all...)
	return nil
}

func (f *fakeHub) Users(ctx context.Context) ([]hub.User, error) {
	if err := f.note(ctx, posted{}); err != nil {
		return nil, err
	}
	return f.users, nil
}

func (f *fakeHub) Groups(ctx context.Context) ([]hub.Group, error) {
	if err := f.note(ctx, posted{}); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.group, nil
}

func (f *fakeHub) PostActivity(ctx context.Context, user string, servers map[string]time.Time) error {
	var all []posted
	for name, at := range servers {
		all = append(all, posted{User: user, Name: name, Stamp: at})
	}
	return f.note(ctx, all...)
}

func (f *fakeHub) PostEvent(ctx context.Context, user, server string, token secret.Text, e hub.Event) error {
	return f.note(ctx, posted{User: user, Name: server, Event: e, Token: token.Reveal()})
}

func (f *fakeHub) PostFlavors(ctx context.Context, address string, flavors any) error {
	b, err := json.Marshal(flavors)
	if err != nil {
		return err
	}
	return f.note(ctx, posted{Name: address, JSON: string(b)})
}

func (f *fakeHub) set(fault func(posted) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

func (f *fakeHub) tried() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tries
}

// busiest returns how many calls were under way at once, at most.
func (f *fakeHub) busiest() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.most
}

func (f *fakeHub) all() []posted {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]posted(nil), f.told...)
}

// fakeEngine has what a test puts into it.
type fakeEngine struct {
	mu      sync.Mutex // guards what follows
	work    spawner.Workload
	active  []spawner.ActiveSession
	rosters []spawner.Roster
	events  chan spawner.Event // nil: the launch is not known
	open    int                // readers of events
}

func (e *fakeEngine) Get(context.Context, spawner.Caller, spawner.ID) (spawner.Workload, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.work, nil
}

func (e *fakeEngine) Events(ctx context.Context, c spawner.Caller, _ spawner.ID, _ string, after int64) (iter.Seq[spawner.Event], error) {
	if e.events == nil || !c.System || after != 0 {
		return nil, errs.New(errs.NotFound, "no such launch")
	}
	return func(yield func(spawner.Event) bool) {
		e.mu.Lock()
		e.open++
		e.mu.Unlock()
		defer func() { e.mu.Lock(); e.open--; e.mu.Unlock() }()
		for {
			select {
			case <-ctx.Done():
				return
			case ev, more := <-e.events:
				if !more || !yield(ev) || ev.Final {
					return
				}
			}
		}
	}, nil
}

func (e *fakeEngine) LastActive(string) []spawner.ActiveSession {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]spawner.ActiveSession(nil), e.active...)
}

func (e *fakeEngine) ReconcileHub(_ context.Context, r spawner.Roster) (spawner.HubReconcileReport, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rosters = append(e.rosters, r)
	return spawner.HubReconcileReport{Strangers: 1}, nil
}

func (e *fakeEngine) reconciled() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.rosters)
}

func (e *fakeEngine) acts(user, name string, at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, a := range e.active {
		if string(a.User) == user && a.Name == name {
			e.active[i].Active = at
			return
		}
	}
	e.active = append(e.active, spawner.ActiveSession{User: spawner.User(user), Name: name, Active: at})
}

// notes is a log that can be read while it is written.
type notes struct{ testenv.Buffer }

func (n *notes) count(word string) int { return strings.Count(n.String(), word) }

func (n *notes) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(n, &slog.HandlerOptions{Level: slog.LevelInfo}))
}

// running runs a Syncer for the rest of the test's bubble.
func running(t *testing.T, cfg Config) *notes {
	t.Helper()
	log := &notes{}
	cfg.Name, cfg.Logger = "main", log.logger()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- New(cfg).Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return log
}
