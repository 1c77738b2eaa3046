package batch

import (
	"strings"
	"testing"
)

// TestMarks: a job is a service's only with the mark of that service's key for its account, workload and run.
func TestMarks(t *testing.T) {
	own := NewMarker("t1", []byte(strings.Repeat("k", MinKey)))
	mark := own.Mark("alice", "j-1", "l-1")
	if !own.Owns("t1", "alice", "j-1", "l-1", mark) {
		t.Error("its own job is not known")
	}
	other := NewMarker("t1", []byte(strings.Repeat("x", MinKey)))
	for what, owned := range map[string]bool{
		"another instance": own.Owns("t2", "alice", "j-1", "l-1", mark),
		"another account":  own.Owns("t1", "bob", "j-1", "l-1", mark),
		"another workload": own.Owns("t1", "alice", "j-2", "l-1", mark),
		"another run":      own.Owns("t1", "alice", "j-1", "l-2", mark),
		"another key":      other.Owns("t1", "alice", "j-1", "l-1", mark),
		"no mark":          own.Owns("t1", "alice", "j-1", "l-1", ""),
		"no workload":      own.Owns("t1", "alice", "../x", "l-1", own.Mark("alice", "../x", "l-1")),
		"an odd account":   own.Owns("t1", "alice|j-1", "j-1", "l-1", own.Mark("alice|j-1", "j-1", "l-1")),
		"moved boundaries": own.Owns("t1", "alice", "j-1", "l-1", own.Mark("alice", "j-1|l-1", "")),
	} {
		if owned {
			t.Errorf("%s: the job is taken for the service's", what)
		}
	}
}
