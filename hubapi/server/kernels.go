package server

import (
	"context"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"slipway/hubapi/server/audit"
	"slipway/internal/errs"
	"slipway/kernels"
	"slipway/spawner"
)

// kernelsPath is where Jupyter Servers find the gateway to kernels, as their --gateway-url.
const kernelsPath = "/kernels"

// Gateway is what serves the kernels, made for whom find knows: tell notes what a request does.
type Gateway func(identify func(*http.Request) (spawner.Caller, error), tell func(context.Context, kernels.Deed)) http.Handler

// kernelRoutes serves the gateway to kernels to whom find knows.
func (s *Server) kernelRoutes(r chi.Router, find func(*http.Request) (spawner.Caller, error)) {
	if s.cfg.Kernels == nil {
		return
	}
	r.Mount(kernelsPath, s.cfg.Kernels(func(r *http.Request) (spawner.Caller, error) {
		c, err := find(r)
		if err == nil {
			known(r.Context(), c)
			err = s.awaitBody(r, c)
		}
		return c, err
	}, s.tellOfKernel))
}

// awaitBody counts the body of a request for as long as it is served. Websockets have none, and are bounded by the gateway.
func (s *Server) awaitBody(r *http.Request, c spawner.Caller) error {
	if weight(r) == 0 {
		return nil
	}
	release, err := s.budget.take(c, weight(r))
	if err == nil {
		context.AfterFunc(r.Context(), release)
	}
	return err
}

// tellOfKernel notes what a request to the gateway does. Who comes by a ticket is in the log, though she only looks: her websocket lasts.
func (s *Server) tellOfKernel(ctx context.Context, d kernels.Deed) {
	e := audit.Of(ctx)
	if d.By != (spawner.Caller{}) {
		known(ctx, d.By)
		e.Door = audit.DoorTicket
		s.Audit.Write(ctx, d.By, audit.DoorTicket, "GET "+kernelsPath+"/api/kernels/{id}/channels", "a kernel's client is let in by the kernel's id", nil, "request", traceOf(ctx).id)
	}
	if d.Kernel != "" {
		e.Which = []any{"kernel", d.Kernel}
	}
	if d.Ended != "" {
		e.Ended = append(e.Ended, d.Ended)
	}
	if d.Err != nil {
		e.Wrong = errs.Brief(d.Err)
	}
}

// ofKernels reports whether a route is the gateway's.
func ofKernels(route string) bool { return strings.HasPrefix(route, kernelsPath+"/") }
