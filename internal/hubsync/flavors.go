package hubsync

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"slipway/internal/backoff"
	"slipway/internal/clock"
)

const (
	flavorsEvery = 2 * time.Second // between two looks at what can be started
	// between two times of telling what has not changed: a Hub forgets it when it restarts
	flavorsAgain = 5 * time.Minute
	flavorsMost  = 90 * time.Second // between two tries while the Hub is down
)

// pushFlavors tells the Hub what can be started here when it has changed. It looks rather than being told: what is free
// also changes by other hubs' sessions and by jobs.
func (s *Syncer) pushFlavors(ctx context.Context) {
	t := trouble{log: s.log, what: "tell the Hub of the flavors"}
	var told []byte
	var at time.Time
	failed := backoff.Backoff{First: 2 * flavorsEvery, Most: flavorsMost}
	for wait := flavorsEvery; clock.Sleep(ctx, wait); {
		now, err := json.Marshal(s.cfg.Flavors())
		if err == nil && bytes.Equal(now, told) && time.Since(at) < flavorsAgain {
			continue
		}
		if err == nil {
			err = s.cfg.Hub.PostFlavors(ctx, s.cfg.FlavorsURL, json.RawMessage(now))
		}
		t.note(ctx, err)
		if err != nil {
			told, wait = nil, failed.Next()
			continue
		}
		failed.Reset()
		told, at, wait = now, time.Now(), flavorsEvery
	}
}
