package spawnertest_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/spawner"
	. "slipway/spawner/spawnertest"
)

const lab = spawner.ID("s-aaaaaaaaaaaaaaaa")

func launch(id spawner.ID) spawner.Launch {
	kind := spawner.Lab
	if id.OfJob() {
		kind = spawner.Job
	}
	return spawner.Launch{Workload: spawner.Workload{ID: id, Kind: kind}, Report: func(string, int) {}}
}

func TestFakeConforms(t *testing.T) {
	for _, prefix := range []string{"s-", "j-"} {
		t.Run(prefix, func(t *testing.T) {
			var count atomic.Int64
			Run(t, func(*testing.T) Subject {
				f := New(Config{StartTime: 20 * time.Millisecond, StopTime: 5 * time.Millisecond})
				return Subject{
					Backend: f,
					Launch: func(*testing.T) spawner.Launch {
						return launch(spawner.ID(fmt.Sprintf("%s%016d", prefix, count.Add(1))))
					},
					Again: func(*testing.T) spawner.Backend { return f.Again(Config{}) },
					Runs:  func(_ *testing.T, id spawner.ID) int { return f.Runs(id) },
				}
			})
		})
	}
}

func TestPoolConforms(t *testing.T) {
	for _, prefix := range []string{"s-", "j-"} {
		t.Run(prefix, func(t *testing.T) {
			var count atomic.Int64
			Run(t, func(*testing.T) Subject {
				p := NewPool(Config{StartTime: 20 * time.Millisecond, StopTime: 5 * time.Millisecond}, NewCrew())
				next := func(*testing.T) spawner.Launch {
					l := launch(spawner.ID(fmt.Sprintf("%s%016d", prefix, count.Add(1))))
					l.Uplink = &control.Uplink{}
					return l
				}
				return Subject{
					Backend: p, Launch: next, Again: func(*testing.T) spawner.Backend { return p.Again() }, Remote: true,
					Unfit: func(t *testing.T) spawner.Launch { p.Fill(true); return next(t) },
				}
			})
		})
	}
}

func TestStartFaults(t *testing.T) {
	tests := []struct {
		step Step
		want spawner.Existence
	}{{Before, spawner.Absent}, {Halfway, spawner.Created}, {After, spawner.Up}}
	for _, test := range tests {
		f := New(Config{})
		f.Inject(Fault{Op: Start, Step: test.step})
		if err := f.Start(t.Context(), launch(lab)); !errs.Is(err, errs.Unavailable) {
			t.Errorf("step %d: Start = %v, want an unavailable error", test.step, err)
		}
		if o, err := f.Observe(t.Context(), lab); err != nil || o.Existence != test.want {
			t.Errorf("step %d: Observe = %v, %v, want %s", test.step, o, err, test.want)
		}
		if err := f.Start(t.Context(), launch(lab)); err != nil {
			t.Errorf("step %d: second Start = %v", test.step, err)
		}
	}
}

func TestHoldEndsWithContextOrRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(Config{})
		hold := make(chan struct{})
		f.Inject(Fault{Op: Start, Step: Halfway, Times: 2, Hold: hold})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := f.Start(ctx, launch(lab)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("held Start = %v, want the deadline", err)
		}
		done := make(chan error)
		go func() { done <- f.Start(t.Context(), launch(lab)) }()
		synctest.Wait()
		if f.Runs(lab) != 0 {
			t.Error("a held start has gone on")
		}
		close(hold)
		if err := <-done; err != nil {
			t.Errorf("released Start = %v", err)
		}
	})
}

func TestObserveFaults(t *testing.T) {
	f := New(Config{})
	boom := errors.New("boom")
	withdraw := f.Inject(Fault{Op: Observe, ID: lab, Times: Always, Err: boom})
	for range 3 {
		if o, err := f.Observe(t.Context(), lab); !errors.Is(err, boom) || o.Existence != spawner.Unknown {
			t.Errorf("Observe = %v, %v, want unknown and boom", o, err)
		}
	}
	if _, err := f.Observe(t.Context(), "s-other"); err != nil {
		t.Errorf("Observe of another = %v", err)
	}
	withdraw()
	if _, err := f.Observe(t.Context(), lab); err != nil {
		t.Errorf("Observe after withdrawal = %v", err)
	}
}

// TestOldObservation: an answer that was true when the look began, and is late.
func TestOldObservation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(Config{})
		hold := make(chan struct{})
		f.Inject(Fault{Op: Observe, Step: After, Hold: hold})
		seen := make(chan spawner.Observation)
		go func() {
			o, err := f.Observe(t.Context(), lab)
			if err != nil {
				t.Error(err)
			}
			seen <- o
		}()
		synctest.Wait()
		if err := f.Start(t.Context(), launch(lab)); err != nil {
			t.Fatal(err)
		}
		close(hold)
		if o := <-seen; o.Existence != spawner.Absent {
			t.Errorf("late observation = %v, want absent", o)
		}
	})
}

func TestHooksAndEndings(t *testing.T) {
	var started, ended []spawner.ID
	f := New(Config{
		Started: func(l spawner.Launch) { started = append(started, l.ID) },
		Ended:   func(id spawner.ID) { ended = append(ended, id) },
	})
	endings := map[spawner.ID]func(){
		"s-1": func() { f.Exit("s-1", 3) },
		"s-2": func() { f.OutOfMemory("s-2") },
		"s-3": func() { f.Vanish("s-3") },
		"s-4": func() { _ = f.Stop(t.Context(), "s-4", 0) },
	}
	want := []spawner.ID{"s-1", "s-2", "s-3", "s-4"}
	for _, id := range want {
		if err := f.Start(t.Context(), launch(id)); err != nil {
			t.Fatal(err)
		}
		endings[id]()
		endings[id]() // the second time there is nothing to end
	}
	if diff := cmp.Diff(want, started); diff != "" {
		t.Error("started:", diff)
	}
	if diff := cmp.Diff(want, ended); diff != "" {
		t.Error("ended:", diff)
	}
	if o, _ := f.Observe(t.Context(), "s-2"); o.Reason == "" || o.Remedy == "" || o.ExitCode != 137 {
		t.Errorf("out of memory = %+v, want reason, remedy and 137", o)
	}
}

func TestPlant(t *testing.T) {
	f := New(Config{})
	f.Plant(lab, spawner.Observation{Existence: spawner.Up})
	ids, err := f.List(t.Context())
	if diff := cmp.Diff(map[spawner.ID]spawner.Existence{lab: spawner.Up}, ids); err != nil || diff != "" {
		t.Errorf("List: %v %s", err, diff)
	}
	if err := f.Remove(t.Context(), lab); !errs.Is(err, errs.Conflict) {
		t.Errorf("Remove of a running one = %v, want a conflict", err)
	}
	if err := errors.Join(f.Stop(t.Context(), lab, 0), f.Remove(t.Context(), lab)); err != nil {
		t.Error(err)
	}
	if ids, _ := f.List(t.Context()); len(ids) != 0 {
		t.Errorf("List after Remove = %v", ids)
	}
	if got := f.Count(Remove, lab); got != 2 {
		t.Errorf("Count(Remove) = %d, want 2", got)
	}
}

func TestJobRunsOnce(t *testing.T) {
	f := New(Config{})
	l := launch("j-1")
	l.Spec.Env = map[string]string{AgentEnv: ExitWith + "0"}
	if err := f.Start(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	if err := f.Start(t.Context(), l); !errs.Is(err, errs.Conflict) {
		t.Errorf("second Start of an ended job = %v, want a conflict", err)
	}
}
