package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
)

// TestDataIsLookedAt: once the app is up, behind everything else, without the Hub's tokens; again when asked; never
// twice at a time.
func TestDataIsLookedAt(t *testing.T) {
	r := newRig(t)
	seen, gate := filepath.Join(r.dir, "seen"), filepath.Join(r.dir, "gate")
	app := play("web", control.Env{"JUPYTERHUB_API_TOKEN": "hub-secret", "JUPYTERHUB_API_URL": "http://hub.example/hub/api", "BEARER_TOKEN_FILE": "/there"})
	app.HTTP, app.Ready = true, "/"
	app.Doctor = []string{"sh", "-c", `echo "$BEARER_TOKEN_FILE$JUPYTERHUB_API_TOKEN $(nice)" >> ` + seen + `; while [ ! -e ` + gate + ` ]; do sleep 0.02; done`}
	r.launch(t, app, control.Ready)
	lines := func() int {
		text, _ := os.ReadFile(seen)
		return strings.Count(string(text), "\n")
	}
	eventually(t, "it looks by itself", func() bool { return lines() == 1 })
	if err := r.client.Doctor(t.Context()); err != nil || lines() != 1 {
		t.Errorf("while it looks: %v, %d looks", err, lines())
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it looks again", func() bool { return r.client.Doctor(t.Context()) == nil && lines() > 1 })
	if text, _ := os.ReadFile(seen); !strings.HasPrefix(string(text), "/there 15\n") {
		t.Errorf("it has %q", text)
	}
}

func TestNothingLooks(t *testing.T) {
	r := newRig(t)
	r.launch(t, shell("sleep 600"), control.Ready)
	if err := r.client.Doctor(t.Context()); !errs.Is(err, errs.Unavailable) {
		t.Error(err)
	}
}
