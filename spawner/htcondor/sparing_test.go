package htcondor

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestSparing: what is said of each of a thousand jobs is not a thousand lines, and nothing is left out in silence.
func TestSparing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := sparing(slog.New(slog.NewTextHandler(&out, nil)))
		lines := func(of string) int { return strings.Count(out.String(), of) }
		for n := range 1000 {
			log.With("backend", "htcondor").Warn("this went wrong", "job", n)
		}
		log.WithGroup("other").Info("another thing")
		if lines("this went wrong") != mostAlike || lines("another thing") != 1 || lines("others_left_out_for=10m0s") != 1 {
			t.Error(out.String())
		}
		time.Sleep(sparingTime)
		out.Reset()
		log.Warn("this went wrong")
		log.Warn("this went wrong")
		if lines("this went wrong") != 2 || lines("left_out_before=990") != 1 {
			t.Error(out.String())
		}
		time.Sleep(sparingTime)
		out.Reset()
		log.Warn("this went wrong")
		if lines("this went wrong\"\n") != 1 {
			t.Error(out.String())
		}
	})
}
