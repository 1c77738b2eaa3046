package server

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
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

// A reader who comes back is told what has changed, and no more. Who was told by another board, as before a restart of the service, is told
// of all points: its record does not say what of it is new, nor does a clock that was set back.
func TestWatchGoesOn(t *testing.T) {
	engine := aScan()
	open := func() *scanFeed {
		s := New(Config{Engine: engine, Logger: quiet()})
		b, _ := s.scanFeeds.join(s, spawner.Caller{User: "alice", Hub: "main"}, "scan-1")
		return b
	}
	b := open()
	first, last := toldBy(t, b, "")
	if first != 5 || last == "" {
		t.Fatalf("%d points, last %q", first, last)
	}
	if again, same := toldBy(t, b, last); again != 0 || same != last {
		t.Errorf("nothing has changed, and %d points are told, to %s after %s", again, same, last)
	}
	w := point(4, spawner.Running, nil)
	w.Rev, w.Since = 2, time.Unix(1, 0)
	engine.set(w)
	if n, _ := toldBy(t, b, last); n != 1 {
		t.Errorf("one has changed, and %d points are told", n)
	}
	restarted := open()
	n, next := toldBy(t, restarted, last)
	if n != 5 {
		t.Errorf("after a restart %d points are told", n)
	}
	if n, _ := toldBy(t, restarted, next); n != 0 {
		t.Errorf("then once more %d", n)
	}
	for _, strange := range []string{"99999999999999999", b.key + ".99999999", b.key + ".-1", b.key + ".", "."} {
		if n, _ := toldBy(t, b, strange); n != 5 {
			t.Errorf("after %q, which was never told, %d points are", strange, n)
		}
	}
}

// toldBy is what a reader gets at once who has last had the event of that id: how many points, and the id of the last event.
func toldBy(t *testing.T, b *scanFeed, last string) (points int, id string) {
	t.Helper()
	b.at = time.Time{}
	after, err := b.resume(t.Context(), last)
	if err != nil {
		t.Fatal(err)
	}
	out, _, more, _, err := b.since(t.Context(), after, nil)
	if err != nil || more {
		t.Fatal(more, err)
	}
	id = last
	for events := hubapi.NewEventReader(bytes.NewReader(out)); ; {
		e, err := events.Next()
		if err != nil {
			return points, id
		}
		if e.Name == hubapi.EventPoint {
			points++
		}
		if e.ID != "" {
			id = e.ID
		}
	}
}

// A board that nobody reads is kept for who comes back, and not for ever.
func TestBoardsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Engine: aScan(), Logger: quiet()})
		c := spawner.Caller{User: "alice", Hub: "main"}
		b, leave := s.scanFeeds.join(s, c, "scan-1")
		ctx, cancel := context.WithCancel(t.Context())
		var tidying sync.WaitGroup
		tidying.Go(func() { s.scanFeeds.tidy(ctx) })
		time.Sleep(5 * linger)
		leave()
		time.Sleep(linger / 2)
		again, leave := s.scanFeeds.join(s, c, "scan-1")
		if again != b {
			t.Error("who comes back finds another board")
		}
		leave()
		time.Sleep(2 * linger)
		synctest.Wait()
		if n := len(s.scanFeeds.all); n != 0 {
			t.Errorf("%d boards are kept that nobody reads", n)
		}
		cancel()
		tidying.Wait()
	})
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

// Points are written in pieces: what is on its way to a reader is bounded, however large the scan.
func TestWatchIsWrittenInPieces(t *testing.T) {
	b := &scanFeed{Server: New(Config{Engine: aLargeScan(), Logger: quiet()}), points: map[spawner.ID]*told{}, name: "scan-1"}
	after, points, pieces := int64(0), 0, 0
	for more := true; more; pieces++ {
		var piece []byte
		var err error
		piece, after, more, _, err = b.since(t.Context(), after, nil)
		if err != nil || len(piece) > chunkLimit+4096 {
			t.Fatalf("%d bytes, %v", len(piece), err)
		}
		points += strings.Count(string(piece), "event: point\n")
	}
	if points != hubapi.PointLimit || pieces < 10 {
		t.Errorf("%d points in %d pieces", points, pieces)
	}
}

// BenchmarkWatchers is what a beat costs in which a hundredth of a scan of ten thousand points changes, and two hundred watch it.
func BenchmarkWatchers(b *testing.B) {
	engine := aLargeScan()
	s := New(Config{Engine: engine, Logger: quiet()})
	board, _ := s.scanFeeds.join(s, spawner.Caller{User: "alice", Hub: "main"}, "scan-1")
	readers := make([]int64, 200)
	buffer := make([]byte, 0, 2*chunkLimit)
	bytes := 0
	read := func() {
		board.at = time.Time{}
		for i := range readers {
			for more := true; more; {
				buffer, readers[i], more, _, _ = board.since(b.Context(), readers[i], buffer[:0])
				bytes += len(buffer)
			}
		}
	}
	read()
	b.ReportMetric(float64(bytes)/200, "first-bytes")
	bytes = 0
	for n := 0; b.Loop(); n++ {
		for i := range 100 {
			engine.points[(n*100+i)%hubapi.PointLimit].Rev++
			engine.points[(n*100+i)%hubapi.PointLimit].Host = string(rune('a' + n%26))
		}
		read()
	}
	b.ReportMetric(float64(bytes)/float64(b.N)/200, "bytes/reader")
}
