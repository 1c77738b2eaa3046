package htcondor

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"slipway/spawner"
)

// TestLooksRest: between two looks there is a rest, also for who must know it anew, and a longer one after a long look.
func TestLooksRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		took, down := 10*time.Millisecond, error(nil)
		var begun []time.Time
		q := newQueue(func(context.Context) ([]job, error) {
			begun = append(begun, time.Now())
			time.Sleep(took)
			return nil, down
		}, lookRest)
		look := func(what string, want time.Duration) {
			t.Helper()
			begun = nil
			for range 5 {
				if _, err := q.since(t.Context(), time.Now()); !errors.Is(err, down) {
					t.Errorf("%s: %v", what, err)
				}
			}
			for i := range begun[1:] {
				if got := begun[i+1].Sub(begun[i]); got != want {
					t.Errorf("%s: a look follows another after %v, want %v", what, got, want)
				}
			}
		}
		look("quick", took+lookRest)
		down = errors.New("down")
		look("quickly refused", took+lookRest)
		took, down = time.Second, nil
		look("slow", took+lookFactor*took)
		took = time.Minute
		look("very slow", took+mostRest)
		before := len(begun)
		time.Sleep(time.Second)
		var wg sync.WaitGroup
		for range 100 { // while the next may not begin yet
			wg.Go(func() {
				if _, err := q.since(t.Context(), time.Now()); err != nil {
					t.Error(err)
				}
			})
			time.Sleep(time.Millisecond)
		}
		wg.Wait()
		if len(begun) != before+1 {
			t.Errorf("%d looks", len(begun)-before)
		}
	})
}

// TestSlowLooks: who wants to see what there is waits for no more than a look, however slow the queue is.
func TestSlowLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const took = 9 * time.Second
		b := inMemory(t, Config{Dir: "/d", PollEvery: 5 * time.Second}, nil)
		b.queue = newQueue(func(context.Context) ([]job, error) {
			time.Sleep(took)
			return []job{{ID: "j-1", Status: idle}}, nil
		}, lookRest)
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

// TestLeaveLook: who does not wait any more leaves at once; the look goes on for the others, until it is ended for all.
func TestLeaveLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(func(ctx context.Context) ([]job, error) {
			if !pause(ctx, time.Minute) {
				return nil, ctx.Err()
			}
			return []job{{ID: "j-1"}}, nil
		}, 0)
		leader, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			begun := time.Now()
			if s, err := q.since(leader, begun); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != time.Second {
				t.Errorf("who leaves gets %+v, %v after %v", s, err, time.Since(begun))
			}
		})
		synctest.Wait()
		if s, err := q.since(t.Context(), time.Now()); err != nil || len(s.jobs) != 1 {
			t.Errorf("who stays gets %+v, %v", s, err)
		}
		wg.Wait()
		time.Sleep(time.Hour)
		wg.Go(func() {
			if _, err := q.since(t.Context(), time.Now()); !errors.Is(err, context.Canceled) {
				t.Errorf("when looks are ended: %v", err)
			}
		})
		synctest.Wait()
		begun := time.Now()
		q.finish()
		wg.Wait()
		if q.look != nil || time.Since(begun) > 0 {
			t.Errorf("a look goes on after %v", time.Since(begun))
		}
		q.finish()
	})
}
