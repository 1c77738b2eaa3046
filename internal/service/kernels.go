package service

import (
	"context"
	"net"
	"net/http"

	"slipway/hubapi/server/api"
	"slipway/internal/metrics"
	"slipway/internal/tunnel"
	gateway "slipway/kernels"
	"slipway/kernels/kernelspecs"
	"slipway/spawner"
)

// kernelGateway makes what serves the site's kernels; nil where it offers none.
func (s *service) kernelGateway(offers *kernelspecs.Catalog) api.Gateway {
	if len(s.cfg.Kernels.Specs) == 0 {
		return nil
	}
	links := agents{s.links}
	return func(identify func(*http.Request) (spawner.Caller, error), tell func(context.Context, gateway.Deed)) http.Handler {
		return gateway.New(gateway.Config{
			Engine: s.workloads, Specs: offers.Specs, Identify: identify, Tell: tell, Logger: s.log, Lines: s.lines,
			Journal: s.journal, Traffic: &s.traffic, NoTickets: !s.cfg.Kernels.Tickets,
			Agent: func(id spawner.ID) gateway.Agent { return links.client(id) },
			Dial: func(ctx context.Context, id spawner.ID) (net.Conn, error) {
				return links.dial(ctx, id, tunnel.DoorKernel)
			},
		})
	}
}

// kernelTraffic says what the gateway to kernels carries; nil where the site offers none.
func (s *service) kernelTraffic() func() metrics.Kernels {
	if len(s.cfg.Kernels.Specs) == 0 {
		return nil
	}
	t := &s.traffic
	return func() metrics.Kernels {
		return metrics.Kernels{
			Sockets: t.Sockets.Load(), Heard: t.Heard.Load(), Told: t.Told.Load(), HeardBytes: t.HeardBytes.Load(),
			ToldBytes: t.ToldBytes.Load(),
		}
	}
}

// menuOf returns the API what there is to choose from; nil where the site offers no kernels.
func (s *service) menuOf(offers *kernelspecs.Catalog) api.KernelMenu {
	if len(s.cfg.Kernels.Specs) == 0 {
		return nil
	}
	return offers
}
