package pages

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/secret"
)

func TestVisitsAreBounded(t *testing.T) {
	v := newVisits()
	for n := range visitLimit + 1 {
		v.add("main", fmt.Sprint("user", n), secret.New("x"))
	}
	if len(v.byKey) > visitLimit {
		t.Errorf("%d visits", len(v.byKey))
	}
}

// TestOneUserEndsNobodysVisits: who logs in again and again loses the oldest of these logins, and nobody else's.
func TestOneUserEndsNobodysVisits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVisits()
		others := []string{v.add("main", "alice", secret.New("x")), v.add("other", "mallory", secret.New("x"))}
		var own []string
		for range 3 * userLimit {
			time.Sleep(time.Second)
			own = append(own, v.add("main", "mallory", secret.New("x")))
		}
		for i, key := range others {
			if _, ok := v.find(key, []string{"main", "other"}[i]); !ok {
				t.Errorf("visit %d of another has ended", i)
			}
		}
		for i, key := range own {
			if _, ok := v.find(key, "main"); ok != (i >= 2*userLimit) {
				t.Errorf("visit %d of %d: %v", i, len(own), ok)
			}
		}
	})
}

// TestVisitsEnd: the Hub is asked for a new login in time.
func TestVisitsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVisits()
		key := v.add("main", "alice", secret.New("x"))
		if _, ok := v.find(key, "main"); !ok {
			t.Error("it has ended at once")
		}
		time.Sleep(visitTime)
		if _, ok := v.find(key, "main"); ok {
			t.Error("it goes on")
		}
	})
}
