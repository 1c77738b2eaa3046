package sched

import (
	"testing"

	"slipway/spawner"
)

const gib = int64(1) << 30

func TestLedger(t *testing.T) {
	l := newLedger(map[string]spawner.Capacity{"docker": {CPUs: 2, Memory: 4 * gib}, "local": {Count: 1}}, map[string]bool{})
	small := spawner.Resources{CPUs: 1, Memory: gib}
	a, b := spawner.Workload{ID: "a", Backend: "docker", Spec: spawner.Spec{Resources: small}}, spawner.Workload{ID: "b", Backend: "docker", Spec: spawner.Spec{Resources: small}}
	l.enter(a)
	l.enter(a) // twice is once
	if got := l.lacks("docker", small); got != "" {
		t.Errorf("the second does not fit: %s", got)
	}
	l.enter(b)
	if got, want := l.lacks("docker", small), "1 CPU asked, 0 of 2 free"; got != want {
		t.Errorf("lacks = %q, want %q", got, want)
	}
	l.remove(a)
	l.remove(a)
	if got := l.lacks("docker", small); got != "" {
		t.Errorf("given back, yet %s", got)
	}
	if got, want := l.neverFits("docker", spawner.Resources{Memory: 5 * gib}), "5 GiB of memory asked, 4 GiB of 4 GiB free"; got != want {
		t.Errorf("neverFits = %q, want %q", got, want)
	}
	l.enter(spawner.Workload{ID: "j", Backend: "local"})
	if got, want := l.lacks("local", spawner.Resources{}), "1 of 1 places taken"; got != want {
		t.Errorf("lacks = %q, want %q", got, want)
	}
	if got := l.lacks("unlimited", spawner.Resources{CPUs: 1e6}); got != "" {
		t.Errorf("no capacity means no limit, yet %s", got)
	}
}

func TestLedgerOfOneUser(t *testing.T) {
	l := newLedger(map[string]spawner.Capacity{"pool": {PerUser: 2}}, map[string]bool{})
	alice, bob := spawner.Principal{Hub: "hub", User: "alice"}, spawner.Principal{Hub: "hub", User: "bob"}
	lacks := func(backend string, o spawner.Principal, jobs bool) string {
		return l.lacksOwn(association{backend, o, jobs})
	}
	first, second := spawner.Workload{ID: "1", Kind: spawner.Job, Hub: "hub", Owner: "alice", Backend: "pool"}, spawner.Workload{ID: "2", Kind: spawner.Job, Hub: "hub", Owner: "alice", Backend: "pool"}
	l.enter(spawner.Workload{ID: "3", Kind: spawner.Lab, Hub: "hub", Owner: "alice", Backend: "pool"}) // counts for nothing
	l.enter(first)
	l.enter(first) // twice is once
	if got := lacks("pool", alice, true); got != "" {
		t.Errorf("the second does not fit: %s", got)
	}
	l.enter(second)
	if got, want := lacks("pool", alice, true), "2 of the 2 jobs that one user may have there at once are yours"; got != want {
		t.Errorf("lacksOwn = %q, want %q", got, want)
	}
	if got := lacks("pool", bob, true) + lacks("elsewhere", alice, true) + lacks("pool", alice, false); got != "" {
		t.Errorf("another user, another backend, and her sessions: %s", got)
	}
	l.remove(first)
	l.remove(second)
	if got := lacks("pool", alice, true); got != "" || len(l.of["pool"]) > 0 {
		t.Errorf("given back, yet %s, %v", got, l.of)
	}
}
