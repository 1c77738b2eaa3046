package server

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"slipway/hubapi"
	"slipway/hubapi/server/web"
)

// LinkPath is where agents of other hosts connect.
const LinkPath = hubapi.Base + "/link"

// Public serves the Hub, users, and through the session proxy everything else. No middleware here may clean a path:
// names in it are escaped, and empty segments have a meaning.
func (s *Server) Public() http.Handler {
	r := chi.NewRouter()
	r.Use(
		s.Web.Watch, s.Web.Recover, s.pages.Middleware, s.Outpost.Middleware,
		web.AnyMethod(func() chi.Routes { return r }),
	)
	r.Get("/healthz", s.health)
	r.Get("/readyz", s.readyz)
	r.Get("/metrics", s.cfg.Metrics.Handler().ServeHTTP)
	if s.cfg.Link != nil {
		r.Get(LinkPath, web.GetOnly(s.Web.Plain(s.cfg.Link)))
	}
	s.API.SSH.OpenSSH(r)
	s.logins.Open(r)
	s.API.DocumentRoutes(r)
	r.Route(hubapi.Base, func(r chi.Router) {
		r.Use(s.Web.Authenticate(s.Web.ByToken), s.Web.Bounded)
		s.API.Routes(r)
		s.usage.Routes(r)
		s.logins.Routes(r)
		r.Get("/spawn-form", s.Web.Plain(s.pages.SpawnForm))
	})
	if s.cfg.Registry != nil {
		r.Handle("/v2", s.cfg.Registry)
		r.Handle("/v2/*", s.cfg.Registry)
		r.Handle("/sif/*", s.cfg.Registry)
	}
	s.API.Kernels.KernelRoutes(r, s.Web.ByToken)
	r.NotFound(s.proxy.ServeHTTP)
	r.MethodNotAllowed(s.Web.NotAllowed)
	return r
}

// AgentAPI serves the API to programs inside workloads. Connections carry their workload (ConnContext).
func (s *Server) AgentAPI() http.Handler {
	r := chi.NewRouter()
	r.Use(s.Web.Watch, s.Web.Recover, web.AnyMethod(func() chi.Routes { return r }))
	r.Route(hubapi.Base, func(r chi.Router) {
		r.Use(s.Web.Authenticate(s.Web.ByAgent), s.Web.Bounded)
		s.API.Routes(r)
		s.usage.Routes(r)
		s.logins.Routes(r)
		r.Get("/spawn-form", s.Web.Plain(s.pages.SpawnForm))
	})
	s.API.Kernels.KernelRoutes(r, s.Web.ByAgent)
	r.NotFound(s.Web.NoRoute)
	r.MethodNotAllowed(s.Web.NotAllowed)
	return r
}

// AgentHub lets workloads reach their Hub's REST API, and nothing else.
func (s *Server) AgentHub() http.Handler {
	return chi.Chain(s.Web.Watch, s.Web.Recover).Handler(s.proxy.HubAPI())
}
