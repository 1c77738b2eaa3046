package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"slipway/internal/gpu"
	"slipway/internal/store"
	"slipway/internal/testenv"
	"slipway/spawner"
	"slipway/spawner/spawnertest"
	"slipway/spawner/workloads"
)

// LedgerPairs is the environment variable that says how many leases TestLedgerUnderFire is to make; deploy/bench/ledger
// sets it.
const ledgerPairs = "SLIPWAY_LEDGER_PAIRS"

// TestLedgerUnderFire has 64 clients lease and release parts of a GPU through SQLite, and kills the service at random
// steps: no part ever has two owners, and nothing is left.
func TestLedgerUnderFire(t *testing.T) {
	pairs := testenv.Rounds(100, 400)
	if n, err := strconv.Atoi(os.Getenv(ledgerPairs)); err == nil {
		pairs = n
	}
	u := newUnderFire(t, int64(pairs))
	began := time.Now()
	u.run()
	u.close(time.Since(began))
}

// audited is the store, which counts, and looks at each write whether a part gets two owners.
type audited struct {
	*store.Store
	mu                               sync.Mutex
	work                             map[spawner.ID]spawner.Workload
	writes, leases, releases, double int
}

func (a *audited) Put(ctx context.Context, bucket, key string, value any) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.Store.Put(ctx, bucket, key, value); err != nil {
		return err
	}
	if bucket != "workloads" {
		return nil
	}
	w, before := recordOf(value), a.work[spawner.ID(key)]
	a.work[spawner.ID(key)] = w
	a.writes++
	switch {
	case before.Slice == nil && w.Slice != nil:
		a.leases++
	case before.Slice != nil && w.Slice == nil:
		a.releases++
	}
	for id, other := range a.work {
		if id != w.ID && w.Slice != nil && other.Slice != nil && other.Slice.Same(*w.Slice) {
			a.double++
		}
	}
	return nil
}

// recordOf returns the record that is put into the store.
func recordOf(value any) spawner.Workload {
	if w, is := value.(*spawner.Workload); is {
		return *w
	}
	return value.(spawner.Workload)
}

// underFire is a service that is killed again and again while clients use it.
type underFire struct {
	*service
	file    string
	records *audited
	gpus    *spawnertest.GPUs
	pairs   atomic.Int64 // that are still to be asked for
	mu      sync.RWMutex // guards the fields below
	alive   context.Context
	kills   int
}

const clients = 64

func newUnderFire(t *testing.T, pairs int64) *underFire {
	u := &underFire{service: newService(t), file: filepath.Join(t.TempDir(), "records", "slipway.db"), gpus: spawnertest.NewGPUs(7)}
	u.kill()
	u.pairs.Store(pairs)
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	records, err := store.Open(t.Context(), u.file, quiet)
	if err != nil {
		t.Fatal(err)
	}
	u.records = &audited{Store: records, work: map[spawner.ID]spawner.Workload{}}
	lifecycle := spawnertest.Config{Name: "docker", Started: u.crew.ComeUp, Ended: u.crew.GoDown}
	u.sessions = spawnertest.New(lifecycle)
	u.config.Logger, u.config.Capacity = quiet, nil
	u.gpus.Hold(func() []gpu.Lease {
		u.mu.RLock()
		defer u.mu.RUnlock()
		return u.engine.Leases()
	})
	return u
}

// run has all clients at work until all pairs are made, and kills the service meanwhile.
func (u *underFire) run() {
	ctx, done := context.WithCancel(context.Background())
	defer done()
	killed := make(chan struct{})
	u.begin()
	go func() { defer close(killed); u.fire(ctx) }()
	var all sync.WaitGroup
	for n := range clients {
		all.Go(func() { u.client(n) })
	}
	all.Wait()
	done()
	<-killed
}

