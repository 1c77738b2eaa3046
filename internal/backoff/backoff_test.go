package backoff

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestDelay(t *testing.T) {
	const first, most = time.Second, time.Minute
	for failures, want := range map[int]time.Duration{
		0: first, 1: first, 2: 2 * first, 6: 32 * first, 7: most, 100: most, 1 << 40: most,
	} {
		if least := Delay(first, most, failures, 0); least != want/2 {
			t.Errorf("after %d failures at least %s, want %s", failures, least, want/2)
		}
		if d := Delay(first, most, failures, 0.999999); d < want-want/1000 || d > want {
			t.Errorf("after %d failures %s, want nearly %s", failures, d, want)
		}
	}
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := Backoff{First: time.Second, Most: 4 * time.Second}
		for _, most := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 4 * time.Second} {
			began := time.Now()
			if !b.Wait(t.Context()) {
				t.Error("the context has not ended")
			}
			if took := time.Since(began); took < most/2 || took > most {
				t.Errorf("waited %s, want %s to %s", took, most/2, most)
			}
		}
		b.Reset()
		if d := b.Next(); d > time.Second {
			t.Errorf("after a success %s", d)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if b.Wait(ctx) {
			t.Error("the context has ended")
		}
	})
}
