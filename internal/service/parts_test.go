package service

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestPartsAreWatched: who wants to know how the parts are never waits for one, and the log hears of changes alone.
func TestPartsAreWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var log bytes.Buffer
		var down atomic.Bool
		stuck := make(chan struct{})
		p := &parts{log: slog.New(slog.NewTextHandler(&log, nil)), all: []*part{
			{name: "docker", check: func(context.Context) error {
				if down.Load() {
					return errors.New("connection refused")
				}
				return nil
			}},
			{name: "disk", check: func(context.Context) error { <-stuck; return nil }}, // heeds no deadline
		}}
		p.run(ctx, func(f func() error) { go func() { _ = f() }() })
		is := func(when string, want map[string]bool) {
			t.Helper()
			synctest.Wait()
			if got := p.Up(); !maps.Equal(got, want) {
				t.Errorf("%s: %v, want %v", when, got, want)
			}
		}
		is("at first", map[string]bool{})
		time.Sleep(partEvery + time.Second)
		is("asked once", map[string]bool{"docker": true})
		down.Store(true)
		time.Sleep(partEvery)
		is("Docker is down", map[string]bool{"docker": false, "disk": false})
		down.Store(false)
		close(stuck)
		time.Sleep(partEvery)
		is("all is well", map[string]bool{"docker": true, "disk": true})
		cancel()
		synctest.Wait()
		text := log.String()
		if strings.Count(text, "a part does not answer") != 1 || strings.Count(text, "a part answers again") != 1 {
			t.Errorf("the log has\n%s", text)
		}
	})
}
