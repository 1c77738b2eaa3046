package web

import (
	"fmt"
	"testing"

	"slipway/internal/errs"
	"slipway/spawner"
)

// TestBytesUnderWay: a user has so many bytes on their way, all have so many, and what is over is told to come again.
func TestBytesUnderWay(t *testing.T) {
	b := newBudget()
	alice, bob := spawner.Caller{Hub: "main", User: "alice"}, spawner.Caller{Hub: "main", User: "bob"}
	release, err := b.take(alice, userBytes)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.take(alice, 1); !errs.Is(err, errs.Busy) {
		t.Errorf("more than one user may: %v", err)
	}
	if _, err := b.take(spawner.Caller{Hub: "main", User: "alice", Workload: "s-1"}, 1); !errs.Is(err, errs.Busy) {
		t.Errorf("more than one user may, from her session: %v", err)
	}
	if done, err := b.take(bob, userBytes); err != nil {
		t.Error(err)
	} else {
		done()
	}
	release()
	if _, err := b.take(alice, 1); err != nil {
		t.Error(err)
	}
	var last error
	for n := 0; last == nil && n <= allBytes/userBytes; n++ {
		_, last = b.take(spawner.Caller{Hub: "main", User: spawner.User(fmt.Sprint(n))}, userBytes)
	}
	if !errs.Is(last, errs.Unavailable) {
		t.Errorf("more than all may: %v", last)
	}
}

// TestRequestsUnderWay: one user has so many requests open.
func TestRequestsUnderWay(t *testing.T) {
	b := newBudget()
	for range userRequests {
		if _, err := b.enter(spawner.Caller{Hub: "main", User: "alice"}, 0); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.enter(spawner.Caller{Hub: "main", User: "alice"}, 0); !errs.Is(err, errs.Busy) {
		t.Error(err)
	}
	for _, c := range []spawner.Caller{{Hub: "main", Spawner: true}, {Hub: "main", User: "alice", Workload: "j-1"}} {
		if _, err := b.enter(c, 0); err != nil {
			t.Error(err)
		}
	}
}
