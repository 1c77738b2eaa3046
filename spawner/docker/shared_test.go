package docker

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

// download is one that the test lets go on and end.
type download struct {
	begun  int
	ended  []error // how each one's context ended
	tell   chan string
	finish chan error
}

func newDownload() *download { return &download{tell: make(chan string), finish: make(chan error)} }

func (d *download) do(ctx context.Context, tell report) error {
	d.begun++
	for {
		select {
		case m := <-d.tell:
			tell(m, 1)
		case err := <-d.finish:
			return err
		case <-ctx.Done():
			d.ended = append(d.ended, ctx.Err())
			return ctx.Err()
		}
	}
}

// waiter is one who wants the image.
type waiter struct {
	told []string
	end  context.CancelFunc
	got  chan error
}

func (d *download) wanted(t *testing.T, p *pulls, ref string) *waiter {
	ctx, end := context.WithCancel(t.Context())
	w := &waiter{end: end, got: make(chan error, 1)}
	go func() {
		w.got <- p.share(ctx, ref, func(m string, _ int) { w.told = append(w.told, m) }, d.do)
	}()
	synctest.Wait()
	return w
}

func TestPullsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pulls
		d, broken := newDownload(), errors.New("broken")
		first := d.wanted(t, &p, "a")
		d.tell <- "half"
		synctest.Wait()
		second := d.wanted(t, &p, "a")
		other := newDownload()
		third := other.wanted(t, &p, "b")
		first.end()
		if err := <-first.got; !errors.Is(err, context.Canceled) {
			t.Errorf("who has gone got %v", err)
		}
		d.tell <- "nearly"
		synctest.Wait()
		d.finish <- broken
		if err := <-second.got; !errors.Is(err, broken) {
			t.Errorf("who has waited got %v", err)
		}
		if d.begun != 1 || other.begun != 1 || len(d.ended) != 0 {
			t.Errorf("begun %d and %d times, broken off %v", d.begun, other.begun, d.ended)
		}
		if diff := cmp.Diff([][]string{{"Pulling image a", "half"}, {"half", "nearly"}}, [][]string{first.told, second.told}); diff != "" {
			t.Error(diff)
		}
		third.end()
		<-third.got
		again := d.wanted(t, &p, "a")
		if d.begun != 2 {
			t.Error("a failed download was not begun anew")
		}
		d.finish <- nil
		if err := <-again.got; err != nil {
			t.Errorf("again = %v", err)
		}
	})
}

// TestLastOneEndsThePull: nothing is fetched that nobody waits for, and who comes then begins anew.
func TestLastOneEndsThePull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pulls
		d := newDownload()
		two := []*waiter{d.wanted(t, &p, "a"), d.wanted(t, &p, "a")}
		for _, w := range slices.Backward(two) {
			if len(d.ended) != 0 {
				t.Error("it was broken off while somebody waited")
			}
			w.end()
			if err := <-w.got; !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		}
		if len(d.ended) != 1 || len(p.under) != 0 {
			t.Errorf("broken off: %v, under way: %d", d.ended, len(p.under))
		}
		next := d.wanted(t, &p, "a")
		d.finish <- nil
		if err := <-next.got; err != nil || d.begun != 2 {
			t.Errorf("the next one = %v, begun %d times", err, d.begun)
		}
	})
}
