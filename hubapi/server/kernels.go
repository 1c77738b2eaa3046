package server

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"slipway/spawner"
)

// kernelsPath is where Jupyter Servers find the gateway to kernels, as their --gateway-url.
const kernelsPath = "/kernels"

// kernelRoutes serves the gateway to kernels to whom find knows.
func (s *Server) kernelRoutes(r chi.Router, find func(*http.Request) (spawner.Caller, error)) {
	if s.cfg.Kernels == nil {
		return
	}
	r.Mount(kernelsPath, s.cfg.Kernels(func(r *http.Request) (spawner.Caller, error) {
		c, err := find(r)
		if err == nil {
			t := traceOf(r.Context())
			t.caller, t.deed.caller = callerName(c), c
		}
		return c, err
	}))
}
