package server

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/hubapi"
	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/spawner"
)

// watched is what somebody who watches a scan has been told last.
type watched struct {
	points map[int]hubapi.PointEvent
	scan   hubapi.Scan
	told   int // events of points
}

// watch tells see each time that something has been told, until see is content or the scan has ended.
func watch(t *testing.T, c *hubapi.Client, see func(watched) bool) (watched, error) {
	t.Helper()
	got := watched{points: map[int]hubapi.PointEvent{}}
	content := errors.New("seen")
	judge := func() error {
		if see(got) {
			return content
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := c.WatchScan(ctx, "scan-1", func(e hubapi.PointEvent) error {
		got.points[e.Point] = e
		got.told++
		return judge()
	}, func(s hubapi.Scan) error {
		got.scan = s
		return judge()
	})
	if errors.Is(err, content) {
		err = nil
	}
	return got, err
}

func TestScanIsWatched(t *testing.T) {
	engine := aScan()
	engine.progress = map[spawner.ID]*control.Progress{"j-1": {Done: 3, Of: 4, Text: "epoch"}}
	h := start(t, engine, nil)
	got, err := watch(t, h.client(t, "alice-token"), func(w watched) bool {
		switch {
		case len(w.points) < 5 || w.scan.Points == 0:
		case w.points[1].State == hubapi.JobRunning && w.points[1].Progress.Done == 3:
			engine.mu.Lock()
			engine.progress["j-1"] = &control.Progress{Done: 4, Of: 4}
			engine.mu.Unlock()
		case w.points[1].State == hubapi.JobRunning && w.points[1].Progress.Done == 4:
			for n := range 5 {
				last := point(n, spawner.Stopped, &spawner.Outcome{Reason: "over", Failed: n == 3, At: time.Unix(9, 0)})
				last.Rev = 7
				engine.set(last)
			}
		}
		return false
	})
	if err != nil || !got.scan.Ended() || got.scan.States[hubapi.JobDone] != 4 || got.told > 5+1+5 {
		t.Fatalf("%d events, %+v, %v", got.told, got.scan, err)
	}
	at := time.Unix(9, 0).UTC()
	want := hubapi.PointEvent{Point: 3, Job: "j-3", State: hubapi.JobFailed, Attempt: 1, Reason: "over", Ended: &at}
	if diff := cmp.Diff(want, got.points[3]); diff != "" {
		t.Error(diff)
	}
	if _, err := watch(t, h.client(t, "bob-token"), func(watched) bool { return true }); !errs.Is(err, errs.NotFound) {
		t.Errorf("another watches it: %v", err)
	}
}

// An end that was just told to somebody is none for who comes behind a retry.
func TestWatchBehindARetry(t *testing.T) {
	engine := aScan()
	for n := range 5 {
		engine.set(point(n, spawner.Stopped, &spawner.Outcome{Failed: n == 3, At: time.Unix(9, 0)}))
	}
	h := start(t, engine, nil)
	if got, err := watch(t, h.client(t, "alice-token"), func(watched) bool { return false }); err != nil || !got.scan.Ended() {
		t.Fatalf("%+v, %v", got.scan, err)
	}
	again := point(3, spawner.Pending, nil)
	again.Rev = 7
	engine.set(again)
	got, err := watch(t, h.client(t, "alice-token"), func(w watched) bool { return w.scan.Points > 0 && len(w.points) == 5 })
	if err != nil || got.scan.Ended() || got.points[3].State != hubapi.JobPending {
		t.Errorf("%+v, %+v, %v", got.scan, got.points[3], err)
	}
}

// A scan whose points are removed meanwhile is told as it is then, and one that is gone ends the stream.
func TestWatchedScanIsRemoved(t *testing.T) {
	engine := newFake(point(0, spawner.Running, nil), point(1, spawner.Stopped, &spawner.Outcome{}))
	h := start(t, engine, nil)
	_, err := watch(t, h.client(t, "alice-token"), func(w watched) bool {
		if len(w.points) == 2 && w.scan.Points == 2 {
			engine.forget("j-1")
		}
		if w.scan.Points == 1 {
			engine.forget("j-0")
		}
		return false
	})
	if !errs.Is(err, errs.NotFound) {
		t.Error(err)
	}
}
