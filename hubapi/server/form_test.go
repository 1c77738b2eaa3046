package server

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"slipway/hubapi"
	"slipway/internal/errs"
	"slipway/spawner"
)

// form asks for the spawn form as the hub's Spawner.
func (h *harness) form(t *testing.T, query url.Values) string {
	t.Helper()
	req, _ := http.NewRequest("GET", h.front.URL+"/api/v1/spawn-form?"+query.Encode(), nil)
	req.Header.Set("Authorization", "Bearer "+spawnerToken)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var b strings.Builder
	if err := resp.Write(&b); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%v: %s", err, b.String())
	}
	return b.String()
}

func TestSpawnFormKnowsTheUser(t *testing.T) {
	kept := lab("s-kept", "alice", "/base/user/alice/")
	kept.Phase, kept.Since, kept.Spec.Image = spawner.Stopped, time.Date(2026, 11, 3, 14, 2, 0, 0, time.UTC), "slipway/notebook:1"
	gone := kept
	gone.ID, gone.Want, gone.Since = "s-gone", spawner.WantGone, time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	h := startPages(t, newFake(kept, gone, lab("s-bob", "bob", "/base/user/bob/")), nil)
	page := h.form(t, url.Values{"user": {"alice"}, "name": {""}, "options": {`{"profile":"small","cpus":"1.5","fresh":"yes"}`}})
	times := elements(t, page, "time")
	if len(times) != 1 || attribute(times[0], "datetime") != "2026-11-03T14:02:00Z" {
		t.Errorf("kept changes: %v", times)
	}
	for _, in := range elements(t, page, "input") {
		switch attribute(in, "name") {
		case "cpus":
			if attribute(in, "value") != "1.5" {
				t.Errorf("cpus is %q", attribute(in, "value"))
			}
		case "fresh":
			for _, a := range in.Attr {
				if a.Key == "checked" {
					t.Error("a fresh start is remembered")
				}
			}
		}
	}
	for _, options := range []string{"", "null", "[]", "{", `{"profile":7,"image":{}}`, strings.Repeat("[", 1000)} {
		if page := h.form(t, url.Values{"user": {"alice"}, "options": {options}}); !strings.Contains(page, `name="profile"`) {
			t.Errorf("options %.20q: %s", options, page)
		}
	}
	if page := h.form(t, url.Values{"user": {"alice"}, "name": {"another"}}); len(elements(t, page, "time")) != 0 {
		t.Error("the changes of another server are shown")
	}
}

func TestFormAsksForCounts(t *testing.T) {
	h := startPages(t, newFake(lab("s-alice", "alice", "/base/user/alice/")), nil)
	var address string
	for _, n := range elements(t, h.form(t, nil), "div") {
		if a := attribute(n, "data-refresh"); a != "" {
			address = a
		}
	}
	p := h.person(t) // who is logged in nowhere
	r := p.get(address)
	var got struct {
		Profiles map[string]struct {
			Words string
			Full  bool
		}
		Images map[string]string
	}
	if err := json.Unmarshal(r.Body.Bytes(), &got); err != nil || r.Code != http.StatusOK || got.Profiles["small"].Words != "3 free now" || got.Profiles["small"].Full {
		t.Errorf("%s: %d %s", address, r.Code, r.Body)
	}
	old := h.seal("1", "room main")
	for _, bad := range []string{"", "x", address[:len(address)-2], old, h.seal("99999999999", "room other")} {
		key := bad
		if i := strings.Index(bad, "key="); i >= 0 {
			key = bad[i+4:]
		}
		if r := p.get(prefix + "room?key=" + url.QueryEscape(key)); r.Code != http.StatusForbidden {
			t.Errorf("key %q: %d", key, r.Code)
		}
	}
	bare := start(t, newFake(), nil)
	if page := bare.form(t, nil); strings.Contains(page, "data-refresh") {
		t.Error("a service without pages names an address")
	}
}

func TestProfilesHaveCounts(t *testing.T) {
	running := lab("s-alice", "alice", "/user/alice/")
	running.Spec.Image = "slipway/notebook:1"
	h := start(t, newFake(running), nil)
	p, err := h.client(t, "alice-token").Profiles(t.Context())
	if err != nil || p[0].Free != 3 || p[0].Most != 8 || p[0].Lacks != "" || p[0].Estimate != -1 || p[0].Images[0].Active != 1 {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestKeepAndCancel(t *testing.T) {
	stopped := lab("s-old", "alice", "")
	stopped.Phase = spawner.Stopped
	h := startPages(t, newFake(lab("s-1", "alice", "/base/user/alice/"), stopped), nil)
	c := h.client(t, "alice-token")
	s, err := c.KeepSession(t.Context(), "s-1", 4*time.Hour)
	if err != nil || s.KeepUntil == nil || time.Until(*s.KeepUntil) < 3*time.Hour || s.Stops == nil || s.Stops.MaxKeep != "24h0m0s" {
		t.Errorf("%+v, %v", s, err)
	}
	if s.Page == nil || *s.Page != prefix+"sessions/s-1" {
		t.Errorf("the page is %v", s.Page)
	}
	if _, err := c.KeepSession(t.Context(), "s-1", 48*time.Hour); !errs.Is(err, errs.Invalid) {
		t.Errorf("too long: %v", err)
	}
	if _, err := c.KeepSession(t.Context(), "s-old", time.Hour); !errs.Is(err, errs.Conflict) {
		t.Errorf("a stopped one: %v", err)
	}
	if s, err := c.CancelSession(t.Context(), "s-1"); err != nil || s.Want != string(spawner.WantStopped) {
		t.Errorf("%+v, %v", s, err)
	}
	for path, body := range map[string]string{"/sessions/s-1/keep": `{"for":"-1h"}`, "/sessions/s-1/keep?": `{"for":""}`, "/sessions/s-1/stop?wait=perhaps": ``} {
		req, _ := http.NewRequest("POST", h.front.URL+hubapi.Base+path, strings.NewReader(body))
		req.Header.Set("Authorization", "Bearer alice-token")
		if err := into(req, nil); !errs.Is(err, errs.Invalid) {
			t.Errorf("%s %s: %v", path, body, err)
		}
	}
}
