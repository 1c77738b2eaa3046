package feeds

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"slipway/hubapi"
	"slipway/hubapi/server/convert"
	"slipway/hubapi/server/hubs"
	"slipway/hubapi/server/web"
	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/spawner"
)

// points are an engine with one scan, of alice's.
type points []spawner.Workload

func (p points) Each(_ context.Context, _ spawner.Caller, _ string, each func(w *spawner.Workload)) error {
	for i := range p {
		each(&p[i])
	}
	return nil
}

func (p points) Events(context.Context, spawner.Caller, spawner.ID, string, int64) (iter.Seq[spawner.Event], error) {
	return nil, errs.New(errs.NotFound, "points have no steps")
}

func (p points) Queue(spawner.Workload) spawner.Queue             { return spawner.Queue{} }
func (p points) Detail(spawner.Workload) string                   { return "" }
func (p points) PlannedStop(spawner.Workload) spawner.PlannedStop { return spawner.PlannedStop{} }
func (p points) Alerts(spawner.Workload) []spawner.Alert          { return nil }
func (p points) Progress(spawner.ID) *control.Progress            { return nil }
func (p points) Expires(spawner.Workload) time.Time               { return time.Time{} }

func newFeeds(p points) *Feeds {
	log := slog.New(slog.DiscardHandler)
	return New(p, web.New(web.Config{Logger: log}), convert.New(convert.Config{Engine: p, Hubs: hubs.NewSet(nil)}))
}

func point(n int, phase spawner.Phase, outcome *spawner.Outcome) spawner.Workload {
	return spawner.Workload{
		ID: spawner.ID(fmt.Sprintf("j-%d", n)), Kind: spawner.Job, Owner: "alice", Hub: "main", JobRecord: spawner.JobRecord{Scan: "scan-1", Point: n}, Phase: phase, Outcome: outcome,
	}
}

func aScan() points {
	return points{
		point(0, spawner.Starting, nil), point(1, spawner.Running, nil), point(2, spawner.Stopped, &spawner.Outcome{}),
		point(3, spawner.Stopped, &spawner.Outcome{Failed: true, Reason: "out of memory"}), point(4, spawner.Pending, nil),
	}
}

func aLargeScan() points {
	var p points
	for n := range hubapi.PointLimit {
		p = append(p, point(n, []spawner.Phase{spawner.Pending, spawner.Running}[n%2], nil))
	}
	return p
}

// A reader who comes back is told what has changed, and no more. Who was told by another board, as before a restart of
// the service, is told of all points: its record does not say what of it is new, nor does a clock that was set back.
func TestWatchGoesOn(t *testing.T) {
	engine := aScan()
	open := func() *scanFeed {
		f := newFeeds(engine)
		b, _ := f.scans.join(f, spawner.Caller{User: "alice", Hub: "main"}, "scan-1")
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
	engine[4] = w
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

// toldBy is what a reader gets at once who has last had the event of that id: how many points, and the id of the last
// event.
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
		s := newFeeds(aScan())
		c := spawner.Caller{User: "alice", Hub: "main"}
		b, leave := s.scans.join(s, c, "scan-1")
		ctx, cancel := context.WithCancel(t.Context())
		var tidying sync.WaitGroup
		tidying.Go(func() { s.scans.tidy(ctx) })
		time.Sleep(5 * linger)
		leave()
		time.Sleep(linger / 2)
		again, leave := s.scans.join(s, c, "scan-1")
		if again != b {
			t.Error("who comes back finds another board")
		}
		leave()
		time.Sleep(2 * linger)
		synctest.Wait()
		if n := len(s.scans.all); n != 0 {
			t.Errorf("%d boards are kept that nobody reads", n)
		}
		cancel()
		tidying.Wait()
	})
}

// Points are written in pieces: what is on its way to a reader is bounded, however large the scan.
func TestWatchIsWrittenInPieces(t *testing.T) {
	b := &scanFeed{Feeds: newFeeds(aLargeScan()), points: map[spawner.ID]*told{}, name: "scan-1"}
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

// BenchmarkWatchers is what a beat costs in which a hundredth of a scan of ten thousand points changes, and two hundred
// watch it.
func BenchmarkWatchers(b *testing.B) {
	engine := aLargeScan()
	s := newFeeds(engine)
	feed, _ := s.scans.join(s, spawner.Caller{User: "alice", Hub: "main"}, "scan-1")
	readers := make([]int64, 200)
	buffer := make([]byte, 0, 2*chunkLimit)
	bytes := 0
	read := func() {
		feed.at = time.Time{}
		for i := range readers {
			for more := true; more; {
				buffer, readers[i], more, _, _ = feed.since(b.Context(), readers[i], buffer[:0])
				bytes += len(buffer)
			}
		}
	}
	read()
	b.ReportMetric(float64(bytes)/200, "first-bytes")
	bytes = 0
	for n := 0; b.Loop(); n++ {
		for i := range 100 {
			engine[(n*100+i)%hubapi.PointLimit].Rev++
			engine[(n*100+i)%hubapi.PointLimit].Host = string(rune('a' + n%26))
		}
		read()
	}
	b.ReportMetric(float64(bytes)/float64(b.N)/200, "bytes/reader")
}
