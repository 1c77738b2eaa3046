package docker

import (
	"context"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"slipway/spawner"
	"slipway/spawner/spawnertest"
)

// watched runs Watch for the test's duration and counts what it tells.
type watched struct {
	mu   sync.Mutex
	told map[spawner.ID]int
}

func watch(t *testing.T, b *Backend) *watched {
	w := &watched{told: map[spawner.ID]int{}}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error)
	go func() {
		done <- b.Watch(ctx, func(id spawner.ID) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.told[id]++
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Watch = %v", err)
		}
	})
	return w
}

func (w *watched) count(id spawner.ID) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.told[id]
}

// TestEngineRestarted: what runs on an engine ends with it or lives on, as the engine is set up; either way it is told
// truly, the events come again, and nothing is left.
func TestEngineRestarted(t *testing.T) {
	e := newEngine(t)
	w := e.world(Config{Instance: "test-restart"})
	w.importImage(t, nil)
	seen := watch(t, w.Backend)
	l := w.launch(t, "")
	w.up(t, l)
	until(t, "its start is told", func() bool { return seen.count(l.ID) > 0 })
	for name, signal := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "ended": syscall.SIGTERM} {
		before := seen.count(l.ID)
		e.end(signal)
		if o, err := w.Observe(t.Context(), l.ID); err == nil || o.Existence != spawner.Unknown {
			t.Errorf("%s: Observe while it is away = %+v, %v", name, o, err)
		}
		e.start()
		if o := w.ended(t, l.ID); o.Existence != spawner.Exited || !strings.HasPrefix(o.Reason, "the Docker Engine was restarted") || o.Remedy == "" {
			t.Errorf("%s: Observe = %+v, want that the engine was restarted", name, o)
		}
		until(t, "its end is told", func() bool { return seen.count(l.ID) > before })
		w.up(t, l)
		if n := strings.Count(w.await(t, l.ID, spawnertest.RunsFile), "\n"); n < 1 {
			t.Errorf("%s: its changes are gone", name)
		}
	}
	before := seen.count(l.ID)
	e.end(syscall.SIGTERM)
	e.start("--live-restore")
	until(t, "its third end is told", func() bool { return seen.count(l.ID) > before })
	w.up(t, l)
	w.livesOn(t, e, l.ID, seen)
	if err := w.Stop(t.Context(), l.ID, time.Second); err != nil {
		t.Fatal(err)
	}
	if err := w.Remove(t.Context(), l.ID); err != nil {
		t.Fatal(err)
	}
	if list, err := w.client.ContainerList(t.Context(), client.ContainerListOptions{All: true}); err != nil || len(list.Items) > 0 {
		t.Errorf("%d containers are left (%v)", len(list.Items), err)
	}
}

// livesOn kills and starts an engine that keeps what runs on it.
func (w world) livesOn(t *testing.T, e *engine, id spawner.ID, seen *watched) {
	t.Helper()
	was, _, err := w.find(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	before := seen.count(id)
	e.end(syscall.SIGKILL)
	e.start("--live-restore")
	if o := w.sees(t, id, spawner.Up); o.Reason != "" {
		t.Errorf("it runs, and yet: %q", o.Reason)
	}
	if now, _, err := w.find(t.Context(), id); err != nil || now.State.Pid != was.State.Pid || now.State.StartedAt != was.State.StartedAt {
		t.Errorf("another process runs (%v)", err)
	}
	until(t, "the watch looks at all anew", func() bool { return seen.count(id) > before })
	if _, err := w.client.ContainerKill(t.Context(), nameOf(id), client.ContainerKillOptions{Signal: "KILL"}); err != nil {
		t.Fatal(err)
	}
	if o := w.ended(t, id); !strings.HasPrefix(o.Reason, "its container was ended outside Slipway") {
		t.Errorf("killed after the engine's return: %+v", o)
	}
}
