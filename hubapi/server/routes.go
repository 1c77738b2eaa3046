package server

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"slipway/hubapi"
	"slipway/hubapi/server/audit"
	"slipway/internal/errs"
)

// LinkPath is where agents of other hosts connect.
const LinkPath = hubapi.Base + "/link"

// Public serves the Hub, users, and through the session proxy everything else. No middleware here may clean a path: names in it
// are escaped, and empty segments have a meaning.
func (s *Server) Public() http.Handler {
	r := chi.NewRouter()
	r.Use(s.watch, s.recover, s.withPages, s.outpost, anyMethod(func() chi.Routes { return r }))
	r.Get("/healthz", s.health)
	r.Get("/readyz", s.readyz)
	r.Get("/metrics", s.cfg.Metrics.Handler().ServeHTTP)
	if s.cfg.Link != nil {
		r.Get(LinkPath, getOnly(s.plain(s.cfg.Link)))
	}
	s.openSSH(r)
	r.Route(hubapi.Base, func(r chi.Router) {
		r.Use(s.identify(s.byToken), s.bounded)
		s.api(r)
	})
	if s.cfg.Registry != nil {
		r.Handle("/v2", s.cfg.Registry)
		r.Handle("/v2/*", s.cfg.Registry)
		r.Handle("/sif/*", s.cfg.Registry)
	}
	s.kernelRoutes(r, s.byToken)
	r.NotFound(s.proxy.ServeHTTP)
	r.MethodNotAllowed(s.notAllowed)
	return r
}

// AgentAPI serves the API to programs inside workloads. Connections carry their workload (ConnContext).
func (s *Server) AgentAPI() http.Handler {
	r := chi.NewRouter()
	r.Use(s.watch, s.recover, anyMethod(func() chi.Routes { return r }))
	r.Route(hubapi.Base, func(r chi.Router) {
		r.Use(s.identify(s.byAgent), s.bounded)
		s.api(r)
	})
	s.kernelRoutes(r, s.byAgent)
	r.NotFound(s.noRoute)
	r.MethodNotAllowed(s.notAllowed)
	return r
}

// AgentHub lets workloads reach their Hub's REST API, and nothing else.
func (s *Server) AgentHub() http.Handler {
	return chi.Chain(s.watch, s.recover).Handler(s.newHubAPIProxy())
}

