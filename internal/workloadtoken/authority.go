package workloadtoken

import (
	"context"

	"slipway/internal/errs"
	"slipway/internal/secret"
	"slipway/spawner"
)

// purpose names the key that signs credentials among those that come of the service's secret key.
const purpose = "credentials of workloads"

// Authority gives workloads their credentials, and lets in who comes with one: to a link, and to an image.
type Authority struct {
	issuer   *Issuer
	workload func(ctx context.Context, id spawner.ID) (spawner.Workload, error)
}

// NewAuthority makes an Authority of the service's secret key. workload returns a workload, whoever's it is.
func NewAuthority(
	box *secret.Box, workload func(ctx context.Context, id spawner.ID) (spawner.Workload, error),
) *Authority {
	return &Authority{issuer: New(box.Derive(purpose)), workload: workload}
}

// Admit returns what a credential says that was made for audience. Here it is found out that its workload is active, at
// each use, and that the workload's run is still the one that it was made for.
func (a *Authority) Admit(ctx context.Context, token string, audience Audience) (Claims, error) {
	c, err := a.issuer.Check(token, audience)
	if err != nil {
		return Claims{}, err
	}
	w, err := a.workload(ctx, spawner.ID(c.Workload))
	switch {
	case errs.Is(err, errs.NotFound) || err == nil && !w.Phase.Active():
		return Claims{}, errs.New(errs.Forbidden, "the credential is of no active job or session").
			With("it holds only while the job or session that it was made for is active")
	case err != nil:
		return Claims{}, err
	case c.Run == "" && audience == Image && c.Digest == w.Spec.Environment: // of whatever run
	case c.Run != w.Run() || c.Run == "":
		return Claims{}, errs.New(errs.Forbidden, "the credential is of another run of %s", w.ID).
			With("what still runs of the earlier one is to end: its place was taken")
	}
	return c, nil
}

// ForRun returns what an agent on another host carries: for this run of its workload alone, in the environment that it
// runs.
func (a *Authority) ForRun(w spawner.Workload) (secret.Text, error) {
	return a.issuer.Issue(Claims{
		Workload: string(w.ID), Run: w.Run(), Digest: w.Spec.Environment, Audiences: []Audience{Link, Image},
	})
}

// ForImage returns what opens a workload's environment alone, in whatever run of it.
func (a *Authority) ForImage(w spawner.Workload) (secret.Text, error) {
	return a.issuer.Issue(Claims{Workload: string(w.ID), Digest: w.Spec.Environment, Audiences: []Audience{Image}})
}
