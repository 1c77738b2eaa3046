package feeds

import (
	"cmp"
	"context"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"slipway/hubapi"
	"slipway/hubapi/server/convert"
	"slipway/hubapi/server/web"
	"slipway/spawner"
)

// Scan streams how a scan goes on until all its points have ended. It begins with the scan as it has been found.
func (f *Feeds) Scan(w http.ResponseWriter, r *http.Request, scan hubapi.Scan) error {
	ctx, cancel := f.web.Stream(r.Context())
	defer cancel()
	b, leave := f.scans.join(f, web.CallerOf(ctx), scan.ID)
	defer leave()
	after, err := b.resume(ctx, r.Header.Get("Last-Event-ID"))
	if err != nil {
		return err
	}
	out := StartStream(ctx, w)
	defer out.End()
	if after == 0 && !scan.Ended() { // the sum before thousands of points; an end is told behind them
		out.Send(hubapi.EventScan, 0, scan)
	}
	tick := time.NewTicker(beat)
	defer tick.Stop()
	var buffer []byte
	for more, ended := false, false; ; {
		buffer, after, more, ended, err = b.since(ctx, after, buffer[:0])
		if err != nil || len(buffer) > 0 && !out.write(buffer) || ended {
			return nil
		}
		if more {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// A scan's stream tells how its points stand, not what has happened to them: what is behind gets the newest state of
// what has changed, and nothing is kept for anybody who reads slowly. All who watch a scan with the same rights share a
// feed of it, on which each point is written once however many read it. It numbers them for itself: who comes back with
// another feed's number is told of all points once more.

const (
	beat = 500 * time.Millisecond // no point is told more often
	// beats between two looks at what batch systems say of points that have not changed
	slowBeat   = 10
	chunkLimit = 32 << 10 // bytes that are written to a reader at a time
)

// scanFeed is how a scan stands, ready to be sent.
type scanFeed struct {
	*Feeds
	caller  spawner.Caller
	name    string
	key     string    // sets its numbers apart from those of other feeds
	readers int       // guarded by the feeds' lock, as is the next
	left    time.Time // when the last reader has gone

	mu     sync.Mutex // guards all below
	points map[spawner.ID]*told
	order  []*told // the least lately changed first
	scan   hubapi.Scan
	sum    []byte // scan, as it is sent
	seq    int64  // the newest of all
	summed int64  // that of sum
	at     time.Time
	looks  int
	err    error // of the last look
}

// told is what has been said of a point.
type told struct {
	event hubapi.PointEvent
	seq   int64
	frame []byte
	rev   int64
	seen  int // the last look at which it was there
}

// since returns what has changed after a number, as far as it is to be written at once, and the number to go on from.
// It is looked at no more often than once a beat, whoever asks. The scan's sum is behind all points, and its end is the
// stream's.
func (b *scanFeed) since(
	ctx context.Context, after int64, into []byte,
) (out []byte, upTo int64, more, ended bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.renewed(ctx); err != nil {
		return into, after, false, false, err
	}
	from, _ := slices.BinarySearchFunc(b.order, after+1, func(t *told, n int64) int { return cmp.Compare(t.seq, n) })
	for _, t := range b.order[from:] {
		if len(into) > chunkLimit {
			return into, after, true, false, nil
		}
		into, after = append(into, t.frame...), t.seq
	}
	if b.seq > after || b.scan.Ended() {
		into = append(into, b.sum...)
	}
	return into, b.seq, false, b.scan.Ended(), nil
}

// resume returns the number to go on from for who comes back with the last that she has had. That all has ended may be
// old by then: she may have had some of it tried again since.
func (b *scanFeed) resume(ctx context.Context, last string) (after int64, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.scan.Ended() {
		b.at = time.Time{}
	}
	err = b.renewed(ctx)
	key, number, _ := strings.Cut(last, ".")
	n, bad := strconv.ParseInt(number, 10, 64)
	if key != b.key || bad != nil || n < 0 || n > b.seq { // all points: only that feed knows what she has seen of them
		return 0, err
	}
	return n, err
}

// frame is an event as it is sent, with its number.
func (b *scanFeed) frame(name string, seq int64, data any) []byte {
	return frame(name, b.key+"."+strconv.FormatInt(seq, 10), data)
}

// renewed has what is known renewed, unless it is of this beat.
func (b *scanFeed) renewed(ctx context.Context) error {
	if time.Since(b.at) >= beat-beat/10 {
		b.err = b.renew(ctx)
	}
	return b.err
}

// renew looks at the scan, and writes anew what has changed.
func (b *scanFeed) renew(ctx context.Context) error {
	sum, changed, running := convert.NewTally(), []spawner.Workload(nil), []*told(nil)
	b.looks++
	err := b.engine.Each(ctx, b.caller, b.name, func(w *spawner.Workload) {
		sum.Add(w)
		t := b.points[w.ID]
		if t == nil || t.rev != w.Rev || b.looks%slowBeat == 0 && w.Remote && w.Phase == spawner.Starting {
			changed = append(changed, *w)
		} else if w.Phase == spawner.Running {
			running = append(running, t)
		}
		if t != nil {
			t.seen = b.looks
		}
	})
	if err != nil {
		return err
	}
	b.at = time.Now()
	if b.seq == 0 {
		slices.SortFunc(changed, func(x, y spawner.Workload) int {
			return cmp.Or(x.Since.Compare(y.Since), cmp.Compare(x.Point, y.Point))
		})
	}
	anew := append(b.changed(changed), b.moved(running)...)
	b.number(anew)
	b.writeScan(sum)
	return nil
}

// changed returns the points that are to be told of in another way than before.
func (b *scanFeed) changed(points []spawner.Workload) (anew []*told) {
	for _, w := range points {
		t := b.points[w.ID]
		if t == nil {
			t = &told{}
			b.points[w.ID] = t
		}
		event := b.pointEvent(&w)
		if t.seq == 0 || !reflect.DeepEqual(event, t.event) {
			anew = append(anew, t)
		}
		t.event, t.rev, t.seen = event, w.Rev, b.looks
	}
	return anew
}

// moved returns those of points that run whose payloads have got on.
func (b *scanFeed) moved(running []*told) (anew []*told) {
	for _, t := range running {
		if now := b.convert.Progress(spawner.ID(t.event.Job)); !reflect.DeepEqual(now, t.event.Progress) {
			t.event.Progress = now
			anew = append(anew, t)
		}
	}
	return anew
}

// number puts what is to be told anew behind all else, and forgets what is not there any more.
func (b *scanFeed) number(anew []*told) {
	for _, t := range anew {
		b.seq++
		if t.seq == 0 {
			b.order = append(b.order, t)
		}
		t.seq = b.seq
		t.frame = b.frame(hubapi.EventPoint, t.seq, t.event)
	}
	b.order = slices.DeleteFunc(b.order, func(t *told) bool {
		if t.seen == b.looks {
			return false
		}
		delete(b.points, spawner.ID(t.event.Job))
		return true
	})
	if len(anew) > 0 {
		slices.SortFunc(b.order, func(x, y *told) int { return cmp.Compare(x.seq, y.seq) })
	}
}

func (b *scanFeed) writeScan(sum *convert.Tally) {
	scan := b.convert.Scan(sum)
	if b.sum != nil && b.summed == b.seq && reflect.DeepEqual(scan, b.scan) {
		return
	}
	b.scan = scan
	b.seq++
	b.summed = b.seq
	b.sum = b.frame(hubapi.EventScan, b.seq, scan)
}

// inLine is all that a point says which waits in line: its place changes without it, and the scan's sum says that of
// the first.
const inLine = "Waiting for room"

// pointEvent says how a point stands.
func (f *Feeds) pointEvent(w *spawner.Workload) hubapi.PointEvent {
	out := hubapi.PointEvent{
		Point: w.Point, Job: string(w.ID), State: convert.State(w), Attempt: w.Attempt + 1, Host: w.Host,
		Progress: f.convert.Progress(w.ID),
	}
	if w.Slice != nil {
		out.Slice = w.Slice.String()
	}
	switch {
	case out.State.Ended():
		out.Up = convert.Moment(w.Up)
		if w.Outcome != nil {
			out.Reason, out.Ended, out.Wall = w.Outcome.Reason, convert.Moment(w.Outcome.At), w.Outcome.Wall
		}
	case out.State == hubapi.JobRunning:
		out.Up = convert.Moment(w.Up)
	case f.engine.Queue(*w).Place == 0:
		out.Reason = f.engine.Detail(*w)
	default:
		out.Reason = inLine
	}
	return out
}
