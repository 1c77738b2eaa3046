package hubs

import "testing"

// What the site says of all sessions is in their environment, unless their Hub says something else.
func TestSiteEnvironment(t *testing.T) {
	h := Hub{Env: map[string]string{"EXTENSIONS_GALLERY": "site", "X": "site"}}
	if env := h.SessionEnv(map[string]string{"X": "hub"}); env["EXTENSIONS_GALLERY"] != "site" || env["X"] != "hub" || h.Env["X"] != "site" {
		t.Errorf("%v", env)
	}
}
