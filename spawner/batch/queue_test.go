package batch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/clock"
	"slipway/spawner"
)

// seenJob is the only job of its workload.
func seenJob(id spawner.ID) Job {
	return Job{ID: id, Name: string(id), Seen: spawner.Observation{Existence: spawner.Queued}}
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestLooksRest: between two looks there is a rest, also for who must know it anew, and a longer one after a long look.
func TestLooksRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		took, down := 10*time.Millisecond, error(nil)
		var begun []time.Time
		q := NewQueue(func(context.Context) ([]Job, error) {
			begun = append(begun, time.Now())
			time.Sleep(took)
			return nil, down
		}, MinRest)
		look := func(what string, want time.Duration) {
			t.Helper()
			begun = nil
			for range 5 {
				if _, err := q.Since(t.Context(), time.Now()); !errors.Is(err, down) {
					t.Errorf("%s: %v", what, err)
				}
			}
			for i := range begun[1:] {
				if got := begun[i+1].Sub(begun[i]); got != want {
					t.Errorf("%s: a look follows another after %v, want %v", what, got, want)
				}
			}
		}
		look("quick", took+MinRest)
		down = errors.New("down")
		look("quickly refused", took+MinRest)
		took, down = time.Second, nil
		look("slow", took+RestFactor*took)
		took = time.Minute
		look("very slow", took+mostRest)
		before := len(begun)
		time.Sleep(time.Second)
		var wg sync.WaitGroup
		for range 100 { // while the next may not begin yet
			wg.Go(func() {
				if _, err := q.Since(t.Context(), time.Now()); err != nil {
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

// TestLeaveLook: who does not wait any more leaves at once; the look goes on for the others, until it is ended for all.
func TestLeaveLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(func(ctx context.Context) ([]Job, error) {
			if !clock.Sleep(ctx, time.Minute) {
				return nil, ctx.Err()
			}
			return []Job{seenJob("j-1")}, nil
		}, 0)
		leader, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			begun := time.Now()
			if s, err := q.Since(leader, begun); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != time.Second {
				t.Errorf("who leaves gets %+v, %v after %v", s, err, time.Since(begun))
			}
		})
		synctest.Wait()
		if s, err := q.Since(t.Context(), time.Now()); err != nil || len(s.Jobs) != 1 {
			t.Errorf("who stays gets %+v, %v", s, err)
		}
		wg.Wait()
		time.Sleep(time.Hour)
		wg.Go(func() {
			if _, err := q.Since(t.Context(), time.Now()); !errors.Is(err, context.Canceled) {
				t.Errorf("when looks are ended: %v", err)
			}
		})
		synctest.Wait()
		begun := time.Now()
		q.Finish()
		wg.Wait()
		if q.looks.going != nil || time.Since(begun) > 0 {
			t.Errorf("a look goes on after %v", time.Since(begun))
		}
		q.Finish()
	})
}

// TestOneLookForAll: a look that began late enough serves all who ask, and none that began too early.
func TestOneLookForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		q := NewQueue(func(context.Context) ([]Job, error) {
			time.Sleep(time.Second)
			looks++
			return nil, nil
		}, 0)
		var wg sync.WaitGroup
		ask := func(after time.Duration) {
			wg.Go(func() {
				time.Sleep(after)
				asked := time.Now()
				if s, err := q.Since(t.Context(), asked); err != nil || s.Begun.Before(asked) {
					t.Errorf("asked at %v, it is told of %+v, %v", asked, s, err)
				}
			})
		}
		for range 50 {
			ask(0)
			ask(500 * time.Millisecond) // these need a second look, which one of them begins when the first has ended
		}
		wg.Wait()
		if looks != 2 {
			t.Errorf("%d looks", looks)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := q.Since(ended, time.Now().Add(-time.Minute)); err != nil {
			t.Errorf("what is known is not told: %v", err)
		}
	})
}

// TestFailedLooks: while the queue does not answer, it is not asked again by all who come, but by who must know it now.
func TestFailedLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks, down := 0, errors.New("down")
		q := NewQueue(func(context.Context) ([]Job, error) {
			time.Sleep(time.Minute)
			looks++
			return nil, down
		}, 0)
		const every = 5 * time.Second
		since := func(d time.Duration) time.Time { return time.Now().Add(-d) }
		look := func(t0 time.Time, want error, wantLooks int) {
			t.Helper()
			if _, err := q.Since(t.Context(), t0); !errors.Is(err, want) || looks != wantLooks {
				t.Errorf("%v after %d looks, want %v after %d", err, looks, want, wantLooks)
			}
		}
		for range 10 {
			look(since(every), down, 1)
		}
		look(time.Now(), down, 2)
		time.Sleep(every - time.Nanosecond)
		look(since(every), down, 2)
		time.Sleep(time.Nanosecond)
		look(since(every), down, 3)
		down = nil
		look(since(every), q.failure.err, 3)
		look(time.Now(), nil, 4)
		look(since(2*time.Minute), nil, 4)
	})
}

// TestBatches: what comes while others are done is done next, together; who gives up before is left out.
func TestBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sizes []int
		b := NewBatcher(func(_ context.Context, all []*Call[int]) {
			sizes = append(sizes, len(all))
			for _, w := range all {
				if w.Arg == 13 {
					w.Err = errors.New("unlucky")
				}
			}
			time.Sleep(10 * time.Second)
		})
		var wg sync.WaitGroup
		join := func(n int, after, patience time.Duration, want string) {
			wg.Go(func() {
				time.Sleep(after)
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				if _, err := b.Join(ctx, n); fmt.Sprint(err) != want {
					t.Errorf("%d: %v, want %s", n, err, want)
				}
			})
		}
		for i := range 20 {
			want := "<nil>"
			if i == 13 {
				want = "unlucky"
			}
			join(i, 0, time.Hour, want)
		}
		join(100, 3*time.Second, time.Second, context.DeadlineExceeded.Error()) // the first of the second batch, whose turn it would be
		for i := range 5 {
			join(200+i, 4*time.Second, time.Hour, "<nil>")
		}
		wg.Wait()
		if !slices.Equal(sizes, []int{20, 5}) {
			t.Errorf("batches of %v", sizes)
		}
		arrived := b.Expect()
		begun := time.Now()
		wg.Go(func() {
			time.Sleep(time.Second)
			arrived()
			arrived()
		})
		if _, err := b.Join(t.Context(), 1); err != nil || time.Since(begun) < 11*time.Second {
			t.Errorf("it did not wait for who was announced: %v, %v", time.Since(begun), err)
		}
		wg.Wait()
	})
}
