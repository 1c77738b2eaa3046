package cli

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

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
		l := &listener{stream: out}
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
	w := farSession("sha256:1", "")
	w.Phase = spawner.Starting
	if _, _, err := new(service).captureFar(t.Context(), w, nil); !errs.Is(err, errs.Conflict) {
		t.Errorf("err = %v", err)
	}
}