// begin starts a service that dies within its next steps.
func (u *underFire) begin() {
	u.mu.Lock()
	defer u.mu.Unlock()
	f := &fuse{left: 50 + rand.N(400), after: rand.N(2) == 0, blown: make(chan struct{})}
	u.config.Store, u.config.GPUs = fusedStore{u.records, f}, fusedGPUs{u.gpus, f}
	u.config.Backends = []spawner.Backend{fusedBackend{u.sessions, f}, fusedBackend{u.jobs, f}}
	alive, die := context.WithCancel(context.Background())
	go func() { <-f.blown; die() }()
	u.alive = alive
	u.start()
	killed := u.kill
	u.kill = func() {
		f.mu.Lock()
		if f.dead = true; f.left > 0 {
			f.left = 0
			close(f.blown)
		}
		f.mu.Unlock()
		killed()
	}
}

// fire starts the service again whenever it has died.
func (u *underFire) fire(ctx context.Context) {
	for {
		_, alive := u.now()
		select {
		case <-ctx.Done():
			return
		case <-alive.Done():
			u.kill()
			u.kills++
			u.begin()
		}
	}
}

func (u *underFire) now() (workloads.Workloads, context.Context) {
	u.mu.RLock()
	defer u.mu.RUnlock()
	return u.Workloads, u.alive
}

// client starts and stops a session of its own until all pairs are asked for. What a death of the service takes away is
// repeated.
func (u *underFire) client(n int) {
	for launch := 0; u.pairs.Add(-1) >= 0; launch++ {
		r := onGPU(fmt.Sprint("user", n), fmt.Sprintf("l%d-%d", n, launch))
		var id spawner.ID
		u.repeat(func(ctx context.Context, m workloads.Workloads) error {
			w, err := m.StartSession(ctx, hub, r)
			if id = w.ID; err != nil {
				return err
			}
			_, err = m.Await(ctx, admin, id, func(w spawner.Workload) bool { return w.Phase == spawner.Running || w.Phase == spawner.Stopped })
			return err
		})
		u.repeat(func(ctx context.Context, m workloads.Workloads) error {
			if _, err := m.Stop(ctx, admin, id); err != nil {
				return err
			}
			_, err := m.Await(ctx, admin, id, func(w spawner.Workload) bool { return w.Phase == spawner.Stopped })
			return err
		})
	}
}

func (u *underFire) repeat(call func(context.Context, workloads.Workloads) error) {
	if !testenv.Within(testenv.Hang, func() bool {
		m, alive := u.now()
		return call(alive, m) == nil && alive.Err() == nil
	}) {
		u.t.Error("it never works again")
	}
}

// close looks at what the file has in the end, and says how it went.
func (u *underFire) close(took time.Duration) {
	u.gpus.Reclaim()
	u.kill()
	if err := u.records.Close(); err != nil {
		u.t.Fatal(err)
	}
	a := u.records
	again, err := store.Open(u.t.Context(), u.file, u.config.Logger)
	if err != nil {
		u.t.Fatal(err)
	}
	defer again.Close()
	for r, err := range again.All(u.t.Context(), "workloads") {
		var w spawner.Workload
		if err = json.Unmarshal(r.Value, &w); err != nil || w.Phase != spawner.Stopped || w.Slice != nil {
			u.t.Errorf("%s is %s and holds %v, %v", r.Key, w.Phase, w.Slice, err)
		}
	}
	if used := u.gpus.InUse(); a.double > 0 || a.leases != a.releases || len(used) > 0 {
		u.t.Errorf("%d double leases; %d leases, %d releases; in use %v", a.double, a.leases, a.releases, used)
	}
	for _, f := range u.gpus.Faults() {
		u.t.Error(f)
	}
	u.t.Logf("%d clients, %d leases, %d releases, %d double leases, %d writes, %d kills, %.1f s, %.0f pairs/s",
		clients, a.leases, a.releases, a.double, a.writes, u.kills, took.Seconds(), float64(a.leases)/took.Seconds())
}
