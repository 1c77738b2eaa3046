//go:build linux

package cli

import (
	"context"
	"net/http"

	"slipway/hubapi/server"
	"slipway/images/registry"
	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/internal/secret"
	"slipway/internal/workloadtoken"
	"slipway/spawner"
)

// doorkeeper lets workloads of other hosts in: to their link, and to their image.
type doorkeeper struct {
	issuer   *workloadtoken.Issuer
	workload func(ctx context.Context, id spawner.ID) (spawner.Workload, error) // whoever's it is
}

// credentialPurpose names the key that signs credentials among those that come of the service's secret key.
const credentialPurpose = "credentials of workloads"

func newDoorkeeper(box *secret.Box, workload func(ctx context.Context, id spawner.ID) (spawner.Workload, error)) *doorkeeper {
	return &doorkeeper{issuer: workloadtoken.New(box.Derive(credentialPurpose)), workload: workload}
}

// doorkeeper makes the service's.
func (s *service) doorkeeper() *doorkeeper {
	return newDoorkeeper(s.box, func(ctx context.Context, id spawner.ID) (spawner.Workload, error) {
		return s.engine.Get(ctx, spawner.Caller{System: true}, id)
	})
}

// admit returns what a credential says that was made for audience. Here it is found out that its workload is active, at
// each use, and that the workload's run is still the one that it was made for.
func (d *doorkeeper) admit(ctx context.Context, token string, audience workloadtoken.Audience) (workloadtoken.Claims, error) {
	c, err := d.issuer.Check(token, audience)
	if err != nil {
		return workloadtoken.Claims{}, err
	}
	w, err := d.workload(ctx, spawner.ID(c.Workload))
	switch {
	case errs.Is(err, errs.NotFound) || err == nil && !w.Phase.Active():
		return workloadtoken.Claims{}, errs.New(errs.Forbidden, "the credential is of no active job or session").
			With("it holds only while the job or session that it was made for is active")
	case err != nil:
		return workloadtoken.Claims{}, err
	case c.Run == "" && audience == workloadtoken.Image && c.Digest == w.Spec.Environment: // of whatever run
	case c.Run != w.Run() || c.Run == "":
		return workloadtoken.Claims{}, errs.New(errs.Forbidden, "the credential is of another run of %s", w.ID).
			With("what still runs of the earlier one is to end: its place was taken")
	}
	return c, nil
}

// forRun returns what an agent on another host carries: for this run of its workload alone, in the environment that it
// runs.
func (d *doorkeeper) forRun(w spawner.Workload) (secret.Text, error) {
	return d.issuer.Issue(workloadtoken.Claims{
		Workload: string(w.ID), Run: w.Run(), Digest: w.Spec.Environment, Audiences: []workloadtoken.Audience{workloadtoken.Link, workloadtoken.Image},
	})
}

// forImage returns what opens a workload's environment alone, in whatever run of it.
func (d *doorkeeper) forImage(w spawner.Workload) (secret.Text, error) {
	return d.issuer.Issue(workloadtoken.Claims{
		Workload: string(w.ID), Digest: w.Spec.Environment, Audiences: []workloadtoken.Audience{workloadtoken.Image},
	})
}

// uplink is spawner.Config.Uplink.
func (s *service) uplink(_ context.Context, w spawner.Workload) (*control.Uplink, error) {
	at := s.cfg.Uplink.At(server.LinkPath)
	if at.Host == "" {
		return nil, errs.New(errs.Missing, "%s cannot run on another host, which would not reach this service", w.ID).
			With("the administrator sets uplink.url in the configuration")
	}
	ca, err := s.cfg.Uplink.CA()
	if err != nil {
		return nil, err
	}
	token, err := s.doorkeeper().forRun(w)
	if err != nil {
		return nil, err
	}
	at.Scheme = map[string]string{"https": "wss", "http": "ws"}[at.Scheme]
	return &control.Uplink{
		URL: at.String(), Token: token.Reveal(), CA: ca, Image: s.cfg.Uplink.At("sif", w.Spec.Environment).String(),
	}, nil
}

// link is server.Config.Link.
func (s *service) link(w http.ResponseWriter, r *http.Request) error {
	return answerLink(s.doorkeeper(), s.links.Upgrade, w, r)
}

// answerLink lets an agent in to its workload's link.
func answerLink(door *doorkeeper, upgrade func(w http.ResponseWriter, r *http.Request, id string) error, w http.ResponseWriter, r *http.Request) error {
	_, token, given := registry.Credential(r)
	if !given {
		return errs.New(errs.Unauthorized, "this is where agents of other hosts connect").With("they carry a credential for it")
	}
	c, err := door.admit(r.Context(), token.Reveal(), workloadtoken.Link)
	if err != nil {
		return err
	}
	return upgrade(w, r, c.Workload)
}
