package engine_test

import (
	"slices"
	"strings"
	"testing"

	"slipway/spawner"
	"slipway/spawner/spawnertest"
)

func codeRequest(launch string) spawner.SessionRequest {
	r := request("alice", "", launch)
	r.Kind = spawner.Code
	return r
}

// What the Hub would run is a Jupyter server: a session of VS Code runs what the engine says.
func TestCodeSession(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		w := s.startSession(codeRequest("one"))
		s.reach(w.ID, spawner.Running)
		app := s.crew.Hand(w.ID).App()
		if !app.Code || !app.HTTP || app.Jupyter || !slices.Equal(app.Argv, []string{"code-server", "/home/alice"}) || app.Dir != "/home/alice" || app.Ready != "api" {
			t.Errorf("the agent got %+v", app)
		}
		if got := messages(s.events(w.ID, "one")); !slices.Contains(got, "Starting VS Code") || got[len(got)-1] != "VS Code is ready (1.0 s)" {
			t.Errorf("events: %q", got)
		}
	})(t)
}

// A server of the Hub's is one session, whatever its kind. What each kind has changed stays its own.
func TestCodeInPlaceOfLab(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		lab := s.startSession(request("alice", "", "one"))
		s.reach(lab.ID, spawner.Running)
		code := s.startSession(codeRequest("two"))
		s.reach(code.ID, spawner.Running)
		if w, err := s.Get(t.Context(), alice, lab.ID); err != nil || w.Phase != spawner.Stopped || w.ID == code.ID {
			t.Errorf("the notebook is %s beside %s: %v", w.Phase, code.ID, err)
		}
		again := s.startSession(request("alice", "", "three"))
		if s.reach(again.ID, spawner.Running); again.ID != lab.ID {
			t.Errorf("the notebook is %s, want %s again", again.ID, lab.ID)
		}
	})(t)
}

func TestImageWithoutCode(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		s.crew.Boot(func(h *spawnertest.Hand) { h.Exit(127) })
		w := s.reach(s.startSession(codeRequest("one")).ID, spawner.Stopped)
		if o := w.Outcome; o == nil || !o.Failed || !strings.Contains(o.Reason, "the image notebook has no VS Code") || o.Remedy == "" {
			t.Errorf("outcome %+v", o)
		}
	})(t)
}
