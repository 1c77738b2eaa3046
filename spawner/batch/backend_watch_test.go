package batch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"slipway/spawner"
)

// TestBackendWatch: each change is told once, none while the queue does not answer, and what changed meanwhile after it does
// again.
func TestBackendWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var jobs []Job
		var down error
		set := func(err error, now ...Job) {
			mu.Lock()
			defer mu.Unlock()
			jobs, down = now, err
		}
		b := inMemory(t, Config{Dir: "/d", PollEvery: 5 * time.Second}, newCluster())
		b.queue = NewQueue(func(context.Context) ([]Job, error) {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(jobs), down
		}, 0)
		waits := spawner.Observation{Existence: spawner.Queued}
		one, two := Job{ID: "j-1", Name: "0.0", Seen: waits}, Job{ID: "j-2", Name: "0.1", Seen: waits}
		runs := Job{ID: "j-1", Name: "0.0", Begun: true, Seen: spawner.Observation{Existence: spawner.Up}}
		set(nil, one, two)
		var told []spawner.ID
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- b.Watch(ctx, func(id spawner.ID) { told = append(told, id) }) }()
		step := func(what string, want ...spawner.ID) {
			t.Helper()
			time.Sleep(6 * time.Second)
			synctest.Wait()
			slices.Sort(told)
			if !slices.Equal(told, want) {
				t.Errorf("%s: told %q, want %q", what, told, want)
			}
			told = nil
		}
		step("at first")
		set(nil, runs, two)
		step("one runs", "j-1")
		step("nothing new")
		set(errors.New("down"))
		step("down")
		set(nil, two)
		step("gone meanwhile", "j-1")
		set(nil)
		step("all gone", "j-2")
		set(nil, one)
		step("a new one", "j-1")
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Watch = %v", err)
		}
	})
}

// TestSlowLooks: who wants to see what there is waits for no more than a look, however slow the queue is.
func TestSlowLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const took = 9 * time.Second
		b := inMemory(t, Config{Dir: "/d", PollEvery: 5 * time.Second}, newCluster())
		b.queue = NewQueue(func(context.Context) ([]Job, error) {
			time.Sleep(took)
			return []Job{{ID: "j-1", Seen: spawner.Observation{Existence: spawner.Queued}}}, nil
		}, MinRest)
		for range 200 {
			begun := time.Now()
			o, err := b.Observe(t.Context(), "j-1")
			if err != nil || o.Existence != spawner.Queued || time.Since(begun) > took {
				t.Fatalf("%+v, %v after %v", o, err, time.Since(begun))
			}
			time.Sleep(700 * time.Millisecond)
		}
	})
}
