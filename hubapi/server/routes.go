package server

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"slipway/hubapi"
	"slipway/hubapi/server/audit"
	"slipway/hubapi/server/web"
)

// LinkPath is where agents of other hosts connect.
const LinkPath = hubapi.Base + "/link"

// Public serves the Hub, users, and through the session proxy everything else. No middleware here may clean a path: names in it
// are escaped, and empty segments have a meaning.
func (s *Server) Public() http.Handler {
	r := chi.NewRouter()
	r.Use(s.Web.Watch, s.Web.Recover, s.withPages, s.Outpost.Middleware, web.AnyMethod(func() chi.Routes { return r }))
	r.Get("/healthz", s.health)
	r.Get("/readyz", s.readyz)
	r.Get("/metrics", s.cfg.Metrics.Handler().ServeHTTP)
	if s.cfg.Link != nil {
		r.Get(LinkPath, web.GetOnly(s.Web.Plain(s.cfg.Link)))
	}
	s.openSSH(r)
	r.Route(hubapi.Base, func(r chi.Router) {
		r.Use(s.Web.Authenticate(s.Web.ByToken), s.Web.Bounded)
		s.api(r)
	})
	if s.cfg.Registry != nil {
		r.Handle("/v2", s.cfg.Registry)
		r.Handle("/v2/*", s.cfg.Registry)
		r.Handle("/sif/*", s.cfg.Registry)
	}
	s.kernelRoutes(r, s.Web.ByToken)
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
		s.api(r)
	})
	s.kernelRoutes(r, s.Web.ByAgent)
	r.NotFound(s.Web.NoRoute)
	r.MethodNotAllowed(s.Web.NotAllowed)
	return r
}

// AgentHub lets workloads reach their Hub's REST API, and nothing else.
func (s *Server) AgentHub() http.Handler {
	return chi.Chain(s.Web.Watch, s.Web.Recover).Handler(s.proxy.HubAPI())
}

