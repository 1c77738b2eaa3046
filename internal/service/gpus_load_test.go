package service

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"slipway/internal/gpu"
	"slipway/internal/gpu/fleet"
	"slipway/internal/store"
	"slipway/spawner"
	"slipway/spawner/engine"
	"slipway/spawner/spawnertest"
	"slipway/spawner/workloads"
)

// The load: a site of 72 GPUs, all of them given out, and a queue that somebody has filled with jobs that would borrow.
const (
	loadGPUs    = 72
	loadHeld    = 7 * loadGPUs
	loadWaiting = 1000
)

// blind is a backend that never answers what there is, so that nothing becomes of the workloads that a test makes up.
type blind struct{ *spawnertest.Fake }

func (blind) Observe(context.Context, spawner.ID) (spawner.Observation, error) {
	return spawner.Observation{}, fmt.Errorf("it does not answer")
}

func (blind) List(context.Context) (map[spawner.ID]spawner.Existence, error) {
	return nil, fmt.Errorf("it does not answer")
}

// loaded is an engine and a fleet under that load.
func loaded(t testing.TB) (*engine.Manager, *fleet.Fleet) {
	t.Helper()
	s := newGPUSite(t, slices.Repeat([]string{"H200/mig"}, loadGPUs), fleet.Rule{Match: "*", Mode: gpu.MIG})
	fill(t, s.records, s.gpus)
	s.start(t, engine.Config{
		Backends: []spawner.Backend{blind{spawnertest.New(spawnertest.Config{Name: "docker"})}},
		Agents:   spawnertest.NewCrew(), Interval: 50 * time.Millisecond,
		Account: func(context.Context, string, spawner.User) (spawner.Account, error) { return spawner.Account{}, nil },
		// The worst that can be: each session is asked about, and none lends.
		Lend: engine.Lend{
			On: true, After: time.Nanosecond, Recall: time.Minute,
			Idle: func(string, gpu.Slice) (time.Time, bool) { return time.Time{}, false },
		},
	})
	return s.engine, s.gpus
}

// fill puts the load into the store, as an earlier run of the service would have left it.
func fill(t testing.TB, records *store.Store, gpus *fleet.Fleet) {
	t.Helper()
	want, held := gpu.Request{Mode: gpu.MIG, Profile: "1g.18gb"}, []gpu.Slice{}
	put := func(w spawner.Workload) {
		if err := records.Put(t.Context(), "workloads", string(w.ID), w); err != nil {
			t.Fatal(err)
		}
	}
	for i := range loadHeld {
		s, lacks := gpus.Place(want, held)
		if lacks != "" {
			t.Fatal(lacks)
		}
		held = append(held, s)
		put(spawner.Workload{
			ID: spawner.ID(fmt.Sprintf("s-%016d", i)), Kind: spawner.Lab, Owner: spawner.User(fmt.Sprint("user", i)),
			Hub: "main", Backend: "docker", Launch: fmt.Sprint("l", i),
			Want: spawner.WantRunning, Phase: spawner.Running, LeaseRecord: spawner.LeaseRecord{Slice: &s},
			Spec: spawner.Spec{GPU: want, SessionSpec: spawner.SessionSpec{Prefix: fmt.Sprintf("/user/user%d/", i)}},
			Up:   time.Now().Add(-time.Hour),
		})
	}
	for i := range loadWaiting { // of a size that is not there
		put(spawner.Workload{
			ID: spawner.ID(fmt.Sprintf("j-%016d", i)), Kind: spawner.Job, Owner: "mallory", Hub: "main",
			Backend: "docker", Launch: fmt.Sprint("j", i), Turn: int64(i + 1),
			Want: spawner.WantRunning, Phase: spawner.Pending,
			Spec: spawner.Spec{
				GPU:     gpu.Request{Mode: gpu.MIG, Profile: "1g.18gb", Model: []string{"", "h200"}[i%2]},
				JobSpec: spawner.JobSpec{Preemptible: true},
			},
		})
	}
}

// mostMedian tells what grows with the square of the load from what does not, also with the race detector and beside
// other tests. Alone on two processors the medians are below 2 ms and the 99th percentiles below 10.
const mostMedian = 50 * time.Millisecond

// TestRequestsUnderLoad: however many wait, and however many slices are out, who asks for something is answered at
// once.
func TestRequestsUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes two seconds of both processors")
	}
	manager, gpus := loaded(t)
	all, err := workloads.New(t.Context(), manager, workloads.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = manager.Run(ctx) }()
	defer func() { end(); <-done }()
	someone := spawner.Caller{User: "user7", Hub: "main"}
	requests := map[string]func(){
		"get":   func() { _, _ = manager.Get(ctx, someone, "s-0000000000000007") },
		"list":  func() { _, _ = manager.List(ctx, someone) },
		"route": func() { manager.Route("main", "/user/user7/api") },
		"visit": func() { all.Visit("s-0000000000000007", true) },
		"queue": func() {
			w, _ := manager.Get(
				ctx, spawner.Caller{System: true}, "j-0000000000000000",
			)
			all.Queue(w)
		},
		"room":      func() { all.Room("", spawner.Resources{}, gpu.Request{Mode: gpu.MIG, Profile: "1g.18gb"}) },
		"leases":    func() { manager.Leases() },
		"inventory": func() { gpus.Inventory() },
		"changed":   manager.GPUsChanged,
	}
	for name, request := range requests {
		var took []time.Duration
		for range 200 {
			begun := time.Now()
			request()
			took = append(took, time.Since(begun))
		}
		slices.Sort(took)
		median, p99 := took[len(took)/2], took[len(took)*99/100]
		t.Logf("%-10s median %8s, p99 %8s", name, median, p99)
		if median > mostMedian {
			t.Errorf("%s: median %s", name, median)
		}
	}
}
