package credentials

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/secret"
)

const crowd = 1000

// TestThousandUsersAreNoHerd has 1,000 users with sessions log in within a minute, and looks for hours at tokens that
// hold for one, with a restart of the service, and one that takes long.
func TestThousandUsersAreNoHerd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, d, box := newFakeIssuer(time.Hour), newDisk(), secret.NewBox()
		w := managerOver(t, d, box, f)
		for i := range crowd {
			<-time.After(time.Minute / crowd)
			if _, err := w.PutRefresh(t.Context(), user(i), "wlcg", secret.New(fmt.Sprintf("s%d/0", i))); err != nil {
				t.Fatal(err)
			}
		}
		f.set(func() { f.calls = nil })
		serveFor(t, w, 75*time.Minute)
		most, n := f.busiest(10*time.Second), len(f.calls)
		t.Logf("75 min: %d refreshes, at most %d in 10 s", n, most)
		if most > 40 || n < crowd || n > 2*crowd {
			t.Errorf("%d refreshes, %d of them within 10 s", n, most)
		}

		f.set(func() { f.calls = nil })
		w = managerOver(t, d, box, f)
		serveFor(t, w, 75*time.Minute)
		most = f.busiest(10 * time.Second)
		t.Logf("after a restart: %d refreshes, at most %d in 10 s", len(f.calls), most)
		if most > 40 {
			t.Errorf("%d refreshes within 10 s after a restart", most)
		}

		<-time.After(20 * time.Minute) // the service is away
		f.set(func() { f.calls = nil })
		w = managerOver(t, d, box, f)
		serveFor(t, w, 30*time.Minute)
		most = f.busiest(10 * time.Second)
		t.Logf("after 20 min away: %d refreshes, at most %d in 10 s", len(f.calls), most)
		if most > 120 {
			t.Errorf("%d refreshes within 10 s after the service was away", most)
		}
		if len(f.doubled) > 0 {
			t.Errorf("two calls at a time for %v", f.doubled)
		}
		if s := w.Stats(); s.Trouble["wlcg"] > 0 || s.Held["wlcg"] != crowd {
			t.Errorf("%+v", s)
		}
	})
}

func user(i int) string { return fmt.Sprintf("user%04d", i) }

// serveFor runs a wallet with a session of every user, and looks each minute whether all hold what holds. What ended
// while no service ran has some minutes.
func serveFor(t *testing.T, w *Manager, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error)
	go func() { over <- w.Run(ctx) }()
	for i := range crowd {
		_, stop := w.Watch(user(i))
		defer stop()
	}
	begun := time.Now()
	for time.Since(begun) < d {
		<-time.After(time.Minute)
		for i := range crowd {
			r, err := w.find(key{user(i), "wlcg"})
			if err != nil {
				t.Fatal(err)
			}
			if r.Expires.Before(time.Now()) && time.Since(begun) > 2*time.Minute {
				t.Fatalf("%s holds nothing since %v, %v after the beginning", user(i), time.Since(r.Expires), time.Since(begun))
			}
		}
	}
	cancel()
	<-over
}

// busiest returns the most calls within a time.
func (f *fakeIssuer) busiest(within time.Duration) (most int) {
	for i, from := 0, 0; i < len(f.calls); i++ {
		for f.calls[i].Sub(f.calls[from]) > within {
			from++
		}
		most = max(most, i-from+1)
	}
	return most
}
