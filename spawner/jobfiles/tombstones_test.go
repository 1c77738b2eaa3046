package jobfiles_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/jobfiles"
)

// TestTombstones: whose job or scan it was is told when it went, for a while; others are told nothing.
func TestTombstones(t *testing.T) {
	const day = 24 * time.Hour
	end := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(ended, removed int) jobfiles.Tombstone {
		return jobfiles.Tombstone{
			Hub: "hub", Owner: "alice", Scan: "scan-1",
			Ended: end.Add(time.Duration(ended) * day), Removed: end.Add(time.Duration(removed) * day),
		}
	}
	stones := jobfiles.NewTombstones()
	stones.Add("j-1", at(2, 30))
	stones.Add("j-2", at(0, 31))
	mine, other := spawner.Caller{Hub: "hub", User: "alice"}, spawner.Caller{Hub: "hub", User: "bob"}
	told := func(err error, want string) {
		t.Helper()
		if !errs.Is(err, errs.NotFound) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	told(stones.NoWorkload(mine, "j-1"),
		"job j-1 ended on 3 January 2000 and was removed on 31 January 2000, 28 days after its end")
	told(stones.NoScan(mine, "scan-1"),
		"scan scan-1 ended on 3 January 2000 and was removed on 1 February 2000, 29 days after its end")
	told(stones.NoWorkload(mine, "j-3"), `there is no session or job "j-3" of yours`)
	told(stones.NoWorkload(other, "j-1"), `there is no session or job "j-1" of yours`)
	told(stones.NoScan(other, "scan-1"), `there is no scan "scan-1" of yours`)
	told(stones.NoScan(mine, "scan-2"), `there is no scan "scan-2" of yours`)
	if old := stones.Old(end.Add(120*day - 1)); len(old) > 0 {
		t.Errorf("old after 90 days: %v", old)
	}
	later := end.Add(120 * day)
	if old := stones.Old(later); len(old) != 1 || old[0] != "j-1" {
		t.Errorf("old then: %v", old)
	}
	stones.Drop("j-1", later)
	told(stones.NoWorkload(mine, "j-1"), "there is no session or job")
	told(stones.NoScan(mine, "scan-1"), "was removed") // one of its jobs is remembered still
	stones.Drop("j-2", later.Add(day))
	told(stones.NoScan(mine, "scan-1"), "there is no scan")
}

// TestTombstonesAreBounded: of more jobs none is remembered.
func TestTombstonesAreBounded(t *testing.T) {
	stones := jobfiles.NewTombstones()
	for n := range 100_000 {
		if stones.Full() {
			t.Fatalf("full with %d", n)
		}
		stones.Add(spawner.ID(fmt.Sprint("j-", n)), jobfiles.Tombstone{})
	}
	if !stones.Full() {
		t.Error("there is room for more")
	}
}
