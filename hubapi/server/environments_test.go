package server

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway/hubapi"
	"slipway/internal/errs"
	"slipway/spawner"
)

func TestEnvironments(t *testing.T) {
	c := start(t, newFake(), nil).client(t, "alice-token")
	ctx := t.Context()
	for shared, want := range map[bool]int{false: 1, true: 2} {
		if list, err := c.Environments(ctx, shared); err != nil || len(list) != want {
			t.Errorf("shared %v: %+v, %v", shared, list, err)
		}
	}
	if e, err := c.Environment(ctx, "mine:v 1"); err != nil || e.Digest != theDigest {
		t.Errorf("%+v, %v", e, err)
	}
	if d, err := c.EnvironmentDetails(ctx, theDigest); err != nil || d.Architecture != "amd64" || string(d.Inventory) != `{"packages":[]}` {
		t.Errorf("%+v, %v", d, err)
	}
	if list, err := c.EnvironmentHistory(ctx, "mine:v 1"); err != nil || len(list) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	if d, err := c.EnvironmentDiff(ctx, "mine:v 1", theDigest); err != nil || d.Old.Digest != theDigest || len(d.Lines) != 1 {
		t.Errorf("%+v, %v", d, err)
	}
	if v, err := c.VerifyEnvironment(ctx, "mine:v 1"); err != nil || v.Bytes != 7 {
		t.Errorf("%+v, %v", v, err)
	}
	if b, err := c.SBOM(ctx, theDigest); err != nil || string(b) != `{"spdxVersion":"SPDX-2.3"}` {
		t.Errorf("%s, %v", b, err)
	}
	if u, err := c.EnvironmentUsage(ctx); err != nil || !cmp.Equal(u, hubapi.EnvironmentUsage{Environments: 1, Own: 5, Shared: 7, Quota: 100}) {
		t.Errorf("%+v, %v", u, err)
	}
	if _, err := c.Freeze(ctx, "s-x", hubapi.FreezeRequest{}, nil); !errs.Is(err, errs.NotFound) {
		t.Error(err)
	}
}

// TestEnvironmentsAreChanged: what others must be able to find out is in the log, with who, what and on what.
func TestEnvironmentsAreChanged(t *testing.T) {
	kept := &fakeEnvironments{owner: "alice"}
	h := start(t, newFake(), func(cfg *Config) { cfg.Environments = kept })
	c, ctx := h.client(t, "alice-token"), t.Context()
	if e, err := c.TagEnvironment(ctx, "mine:v 1", hubapi.TagRequest{Name: "other", Tag: "v2"}); err != nil || e.Name != "other" || e.Tag != "v2" {
		t.Errorf("%+v, %v", e, err)
	}
	if e, err := c.ShareEnvironment(ctx, theDigest, hubapi.Share{With: "group", Group: "higgs"}); err != nil || e.Share.Group != "higgs" {
		t.Errorf("%+v, %v", e, err)
	}
	if r, err := c.RemoveEnvironment(ctx, "mine:v 1"); err != nil || r.Digest != theDigest || len(r.Names) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	root := h.client(t, "root-token")
	for _, dry := range []bool{true, false} {
		if s, err := root.SweepEnvironments(ctx, dry); err != nil || s.Dry != dry || s.Bytes != 12 {
			t.Errorf("%+v, %v", s, err)
		}
	}
	want := []string{"tag mine:v 1 other:v2", "share sha256:aabbcc with grouphiggs", "remove mine:v 1", "sweep"}
	if diff := cmp.Diff(want, kept.all()); diff != "" {
		t.Error(diff)
	}
	logged := h.logged.String()
	for _, line := range []string{
		`msg="an environment is shared" environment=sha256:aabbcc name=mine tag="v 1" with=group group=higgs by="alice of main" user=alice`,
		`msg="an environment's name is removed" environment=sha256:aabbcc removed="mine:v 1" left=[other:v2] by="alice of main" user=alice`,
		`msg="environments that nobody uses are removed" environments=[sha256:aabbcc] bases=[] bytes=12 by="root of main" user=root`,
	} {
		if strings.Count(logged, line) != 1 {
			t.Errorf("the log lacks %s:\n%s", line, logged)
		}
	}
}

func TestRefusedChangesOfEnvironments(t *testing.T) {
	kept := &fakeEnvironments{owner: "alice"}
	h := start(t, newFake(), func(cfg *Config) { cfg.Environments = kept })
	bob := h.client(t, "bob-token")
	_, shared := bob.ShareEnvironment(t.Context(), theDigest, hubapi.Share{With: "public"})
	_, removed := bob.RemoveEnvironment(t.Context(), theDigest)
	if !errs.Is(shared, errs.NotFound) || !errs.Is(removed, errs.NotFound) {
		t.Errorf("%v, %v", shared, removed)
	}
	if _, err := bob.SweepEnvironments(t.Context(), false); !errs.Is(err, errs.Forbidden) {
		t.Error(err)
	}
	if _, err := h.client(t, "alice-token").EnvironmentDiff(t.Context(), "", theDigest); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "from") {
		t.Error(err)
	}
	if done := kept.all(); len(done) != 0 || strings.Contains(h.logged.String(), "is shared") {
		t.Errorf("done: %q", done)
	}
}

func TestFreezeWithSecretsIsLogged(t *testing.T) {
	h := start(t, newFake(lab("s-1", "alice", "/user/alice/")), func(cfg *Config) {
		cfg.Freeze = func(_ context.Context, _ spawner.Caller, _ spawner.ID, r hubapi.FreezeRequest, _ func(hubapi.Progress)) (hubapi.Environment, error) {
			if r.Name == "bad" {
				return hubapi.Environment{}, errs.New(errs.Conflict, "nothing was frozen")
			}
			env := hubapi.Environment{Digest: theDigest}
			if r.Name == "leaky" {
				env.Secrets = []string{"/opt/key"}
			}
			return env, nil
		}
	})
	const words = "a freeze was allowed to publish secrets"
	c := h.client(t, "alice-token")
	for _, r := range []hubapi.FreezeRequest{{}, {Name: "bad", Allow: []string{"/opt/key"}}, {Name: "clean", Allow: []string{"/opt/other"}}} {
		_, _ = c.Freeze(t.Context(), "s-1", r, nil)
	}
	if strings.Contains(h.logged.String(), words) {
		t.Error("nothing was published")
	}
	if _, err := c.Freeze(t.Context(), "s-1", hubapi.FreezeRequest{Name: "leaky", Allow: []string{"/opt/"}}, nil); err != nil {
		t.Fatal(err)
	}
	h.saysInLog(t, words+`" environment=sha256:aabbcc session=s-1 owner=alice allowed=[/opt/key] by="alice of main"`)
}

func TestNoEnvironments(t *testing.T) {
	h := start(t, newFake(), func(cfg *Config) { cfg.Environments = nil })
	c := h.client(t, "alice-token")
	if list, err := c.Environments(t.Context(), true); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
	for path, body := range map[string]string{"/environments/x/verify": "", "/environments/x/share": `{"with":"public"}`, "/environment-sweep": ""} {
		if status, text := h.post(t, "root-token", path, body); status != http.StatusNotImplemented || !strings.Contains(text, "slipway doctor") {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
}