// api has every route of the native API.
func (s *Server) api(r chi.Router) {
	r.NotFound(s.noRoute)
	r.Get("/me", serve(s, 200, s.me))
	r.Get("/profiles", serve(s, 200, s.profiles))
	r.Get("/gpus", s.plain(s.gpus))
	r.Get("/gpus/pool", s.plain(s.poolGPUs))
	r.Post("/gpus/{gpu}/drain", serve(s, 200, s.drainGPU))
	r.Post("/gpus/{gpu}/resume", serve(s, 200, s.resumeGPU))
	r.Get("/spawn-form", s.plain(s.spawnForm))
	r.Get("/data", serve(s, 200, s.storages))
	r.Get("/data/url", serve(s, 200, s.dataURL))
	r.Get("/quota", serve(s, 200, s.quota))
	s.doctorRoutes(r)
	s.menuRoutes(r)

	r.Get("/sessions", serve(s, 200, s.listSessions))
	r.Post("/sessions", serve(s, 202, audit.Told(s.startSession, auditSession)))
	r.Delete("/sessions", serve(s, 204, s.removeSessionsOf))
	r.Post("/servers", s.plain(s.startServer))
	r.Get("/sessions/{id}", serve(s, 200, s.session))
	r.Delete("/sessions/{id}", serve(s, 204, s.removeSession))
	r.Get("/sessions/{id}/wait", getOnly(serve(s, 200, s.waitSession)))
	r.Post("/sessions/{id}/stop", serve(s, 200, s.stopSession))
	r.Post("/sessions/{id}/keep", serve(s, 200, s.keepSession))
	r.Get("/sessions/{id}/gpu", serve(s, 200, s.sessionGPU))
	r.Get("/sessions/{id}/events", getOnly(s.plain(s.sessionEvents)))
	r.Get("/sessions/{id}/log", getOnly(s.plain(s.sessionLog)))
	r.Post("/sessions/{id}/freeze", s.plain(s.freeze))

	r.Get("/environments", serve(s, 200, s.listEnvironments))
	r.Route("/environments/{ref}", s.environmentRoutes)
	r.Post("/environment-pulls", s.plain(s.pullEnvironment))
	r.Post("/environment-credentials", s.plain(s.environmentCredential))
	r.Get("/environment-usage", serve(s, 200, s.environmentUsage))
	r.Post("/environment-sweep", serve(s, 200, audit.Told(s.sweepEnvironments, auditSwept)))

	r.Route("/ssh", s.sshRoutes)
	s.credentialRoutes(r)
	s.whoRoutes(r)

	r.Get("/jobs", serve(s, 200, s.listJobs))
	r.Post("/jobs", serve(s, 202, audit.Told(s.submit, auditSubmitted)))
	r.Post("/jobs/check", serve(s, 200, s.checkJob))
	r.Get("/jobs/usage", serve(s, 200, s.jobsUsage))
	r.Get("/jobs/{id}", serve(s, 200, s.job))
	r.Delete("/jobs/{id}", serve(s, 204, s.removeJob))
	r.Post("/jobs/{id}/cancel", serve(s, 202, s.changeJob(s.cfg.Engine.Stop)))
	r.Post("/jobs/{id}/hold", serve(s, 202, s.changeJob(s.cfg.Engine.Hold)))
	r.Post("/jobs/{id}/release", serve(s, 202, s.changeJob(s.cfg.Engine.Release)))
	r.Post("/jobs/{id}/requeue", serve(s, 202, s.changeJob(s.cfg.Engine.Requeue)))
	r.Post("/jobs/{id}/retry", serve(s, 202, s.retryJob))
	r.Post("/jobs/{id}/resubmit", serve(s, 202, audit.Told(s.resubmitJob, auditJobAnew)))
	r.Get("/jobs/{id}/why", serve(s, 200, s.whyJob))
	r.Get("/jobs/{id}/gpu", serve(s, 200, s.jobGPU))
	r.Get("/jobs/{id}/events", getOnly(s.plain(s.jobEvents)))
	r.Get("/jobs/{id}/log", getOnly(s.plain(s.jobLog)))
	r.Get("/jobs/{id}/files", serve(s, 200, s.jobFiles))
	r.Get("/jobs/{id}/files/{name}", s.plain(s.jobFile))
	r.Put("/blobs/{digest}", s.plain(s.putBlob))
	r.Head("/blobs/{digest}", s.plain(s.hasBlob))

	r.Get("/scans/{id}", serve(s, 200, s.getScan))
	r.Delete("/scans/{id}", serve(s, 202, s.changeScan(s.removeEnded, anyPoint)))
	r.Post("/scans/{id}/cancel", serve(s, 202, s.changeScan(s.cfg.Engine.Stop, active)))
	r.Post("/scans/{id}/hold", serve(s, 202, s.changeScan(s.cfg.Engine.Hold, notHeld)))
	r.Post("/scans/{id}/release", serve(s, 202, s.changeScan(s.releaseHeld, active)))
	r.Post("/scans/{id}/requeue", serve(s, 202, s.changeScan(s.cfg.Engine.Requeue, running)))
	r.Post("/scans/{id}/retry", serve(s, 202, s.retryScan))
	r.Post("/scans/{id}/resubmit", serve(s, 202, audit.Told(s.resubmitScan, auditScanAnew)))
	r.Get("/scans/{id}/why", serve(s, 200, s.whyScan))
	r.Get("/scans/{id}/events", getOnly(s.plain(s.scanEvents)))
}

func (s *Server) noRoute(w http.ResponseWriter, r *http.Request) {
	s.refuse(w, r, errs.New(errs.NotFound, "there is no such route in %s", hubapi.Base))
}

func (s *Server) notAllowed(w http.ResponseWriter, r *http.Request) {
	s.refuse(w, r, errs.New(errs.NotFound, "the route does not take %s", r.Method))
}
