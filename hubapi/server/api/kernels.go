package api

import (
	"context"
	"net/http"

	"github.com/go-chi/chi/v5"

	"slipway/hubapi/server/audit"
	"slipway/hubapi/server/web"
	"slipway/internal/errs"
	"slipway/kernels"
	"slipway/spawner"
)

// Gateway is what serves the kernels, made for whom find knows: tell notes what a request does.
type Gateway func(identify func(*http.Request) (spawner.Caller, error), tell func(context.Context, kernels.Deed)) http.Handler

// KernelHandlers serve kernels and their kernelspecs.
type KernelHandlers struct {
	web     *web.Core
	audit   *audit.Log
	menu    KernelMenu
	gateway Gateway
}

// KernelRoutes serves the gateway to kernels to whom find knows.
func (s *KernelHandlers) KernelRoutes(r chi.Router, find func(*http.Request) (spawner.Caller, error)) {
	if s.gateway == nil {
		return
	}
	r.Mount(web.KernelsPath, s.gateway(func(r *http.Request) (spawner.Caller, error) {
		c, err := find(r)
		if err == nil {
			web.Known(r.Context(), c)
			err = s.web.CountBody(r, c) // websockets have none, and are bounded by the gateway
		}
		return c, err
	}, s.tellOfKernel))
}

// tellOfKernel notes what a request to the gateway does. Who comes by a ticket is in the log, though she only looks:
// her websocket lasts.
func (s *KernelHandlers) tellOfKernel(ctx context.Context, d kernels.Deed) {
	e := audit.Of(ctx)
	if d.By != (spawner.Caller{}) {
		web.Known(ctx, d.By)
		e.Door = audit.DoorTicket
		s.audit.Write(
			ctx, d.By, audit.DoorTicket, "GET "+web.KernelsPath+"/api/kernels/{id}/channels",
			"a kernel's client is let in by the kernel's id", nil, "request", web.TraceOf(ctx).ID,
		)
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
