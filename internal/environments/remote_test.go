package environments

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"slipway/images"
	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/spawner"
)

// TestSilence: a stream that is slow is read, and one that falls silent is given up.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, in := io.Pipe()
		go func() {
			for range 3 {
				time.Sleep(silence - time.Second)
				_, _ = in.Write([]byte("x"))
			}
		}()
		l := &listener{stream: out, free: roomy}
		for i := range 3 {
			if n, err := l.Read(make([]byte, 8)); n != 1 || err != nil {
				t.Fatalf("read %d: %d, %v", i, n, err)
			}
			time.Sleep(2 * silence) // who reads may take his time
		}
		begun := time.Now()
		if _, err := l.Read(make([]byte, 8)); !errs.Is(err, errs.Unavailable) || time.Since(begun) != silence {
			t.Errorf("after %s: %v", time.Since(begun), err)
		}
	})
}

// TestMute: an agent that takes the request and says nothing holds no freeze.
func TestMute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := remoteChanges{changes: func(ctx context.Context, _ control.ChangesRequest) (io.ReadCloser, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		begun := time.Now()
		_, _, err := a.fetch(nil, nil, images.Beneath{}, 10)(t.Context(), t.TempDir(), func(string, int) {})
		if !errs.Is(err, errs.Unavailable) || time.Since(begun) != silence {
			t.Errorf("after %s: %v", time.Since(begun), err)
		}
	})
}

func roomy() (free, all int64, err error) { return 1 << 40, 1 << 40, nil }

// TestTrickle: who sends a little now and then cannot hold a freeze for long, nor who goes on for ever. A slow network
// is neither.
func TestTrickle(t *testing.T) {
	for chunk, want := range map[int]time.Duration{100: stretch, 1 << 20: longest} {
		synctest.Test(t, func(t *testing.T) {
			out, in := io.Pipe()
			over := make(chan struct{})
			go func() {
				defer close(over)
				for {
					time.Sleep(15 * time.Second)
					if _, err := in.Write(make([]byte, chunk)); err != nil {
						return
					}
				}
			}()
			l := &listener{stream: out, free: roomy}
			var err error
			begun := time.Now()
			for p := make([]byte, 1<<20); err == nil; {
				_, err = l.Read(p)
			}
			if took := time.Since(begun); !errs.Is(err, errs.Unavailable) || took < want || took > want+time.Minute {
				t.Errorf("%d bytes at a time: after %s: %v", chunk, took, err)
			}
			must(t, out.Close())
			<-over
		})
	}
}

// TestNoRoomForChanges: a stream ends before the disk is full.
func TestNoRoomForChanges(t *testing.T) {
	free, all := int64(30)<<30, int64(1)<<40
	var read int64
	l := &listener{stream: io.NopCloser(zeros{}), free: func() (int64, int64, error) { return free - read, all, nil }}
	p := make([]byte, 1<<20)
	for n := 0; ; read += int64(n) {
		var err error
		if n, err = l.Read(p); err != nil {
			if left := free - read; !errs.Is(err, errs.NoSpace) || left > leastFree || left < leastFree-2*lookEvery {
				t.Errorf("with %d bytes left: %v", left, err)
			}
			return
		}
	}
}

// zeros has no end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// TestMostBytes: what may come is bounded whatever the quota, and never nothing.
func TestMostBytes(t *testing.T) {
	for room, want := range map[int64]int64{0: 1 << 30, 1 << 30: 9 << 30, 1 << 62: 1<<39 + 1<<30} {
		if got := mostBytes(room); got != want {
			t.Errorf("of %d: %d, want %d", room, got, want)
		}
	}
}

// TestQueuedHasNoTree: a session that waits for a worker cannot be frozen yet.
func TestQueuedHasNoTree(t *testing.T) {
	w := remoteSession("sha256:1", "")
	w.Phase = spawner.Starting
	if _, _, err := new(Service).captureRemoteSession(t.Context(), w, nil); !errs.Is(err, errs.Conflict) {
		t.Errorf("err = %v", err)
	}
}