// api has every route of the native API.
func (s *Server) api(r chi.Router) {
	r.NotFound(s.Web.NoRoute)
	r.Get("/me", web.Serve(s.Web, 200, s.me))
	r.Get("/profiles", web.Serve(s.Web, 200, s.profiles))
	r.Get("/gpus", s.Web.Plain(s.gpus))
	r.Get("/gpus/pool", s.Web.Plain(s.poolGPUs))
	r.Post("/gpus/{gpu}/drain", web.Serve(s.Web, 200, s.drainGPU))
	r.Post("/gpus/{gpu}/resume", web.Serve(s.Web, 200, s.resumeGPU))
	r.Get("/spawn-form", s.Web.Plain(s.spawnForm))
	r.Get("/data", web.Serve(s.Web, 200, s.storages))
	r.Get("/data/url", web.Serve(s.Web, 200, s.dataURL))
	r.Get("/quota", web.Serve(s.Web, 200, s.quota))
	s.doctorRoutes(r)
	s.menuRoutes(r)

	r.Get("/sessions", web.Serve(s.Web, 200, s.listSessions))
	r.Post("/sessions", web.Serve(s.Web, 202, audit.Told(s.startSession, auditSession)))
	r.Delete("/sessions", web.Serve(s.Web, 204, s.removeSessionsOf))
	r.Post("/servers", s.Web.Plain(s.startServer))
	r.Get("/sessions/{id}", web.Serve(s.Web, 200, s.session))
	r.Delete("/sessions/{id}", web.Serve(s.Web, 204, s.removeSession))
	r.Get("/sessions/{id}/wait", web.GetOnly(web.Serve(s.Web, 200, s.waitSession)))
	r.Post("/sessions/{id}/stop", web.Serve(s.Web, 200, s.stopSession))
	r.Post("/sessions/{id}/keep", web.Serve(s.Web, 200, s.keepSession))
	r.Get("/sessions/{id}/gpu", web.Serve(s.Web, 200, s.sessionGPU))
	r.Get("/sessions/{id}/events", web.GetOnly(s.Web.Plain(s.sessionEvents)))
	r.Get("/sessions/{id}/log", web.GetOnly(s.Web.Plain(s.sessionLog)))
	r.Post("/sessions/{id}/freeze", s.Web.Plain(s.freeze))

	r.Get("/environments", web.Serve(s.Web, 200, s.listEnvironments))
	r.Route("/environments/{ref}", s.environmentRoutes)
	r.Post("/environment-pulls", s.Web.Plain(s.pullEnvironment))
	r.Post("/environment-credentials", s.Web.Plain(s.environmentCredential))
	r.Get("/environment-usage", web.Serve(s.Web, 200, s.environmentUsage))
	r.Post("/environment-sweep", web.Serve(s.Web, 200, audit.Told(s.sweepEnvironments, auditSwept)))

	r.Route("/ssh", s.sshRoutes)
	s.credentialRoutes(r)
	s.whoRoutes(r)

	r.Get("/jobs", web.Serve(s.Web, 200, s.listJobs))
	r.Post("/jobs", web.Serve(s.Web, 202, audit.Told(s.submit, auditSubmitted)))
	r.Post("/jobs/check", web.Serve(s.Web, 200, s.checkJob))
	r.Get("/jobs/usage", web.Serve(s.Web, 200, s.jobsUsage))
	r.Get("/jobs/{id}", web.Serve(s.Web, 200, s.job))
	r.Delete("/jobs/{id}", web.Serve(s.Web, 204, s.removeJob))
	r.Post("/jobs/{id}/cancel", web.Serve(s.Web, 202, s.changeJob(s.cfg.Engine.Stop)))
	r.Post("/jobs/{id}/hold", web.Serve(s.Web, 202, s.changeJob(s.cfg.Engine.Hold)))
	r.Post("/jobs/{id}/release", web.Serve(s.Web, 202, s.changeJob(s.cfg.Engine.Release)))
	r.Post("/jobs/{id}/requeue", web.Serve(s.Web, 202, s.changeJob(s.cfg.Engine.Requeue)))
	r.Post("/jobs/{id}/retry", web.Serve(s.Web, 202, s.retryJob))
	r.Post("/jobs/{id}/resubmit", web.Serve(s.Web, 202, audit.Told(s.resubmitJob, auditJobAnew)))
	r.Get("/jobs/{id}/why", web.Serve(s.Web, 200, s.whyJob))
	r.Get("/jobs/{id}/gpu", web.Serve(s.Web, 200, s.jobGPU))
	r.Get("/jobs/{id}/events", web.GetOnly(s.Web.Plain(s.jobEvents)))
	r.Get("/jobs/{id}/log", web.GetOnly(s.Web.Plain(s.jobLog)))
	r.Get("/jobs/{id}/files", web.Serve(s.Web, 200, s.jobFiles))
	r.Get("/jobs/{id}/files/{name}", s.Web.Plain(s.jobFile))
	r.Put("/blobs/{digest}", s.Web.Plain(s.putBlob))
	r.Head("/blobs/{digest}", s.Web.Plain(s.hasBlob))

	r.Get("/scans/{id}", web.Serve(s.Web, 200, s.getScan))
	r.Delete("/scans/{id}", web.Serve(s.Web, 202, s.changeScan(s.removeEnded, anyPoint)))
	r.Post("/scans/{id}/cancel", web.Serve(s.Web, 202, s.changeScan(s.cfg.Engine.Stop, active)))
	r.Post("/scans/{id}/hold", web.Serve(s.Web, 202, s.changeScan(s.cfg.Engine.Hold, notHeld)))
	r.Post("/scans/{id}/release", web.Serve(s.Web, 202, s.changeScan(s.releaseHeld, active)))
	r.Post("/scans/{id}/requeue", web.Serve(s.Web, 202, s.changeScan(s.cfg.Engine.Requeue, running)))
	r.Post("/scans/{id}/retry", web.Serve(s.Web, 202, s.retryScan))
	r.Post("/scans/{id}/resubmit", web.Serve(s.Web, 202, audit.Told(s.resubmitScan, auditScanAnew)))
	r.Get("/scans/{id}/why", web.Serve(s.Web, 200, s.whyScan))
	r.Get("/scans/{id}/events", web.GetOnly(s.Web.Plain(s.scanEvents)))
}
