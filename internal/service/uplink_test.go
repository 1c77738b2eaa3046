package service

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"slipway/internal/agent/control"
	"slipway/internal/config"
	"slipway/internal/errs"
	"slipway/internal/secret"
	"slipway/internal/tunnel"
	"slipway/internal/workloadtoken"
	"slipway/spawner"
)

// purpose names the key that signs credentials: they outlive an upgrade of the service.
const purpose = "credentials of workloads"

// gate is a door with the workloads behind it.
type gate struct {
	*workloadtoken.Authority
	box  *secret.Box
	jobs sync.Map // of spawner.ID to spawner.Workload
}

func newGate() *gate {
	g := &gate{box: secret.NewBox()}
	g.Authority = workloadtoken.NewAuthority(g.box, func(_ context.Context, id spawner.ID) (spawner.Workload, error) {
		if w, ok := g.jobs.Load(id); ok {
			return w.(spawner.Workload), nil
		}
		return spawner.Workload{}, errs.New(errs.NotFound, "no %s", id)
	})
	return g
}

// run returns the credential of a workload's run.
func (g *gate) run(t *testing.T, w spawner.Workload) string {
	t.Helper()
	g.jobs.Store(w.ID, w)
	token, err := g.ForRun(w)
	if err != nil {
		t.Fatal(err)
	}
	return token.Reveal()
}

func farJob(id spawner.ID) spawner.Workload {
	return spawner.Workload{
		ID: id, Kind: spawner.Job, Phase: spawner.Starting, Launch: "l1", Spec: spawner.Spec{Environment: "sha256:aa"},
	}
}

// TestWhoIsLetInToALink: the agent of the one run that is active, and nobody else with whatever credential.
func TestWhoIsLetInToALink(t *testing.T) {
	g, other := newGate(), newGate()
	good := g.run(t, farJob("j-good"))
	change := func(id spawner.ID, change func(*spawner.Workload)) string {
		w := farJob(id)
		token := g.run(t, w)
		change(&w)
		g.jobs.Store(id, w)
		return token
	}
	image, err := g.ForImage(farJob("j-good"))
	if err != nil {
		t.Fatal(err)
	}
	issuer := workloadtoken.New(g.box.Derive(purpose))
	anyRun, err := issuer.Issue(
		workloadtoken.Claims{Workload: "j-good", Audiences: []workloadtoken.Audience{workloadtoken.Link}},
	)
	if err != nil {
		t.Fatal(err)
	}
	forgotten := g.run(t, farJob("j-forgotten"))
	g.jobs.Delete(spawner.ID("j-forgotten"))
	links := tunnel.New(tunnel.Config{Logger: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() { _ = links.Run(ctx) })
	t.Cleanup(func() { cancel(); serving.Wait() })
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := answerLink(g.Authority, links.Upgrade, w, r); err != nil {
			http.Error(w, `{"error":{"code":"`+errs.RowOf(errs.KindOf(err)).Code+`","message":"`+errs.Brief(err)+`"}}`, errs.RowOf(errs.KindOf(err)).Status)
		}
	}))
	t.Cleanup(service.Close)
	for _, id := range []string{"j-good", "j-stopping"} {
		if err := links.Expect(id); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name, token string
		kind        errs.Kind // Internal: it is let in
		want        string
	}{
		{"the run's", good, errs.Internal, ""},
		{
			"one that is being ended", change("j-stopping", func(w *spawner.Workload) { w.Phase = spawner.Stopping }),
			errs.Internal, "",
		},
		{"another service's", other.run(t, farJob("j-good")), errs.Forbidden, "no credential of this service"},
		{"for the image alone", image.Reveal(), errs.Forbidden, "something else"},
		{"for whatever run", anyRun.Reveal(), errs.Forbidden, "another run"},
		{
			"of one that has ended", change("j-ended", func(w *spawner.Workload) { w.Phase = spawner.Stopped }),
			errs.Forbidden, "no active job",
		},
		{"of one that is forgotten", forgotten, errs.Forbidden, "no active job"},
		{
			"of an evicted run", change("j-moved", func(w *spawner.Workload) { w.Moves++ }), errs.Forbidden,
			"another run of j-moved",
		},
		{
			"of an earlier start", change("j-again", func(w *spawner.Workload) { w.Launch = "l2" }), errs.Forbidden,
			"another run of j-again",
		},
		{"of one that is not expected yet", g.run(t, farJob("j-early")), errs.Unavailable, "not expected yet"},
		{"none", "", errs.Unauthorized, "agents of other hosts"},
	} {
		c, err := tunnel.NewDialer().Dial(
			t.Context(), control.Uplink{URL: strings.Replace(service.URL, "http", "ws", 1) + "/", Token: tt.token},
		)
		if (err == nil) != (tt.kind == errs.Internal) || err != nil && (!errs.Is(err, tt.kind) ||
			!strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		if err == nil {
			_ = c.Close()
		}
	}
}

// TestUplinkOfARun: what an agent carries leads to the service as other hosts reach it, opens the link and the image,
// and shows no secret.
func TestUplinkOfARun(t *testing.T) {
	s := &service{
		box: secret.NewBox(), cfg: config.Config{Uplink: config.Uplink{URL: "https://slipway.example.org:8443/"}},
	}
	w := farJob("j-1")
	u, err := s.uplink(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	if u.URL != "wss://slipway.example.org:8443/api/v1/link" || u.Image != "https://slipway.example.org:8443/sif/sha256:aa" || u.CA != "" {
		t.Errorf("%s, %s, %q", u.URL, u.Image, u.CA)
	}
	if strings.Contains(u.String(), u.Token) {
		t.Error("the token is shown")
	}
	issuer := workloadtoken.New(s.box.Derive(purpose))
	for _, audience := range []workloadtoken.Audience{workloadtoken.Link, workloadtoken.Image} {
		if c, err := issuer.Check(u.Token, audience); err != nil || c.Workload != "j-1" || c.Run != "l1" ||
			c.Digest != "sha256:aa" {
			t.Errorf("%s: %+v, %v", audience, c, err)
		}
	}
	s.cfg.Uplink.CAFile = filepath.Join(t.TempDir(), "gone")
	if _, err := s.uplink(t.Context(), w); !errs.Is(err, errs.Invalid) {
		t.Errorf("a CA that is gone: %v", err)
	}
	s.cfg.Uplink = config.Uplink{}
	if _, err := s.uplink(t.Context(), w); !errs.Is(err, errs.Missing) || !strings.Contains(err.Error(), "uplink.url") {
		t.Errorf("without an address: %v", err)
	}
}
