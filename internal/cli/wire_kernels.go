//go:build linux

package cli

import (
	"context"
	"net"
	"net/http"
	"time"

	"slipway/internal/tunnel"
	gateway "slipway/kernels"
	"slipway/spawner"
)

// kernelGateway makes what serves the site's kernels; nil where it offers none.
func (s *service) kernelGateway() func(identify func(*http.Request) (spawner.Caller, error)) http.Handler {
	if len(s.cfg.Kernels.Specs) == 0 {
		return nil
	}
	links := agents{s.links}
	return func(identify func(*http.Request) (spawner.Caller, error)) http.Handler {
		return gateway.New(gateway.Config{
			Engine: s.engine, Specs: s.kernelSpecs, Identify: identify, Logger: s.log,
			Agent: func(id spawner.ID) gateway.Agent { return links.client(id) },
			Dial: func(ctx context.Context, id spawner.ID) (net.Conn, error) {
				return links.dial(ctx, id, tunnel.DoorKernel)
			},
		})
	}
}

// kernelSpecs gives the kernels that a user may start: those whose profile is open to her.
func (s *service) kernelSpecs(c spawner.Caller) (list []gateway.Spec) {
	offers := s.engine.Offers(c.Hub, c.User)
	for _, k := range s.cfg.Kernels.Specs {
		_, spec, err := offers.Resolve(map[string]any{"profile": k.Profile, "image": k.Image})
		if err != nil {
			continue
		}
		spec.Argv, spec.Interrupt, spec.Ready = k.Argv, k.Interrupt, ""
		spec.Life.Idle, spec.Life.FirstConnect = time.Duration(k.IdleLimit), 0
		list = append(list, gateway.Spec{Name: k.Name, DisplayName: k.DisplayName, Language: k.Language, Session: spec, Backend: offers.Backend(k.Profile)})
	}
	return list
}
