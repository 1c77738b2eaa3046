package api

import (
	"github.com/go-chi/chi/v5"

	"slipway/hubapi/server/audit"
	"slipway/hubapi/server/web"
)

// Routes has every route of the native API.
func (s *API) Routes(r chi.Router) {
	r.NotFound(s.web.NoRoute)
	r.Get("/me", web.Serve(s.web, 200, s.me))
	r.Get("/profiles", web.Serve(s.web, 200, s.profiles))
	r.Get("/gpus", s.web.Plain(s.gpus))
	r.Get("/gpus/pool", s.web.Plain(s.poolGPUs))
	r.Post("/gpus/{gpu}/drain", web.Serve(s.web, 200, s.drainGPU))
	r.Post("/gpus/{gpu}/resume", web.Serve(s.web, 200, s.resumeGPU))
	r.Get("/data", web.Serve(s.web, 200, s.storages))
	r.Get("/data/url", web.Serve(s.web, 200, s.dataURL))
	r.Get("/quota", web.Serve(s.web, 200, s.quota))
	s.doctorRoutes(r)
	s.menuRoutes(r)

	r.Get("/sessions", web.Serve(s.web, 200, s.listSessions))
	r.Post("/sessions", web.Serve(s.web, 202, audit.Told(s.startSession, auditSession)))
	r.Delete("/sessions", web.Serve(s.web, 204, s.removeSessionsOf))
	r.Post("/servers", s.web.Plain(s.startServer))
	r.Get("/sessions/{id}", web.Serve(s.web, 200, s.session))
	r.Delete("/sessions/{id}", web.Serve(s.web, 204, s.removeSession))
	r.Get("/sessions/{id}/wait", web.GetOnly(web.Serve(s.web, 200, s.waitSession)))
	r.Post("/sessions/{id}/stop", web.Serve(s.web, 200, s.stopSession))
	r.Post("/sessions/{id}/keep", web.Serve(s.web, 200, s.keepSession))
	r.Get("/sessions/{id}/gpu", web.Serve(s.web, 200, s.sessionGPU))
	r.Get("/sessions/{id}/events", web.GetOnly(s.web.Plain(s.sessionEvents)))
	r.Get("/sessions/{id}/log", web.GetOnly(s.web.Plain(s.sessionLog)))
	r.Post("/sessions/{id}/freeze", s.web.Plain(s.freeze))

	r.Get("/environments", web.Serve(s.web, 200, s.listEnvironments))
	r.Route("/environments/{ref}", s.environmentRoutes)
	r.Post("/environment-pulls", s.web.Plain(s.pullEnvironment))
	r.Post("/environment-credentials", s.web.Plain(s.environmentCredential))
	r.Get("/environment-usage", web.Serve(s.web, 200, s.environmentUsage))
	r.Post("/environment-sweep", web.Serve(s.web, 200, audit.Told(s.sweepEnvironments, auditSwept)))

	r.Route("/ssh", s.sshRoutes)
	s.credentialRoutes(r)
	s.whoRoutes(r)

	r.Get("/jobs", web.Serve(s.web, 200, s.listJobs))
	r.Post("/jobs", web.Serve(s.web, 202, audit.Told(s.submit, auditSubmitted)))
	r.Post("/jobs/check", web.Serve(s.web, 200, s.checkJob))
	r.Get("/jobs/usage", web.Serve(s.web, 200, s.jobsUsage))
	r.Get("/jobs/{id}", web.Serve(s.web, 200, s.job))
	r.Delete("/jobs/{id}", web.Serve(s.web, 204, s.removeJob))
	r.Post("/jobs/{id}/cancel", web.Serve(s.web, 202, s.changeJob(s.cfg.Workloads.Stop)))
	r.Post("/jobs/{id}/hold", web.Serve(s.web, 202, s.changeJob(s.cfg.Jobs.Hold)))
	r.Post("/jobs/{id}/release", web.Serve(s.web, 202, s.changeJob(s.cfg.Jobs.Release)))
	r.Post("/jobs/{id}/requeue", web.Serve(s.web, 202, s.changeJob(s.cfg.Jobs.Requeue)))
	r.Post("/jobs/{id}/retry", web.Serve(s.web, 202, s.retryJob))
	r.Post("/jobs/{id}/resubmit", web.Serve(s.web, 202, audit.Told(s.resubmitJob, auditJobAnew)))
	r.Get("/jobs/{id}/why", web.Serve(s.web, 200, s.whyJob))
	r.Get("/jobs/{id}/gpu", web.Serve(s.web, 200, s.jobGPU))
	r.Get("/jobs/{id}/events", web.GetOnly(s.web.Plain(s.jobEvents)))
	r.Get("/jobs/{id}/log", web.GetOnly(s.web.Plain(s.jobLog)))
	r.Get("/jobs/{id}/files", web.Serve(s.web, 200, s.jobFiles))
	r.Get("/jobs/{id}/files/{name}", s.web.Plain(s.jobFile))
	r.Put("/blobs/{digest}", s.web.Plain(s.putBlob))
	r.Head("/blobs/{digest}", s.web.Plain(s.hasBlob))

	r.Get("/scans/{id}", web.Serve(s.web, 200, s.GetScan))
	r.Delete("/scans/{id}", web.Serve(s.web, 202, s.ChangeScan(s.RemoveEnded, anyPoint)))
	r.Post("/scans/{id}/cancel", web.Serve(s.web, 202, s.ChangeScan(s.cfg.Workloads.Stop, Active)))
	r.Post("/scans/{id}/hold", web.Serve(s.web, 202, s.ChangeScan(s.cfg.Jobs.Hold, NotHeld)))
	r.Post("/scans/{id}/release", web.Serve(s.web, 202, s.ChangeScan(s.ReleaseHeld, Active)))
	r.Post("/scans/{id}/requeue", web.Serve(s.web, 202, s.ChangeScan(s.cfg.Jobs.Requeue, Running)))
	r.Post("/scans/{id}/retry", web.Serve(s.web, 202, s.retryScan))
	r.Post("/scans/{id}/resubmit", web.Serve(s.web, 202, audit.Told(s.resubmitScan, auditScanAnew)))
	r.Get("/scans/{id}/why", web.Serve(s.web, 200, s.WhyScan))
	r.Get("/scans/{id}/events", web.GetOnly(s.web.Plain(s.scanEvents)))
}
