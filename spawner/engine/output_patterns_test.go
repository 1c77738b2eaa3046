package engine_test

import (
	"strings"
	"testing"

	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/spawnertest"
)

// TestOut: only what a job was to leave comes back, and one that has not left it has failed.
func TestOut(t *testing.T) {
	for _, backend := range []string{"local", "pool"} {
		t.Run(backend, inPool(func(t *testing.T, s *distant) {
			code := 0
			s.crew.Boot(func(h *spawnertest.Hand) {
				h.Ready()
				for _, name := range []string{"a.root", "b.root", "core.123", "slipway-result.pkl", "exact[1]"} {
					h.Leave(name, name)
				}
				h.Exit(code)
			})
			run := func(out ...string) (spawner.Workload, string) {
				t.Helper()
				w := s.submit(alice, spawner.JobRequest{Spec: spawner.Spec{Environment: "ana", Argv: []string{"x"}, JobSpec: spawner.JobSpec{Out: out}}, Backend: backend})
				w = s.reach(w.ID, spawner.Stopped)
				files, err := s.Files(t.Context(), alice, w.ID)
				if err != nil {
					t.Fatal(err)
				}
				var names []string
				for _, f := range files {
					names = append(names, f.Name)
				}
				return w, strings.Join(names, " ")
			}
			if w, got := run("*.root", "exact[1]"); w.Outcome.Failed || got != "a.root b.root exact[1] slipway-result.pkl" {
				t.Errorf("%+v, %s", w.Outcome, got)
			}
			w, got := run("*.root", "hist.pdf", "*.png")
			if o := w.Outcome; !o.Failed || o.Cause != spawner.CauseOutput || o.Reason != "its payload ended with 0 and has not left hist.pdf, *.png" || got != "a.root b.root slipway-result.pkl" {
				t.Errorf("%+v, %s", o, got)
			}
			code = 4
			if w, _ := run("hist.pdf"); w.Outcome.Cause != spawner.CauseExit || w.Outcome.ExitCode != 4 {
				t.Errorf("%+v", w.Outcome)
			}
			for _, bad := range []string{"", "a/b", "[", "..", strings.Repeat("x", 1000)} {
				if _, err := s.SubmitJob(t.Context(), alice, spawner.JobRequest{Spec: spawner.Spec{Environment: "ana", Argv: []string{"x"}, JobSpec: spawner.JobSpec{Out: []string{bad}}}, Backend: backend}); !errs.Is(err, errs.Invalid) {
					t.Errorf("%.20q: %v", bad, err)
				}
			}
		}))
	}
}
