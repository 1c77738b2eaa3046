package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway/internal/agent/control"
)

// TestRescueKeepsOutOfTheHome: whatever names a directory for what programs keep by themselves names none in the home.
func TestRescueKeepsOutOfTheHome(t *testing.T) {
	dir := t.TempDir()
	cfg := Config{APISocket: "/s", BinDir: "/b", CodeDir: filepath.Join(dir, "code"), Env: []string{"HOME=/home/alice", "JUPYTER_CONFIG_DIR=/home/alice/.jupyter"}}
	env, err := environ(cfg, control.App{Rescue: true}, 0, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range env {
		if name, value, _ := strings.Cut(kv, "="); name != "HOME" && strings.HasPrefix(value, "/home/") {
			t.Error(kv)
		}
	}
	at := variable(env, "JUPYTER_RUNTIME_DIR")
	if at != filepath.Join(dir, "rescue/jupyter/runtime") || variable(env, "HOME") != "/home/alice" || keepsIn(env) != "" {
		t.Errorf("JUPYTER_RUNTIME_DIR=%s, HOME=%s", at, variable(env, "HOME"))
	}
	for range 2 {
		if err := prepareRescue(filepath.Join(dir, "rescue")); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(variable(env, rescueEnv)); err != nil || !strings.Contains(string(text), "slipway home usage") {
		t.Errorf("%s, %v", text, err)
	}
	plain, _ := environ(cfg, control.App{}, 0, "")
	if variable(plain, "JUPYTER_CONFIG_DIR") != "/home/alice/.jupyter" || keepsIn(plain) != "/home/alice" {
		t.Error("a session that is none is changed too")
	}
}
