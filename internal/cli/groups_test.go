package cli

import (
	"strings"
	"testing"

	"slipway/internal/agent/control"
)

// TestHelpIsGrouped: operators' commands stand apart, and in a session they are not shown but still there.
func TestHelpIsGrouped(t *testing.T) {
	for _, socket := range []string{"", "/run/slipway/api.sock"} {
		var out strings.Builder
		env := Env{Stdout: &out, Stderr: &out, Getenv: func(name string) string {
			if name == control.SocketEnv {
				return socket
			}
			return ""
		}}
		if code := Run(t.Context(), []string{"--help"}, env); code != exitOK {
			t.Fatal(code, out.String())
		}
		users, operators, ok := strings.Cut(out.String(), "The service and its host:\n")
		if !ok && socket == "" || !strings.Contains(users, "\n  submit ") || strings.Contains(users, "\n  accounts ") {
			t.Errorf("socket %q: %s", socket, &out)
		}
		if shown := strings.Contains(operators, "  accounts "); shown != (socket == "") {
			t.Errorf("socket %q: accounts is shown: %t", socket, shown)
		}
		if c, _, err := newRoot(env).Find([]string{"accounts"}); err != nil || c.Name() != "accounts" {
			t.Errorf("socket %q: accounts is gone: %v", socket, err)
		}
	}
}
