package sessions

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"slipway/spawner"
	"slipway/spawner/engine"
)

// TestTheLogSaysWhyASessionDidNotStart: it does of a failed start alone, and not of what ends later or is canceled.
func TestTheLogSaysWhyASessionDidNotStart(t *testing.T) {
	var log bytes.Buffer
	s := &Sessions{log: slog.New(slog.NewTextHandler(&log, nil)), startsFailed: map[spawner.Cause]int{}}
	end := func(phase spawner.Phase, o spawner.Outcome) {
		e := engine.Entry{Workload: spawner.Workload{ID: "s-1", Hub: "main", Owner: "frank", Phase: phase}}
		e.Spec.Profile = "small"
		s.ending(engine.Tx{}, &e, o)
	}
	end(spawner.Running, spawner.Outcome{Failed: true})
	end(spawner.Starting, spawner.Outcome{Canceled: true})
	end(spawner.Booting, spawner.Outcome{})
	if log.Len() > 0 || len(s.startsFailed) > 0 {
		t.Errorf("%v, and the log has\n%s", s.startsFailed, &log)
	}
	end(spawner.Starting, spawner.Outcome{Failed: true, Reason: "no image nosuch", Remedy: "build it"})
	for _, want := range []string{
		"level=WARN", `msg="a session did not start"`, "session=s-1", "hub=main", "owner=frank", "profile=small",
		`reason="no image nosuch"`, `remedy="build it"`,
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%s is missing in\n%s", want, &log)
		}
	}
	if s.startsFailed[spawner.CauseStart] != 1 {
		t.Errorf("counted are %v", s.startsFailed)
	}
}
