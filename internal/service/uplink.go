package service

import (
	"context"
	"net/http"

	"slipway/hubapi/server"
	"slipway/images/registry"
	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/internal/workloadtoken"
	"slipway/spawner"
)

// authority gives workloads of other hosts their credentials, and lets them in.
func (s *service) authority() *workloadtoken.Authority {
	return workloadtoken.NewAuthority(s.box, func(ctx context.Context, id spawner.ID) (spawner.Workload, error) {
		return s.engine.Get(ctx, spawner.Caller{System: true}, id)
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
	token, err := s.authority().ForRun(w)
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
	return answerLink(s.authority(), s.links.Upgrade, w, r)
}

// answerLink lets an agent in to its workload's link.
func answerLink(
	authority *workloadtoken.Authority, upgrade func(w http.ResponseWriter, r *http.Request, id string) error,
	w http.ResponseWriter, r *http.Request,
) error {
	_, token, given := registry.Credential(r)
	if !given {
		return errs.New(errs.Unauthorized, "this is where agents of other hosts connect").
			With("they carry a credential for it")
	}
	c, err := authority.Admit(r.Context(), token.Reveal(), workloadtoken.Link)
	if err != nil {
		return err
	}
	return upgrade(w, r, c.Workload)
}
