package server

import (
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"slipway/hubapi"
	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/catalog"
)

// withRights offers a profile beside the others that is open to carla alone, by its group.
func withRights(cfg *Config) {
	closed := cfg.Catalogue.Profiles[0]
	closed.Name, closed.Default, closed.Groups = "closed", false, []string{"higgs"}
	cfg.Catalogue.Profiles = append([]catalog.Profile{closed}, cfg.Catalogue.Profiles...)
	all := cfg.Catalogue
	cfg.Offers = func(hub string, user spawner.User) catalog.Catalogue {
		return all.Only(func(p catalog.Profile) (bool, error) { return p.Groups == nil || hub == "main" && user == "carla", nil })
	}
}

// TestProfilesByTheirRights: no list of any door shows a user what is not open to her, and no door starts it. Mallory
// is alice here, who writes into her requests what she was not offered.
func TestProfilesByTheirRights(t *testing.T) {
	engine := newFake()
	h := withOutpost(t, engine, withRights)
	api := h.client(t, spawnerToken)
	_, flavors := h.ask(t, "POST", "/userflavors", "", `{"name":"alice","groups":["higgs"]}`)
	for list, text := range map[string]string{
		"the spawn form":        h.form(t, url.Values{"user": {"alice"}}),
		"the form of nobody":    h.form(t, nil),
		"a form that was sent":  h.form(t, url.Values{"user": {"alice"}, "options": {`{"profile":"closed"}`}}),
		"OutpostSpawner's list": flavors,
	} {
		if !strings.Contains(text, "small") || strings.Contains(strings.ReplaceAll(text, "Your last choice of profile, closed,", ""), "closed") {
			t.Errorf("%s shows what is not hers: %s", list, text)
		}
	}
	mine, err := h.client(t, "alice-token").Profiles(t.Context())
	if err != nil || len(mine) != 1 || mine[0].Name != "small" {
		t.Errorf("alice's profiles: %+v %v", mine, err)
	}
	if targets := h.API.SSH.SSHTargets(httptest.NewRequest("GET", "/", nil), spawner.Caller{Hub: "main", User: "alice"}); slices.Contains(targets, "closed") {
		t.Errorf("ssh gets her to %q", targets)
	}
	for _, options := range []map[string]any{{"profile": "closed"}, {"profile": "closed", "environment": theDigest}} {
		_, err := api.StartSession(t.Context(), hubapi.SessionRequest{User: "alice", Launch: "l", Prefix: "/user/alice/", Argv: []string{"x"}, Options: options})
		if !errs.Is(err, errs.Forbidden) || !strings.Contains(err.Error(), "it is for members of higgs") {
			t.Errorf("alice starts %v: %v", options, err)
		}
	}
	if status, got := h.ask(t, "POST", "/services", "", started(set("user_options.flavor", "closed"))); status != 419 || !strings.Contains(got, "not open to you") {
		t.Errorf("alice starts it by OutpostSpawner: %d %s", status, got)
	}
	if len(engine.started) > 0 {
		t.Fatalf("started: %+v", engine.started)
	}
	if text := h.form(t, url.Values{"user": {"carla"}}); !strings.Contains(text, "closed") {
		t.Error("carla is not offered what is hers")
	}
	_, err = api.StartSession(t.Context(), hubapi.SessionRequest{
		User: "carla", Launch: "l", Prefix: "/user/carla/", Argv: []string{"x"}, Options: map[string]any{"profile": "closed"},
	})
	if err != nil || len(engine.started) != 1 {
		t.Errorf("carla: %v", err)
	}
}
