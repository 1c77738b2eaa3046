package disklimit

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"slipway/spawner"
)

func TestJudge(t *testing.T) {
	const limit = 1e9
	for name, test := range map[string]struct {
		n, first int64
		stop     bool
		percent  int
	}{
		"little":              {1e6, 0, false, 0},
		"80 %":                {8e8, 0, false, 80},
		"95 %":                {96e7, 0, false, 95},
		"beyond":              {limit + 1, 0, true, 100},
		"began beyond":        {2e9, 2e9, false, 100},
		"began beyond, grows": {2e9 + 1e8, 2e9, true, 100},
		"began beyond, less":  {9e8, 2e9, false, 80},
	} {
		if stop, percent := judge(test.n, test.first, limit); stop != test.stop || percent != test.percent {
			t.Errorf("%s: %v, %d %%", name, stop, percent)
		}
	}
}

// TestWatcher: the owner is told at each mark once, and the session is ended beyond the limit. Who has no limit is
// not looked at, and a look that takes long comes seldom.
func TestWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		session := spawner.Workload{
			ID: "s-1", Launch: "one", Spec: spawner.Spec{Resources: spawner.Resources{Disk: 1e9}},
		}
		var mu sync.Mutex // of what the test changes while the watch looks
		size, looks, cost := int64(1e6), 0, time.Duration(0)
		var told []string
		w := New(Config{
			Sessions: func() []spawner.Workload {
				mu.Lock()
				defer mu.Unlock()
				return []spawner.Workload{session, {ID: "s-free"}}
			},
			Written: func(_ context.Context, id spawner.ID) (int64, error) {
				if id != "s-1" {
					t.Errorf("%s is looked at", id)
				}
				mu.Lock()
				looks++
				size, cost := size, cost
				mu.Unlock()
				time.Sleep(cost) // of the bubble
				return size, nil
			},
			Alert:  func(_ context.Context, _ spawner.ID, a spawner.Alert) { told = append(told, a.Message) },
			Stop:   func(_ context.Context, _ spawner.ID, a spawner.Alert) { told = append(told, "ended: "+a.Message) },
			Logger: slog.New(slog.DiscardHandler),
		})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = w.Run(ctx) }()
		for _, now := range []int64{1e6, 85e7, 86e7, 97e7, 11e8} {
			mu.Lock()
			size = now
			mu.Unlock()
			time.Sleep(2 * roundInterval) // of the bubble
			synctest.Wait()
		}
		want := []string{"nearly full", "nearly full", "ended: It had written 1.1 GB beside the home, of at most 1 GB"}
		for i, words := range want {
			if len(told) < len(want) || !strings.Contains(told[i], words) {
				t.Fatalf("told %q, want %q", told, want)
			}
		}
		mu.Lock()
		size, cost, looks, session.Launch = 1e6, 10*time.Second, 0, "two"
		mu.Unlock()
		time.Sleep(time.Hour) // of the bubble
		synctest.Wait()
		if looks > 20 {
			t.Errorf("%d looks of 10 s in an hour", looks)
		}
		cancel()
		synctest.Wait()
	})
}
