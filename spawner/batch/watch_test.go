package batch

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/testenv"
	"slipway/spawner"
)

// TestWatch: a change is told once, also one that a word of it brings sooner, and a queue that does not answer is in the
// log once.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // guards what follows
		var jobs []Job
		var down error
		var told []spawner.ID
		set := func(err error, now ...Job) {
			mu.Lock()
			defer mu.Unlock()
			jobs, down = now, err
		}
		q := NewQueue(func(context.Context) ([]Job, error) {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(jobs), down
		}, 0)
		soon := make(chan struct{}, 1)
		var out testenv.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			q.Watch(ctx, Watch{
				Every: time.Minute, Soon: soon, Delay: time.Second, Missed: func() []spawner.ID { return nil },
				Changed: func(id spawner.ID) {
					mu.Lock()
					defer mu.Unlock()
					told = append(told, id)
				},
				System: "Slurm", Log: slog.New(slog.NewTextHandler(&out, nil)),
			})
		}()
		step := func(what string, after time.Duration, want ...spawner.ID) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(told, want) {
				t.Errorf("%s: told %q, want %q", what, told, want)
			}
			told = nil
		}
		set(nil, seenJob("j-1"))
		step("at first", time.Second)
		set(nil)
		step("before the next look", 30*time.Second)
		soon <- struct{}{}
		step("after a word", 2*time.Second, "j-1")
		set(errors.New("no answer"))
		step("down", 10*time.Minute)
		set(nil, seenJob("j-2"))
		step("up again", 2*time.Minute, "j-2")
		cancel()
		<-done
		if text := out.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, "Slurm's queue cannot be seen") || !strings.Contains(text, "again") {
			t.Error(text)
		}
	})
}
