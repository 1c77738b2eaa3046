package loglimit

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/testenv"
)

// TestFloodIsCounted: however much strangers have logged, it is so many lines a message and interval, and one that says
// how many were left out.
func TestFloodIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out testenv.Buffer
		log := slog.New(New(slog.NewTextHandler(&out, nil), 3, time.Minute))
		other := log.With("a", 1)
		for range 5 {
			log.Info("refused")
			other.Info("refused")
		}
		other.Info("something else")
		log.Debug("refused")
		if n := strings.Count(out.String(), "msg=refused"); n != 3 || strings.Contains(out.String(), "left out") {
			t.Errorf("%d lines:\n%s", n, &out)
		}
		<-time.After(time.Minute + time.Second)
		synctest.Wait()
		if said := out.String(); strings.Count(said, "left out") != 1 || !strings.Contains(said, "lines=7 in=1m0s") || !strings.Contains(said, "something else") {
			t.Errorf("%s", said)
		}
		out.Reset()
		log.Info("refused")
		<-time.After(2 * time.Minute)
		synctest.Wait()
		if said := out.String(); strings.Count(said, "\n") != 1 {
			t.Errorf("later: %s", said)
		}
	})
}
