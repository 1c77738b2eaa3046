package api

import (
	"github.com/go-chi/chi/v5"

	"slipway/hubapi/server/audit"
	"slipway/hubapi/server/web"
)

// Routes has every route of the native API.
func (s *API) Routes(r chi.Router) {
	r.NotFound(s.cfg.Web.NoRoute)
	r.Method("GET", "/me", web.Serve(s.cfg.Web, 200, s.me))
	r.Method("GET", "/profiles", web.Serve(s.cfg.Web, 200, s.profiles))
	r.Method("GET", "/gpus", s.cfg.Web.Plain(s.gpus))
	r.Method("GET", "/gpus/pool", s.cfg.Web.Plain(s.poolGPUs))
	r.Method("POST", "/gpus/{gpu}/drain", web.Serve(s.cfg.Web, 200, s.drainGPU))
	r.Method("POST", "/gpus/{gpu}/resume", web.Serve(s.cfg.Web, 200, s.resumeGPU))
	r.Method("GET", "/data", web.Serve(s.cfg.Web, 200, s.storages))
	r.Method("GET", "/data/url", web.Serve(s.cfg.Web, 200, s.dataURL))
	r.Method("GET", "/quota", web.Serve(s.cfg.Web, 200, s.quota))
	s.doctorRoutes(r)
	s.menuRoutes(r)

	r.Method("GET", "/sessions", web.Serve(s.cfg.Web, 200, s.listSessions))
	r.Method("POST", "/sessions", web.Serve(s.cfg.Web, 202, audit.Told(s.startSession, auditSession)))
	r.Method("DELETE", "/sessions", web.Serve(s.cfg.Web, 204, s.removeSessionsOf))
	r.Method("POST", "/servers", s.cfg.Web.Plain(s.startServer))
	r.Method("GET", "/sessions/{id}", web.Serve(s.cfg.Web, 200, s.session))
	r.Method("DELETE", "/sessions/{id}", web.Serve(s.cfg.Web, 204, s.removeSession))
	r.Method("GET", "/sessions/{id}/wait", web.Serve(s.cfg.Web, 200, s.waitSession).GetOnly())
	r.Method("POST", "/sessions/{id}/stop", web.Serve(s.cfg.Web, 200, s.stopSession))
	r.Method("POST", "/sessions/{id}/keep", web.Serve(s.cfg.Web, 200, s.keepSession))
	r.Method("GET", "/sessions/{id}/gpu", web.Serve(s.cfg.Web, 200, s.sessionGPU))
	r.Method("GET", "/sessions/{id}/events", web.GetOnly(s.cfg.Web.Plain(s.sessionEvents)))
	r.Method("GET", "/sessions/{id}/log", web.GetOnly(s.cfg.Web.Plain(s.sessionLog)))
	r.Method("POST", "/sessions/{id}/freeze", s.cfg.Web.Plain(s.freeze))

	r.Method("GET", "/environments", web.Serve(s.cfg.Web, 200, s.listEnvironments))
	r.Route("/environments/{ref}", s.environmentRoutes)
	r.Method("POST", "/environment-pulls", s.cfg.Web.Plain(s.pullEnvironment))
	r.Method("POST", "/environment-credentials", s.cfg.Web.Plain(s.environmentCredential))
	r.Method("GET", "/environment-usage", web.Serve(s.cfg.Web, 200, s.environmentUsage))
	r.Method("POST", "/environment-sweep", web.Serve(s.cfg.Web, 200, audit.Told(s.sweepEnvironments, auditSwept)))

	r.Route("/ssh", s.sshRoutes)
	s.credentialRoutes(r)
	s.whoRoutes(r)

	r.Method("GET", "/jobs", web.Serve(s.cfg.Web, 200, s.listJobs))
	r.Method("POST", "/jobs", web.Serve(s.cfg.Web, 202, audit.Told(s.submit, auditSubmitted)))
	r.Method("POST", "/jobs/check", web.Serve(s.cfg.Web, 200, s.checkJob))
	r.Method("GET", "/jobs/usage", web.Serve(s.cfg.Web, 200, s.jobsUsage))
	r.Method("GET", "/jobs/{id}", web.Serve(s.cfg.Web, 200, s.job))
	r.Method("DELETE", "/jobs/{id}", web.Serve(s.cfg.Web, 204, s.removeJob))
	r.Method("POST", "/jobs/{id}/cancel", web.Serve(s.cfg.Web, 202, s.changeJob(s.cfg.Workloads.Stop)))
	r.Method("POST", "/jobs/{id}/hold", web.Serve(s.cfg.Web, 202, s.changeJob(s.cfg.Jobs.Hold)))
	r.Method("POST", "/jobs/{id}/release", web.Serve(s.cfg.Web, 202, s.changeJob(s.cfg.Jobs.Release)))
	r.Method("POST", "/jobs/{id}/requeue", web.Serve(s.cfg.Web, 202, s.changeJob(s.cfg.Jobs.Requeue)))
	r.Method("POST", "/jobs/{id}/retry", web.Serve(s.cfg.Web, 202, s.retryJob))
	r.Method("POST", "/jobs/{id}/resubmit", web.Serve(s.cfg.Web, 202, audit.Told(s.resubmitJob, auditJobAnew)))
	r.Method("GET", "/jobs/{id}/why", web.Serve(s.cfg.Web, 200, s.whyJob))
	r.Method("GET", "/jobs/{id}/gpu", web.Serve(s.cfg.Web, 200, s.jobGPU))
	r.Method("GET", "/jobs/{id}/events", web.GetOnly(s.cfg.Web.Plain(s.jobEvents)))
	r.Method("GET", "/jobs/{id}/log", web.GetOnly(s.cfg.Web.Plain(s.jobLog)))
	r.Method("GET", "/jobs/{id}/files", web.Serve(s.cfg.Web, 200, s.jobFiles))
	r.Method("GET", "/jobs/{id}/files/{name}", s.cfg.Web.Plain(s.jobFile))
	r.Method("PUT", "/blobs/{digest}", s.cfg.Web.Plain(s.putBlob))
	r.Method("HEAD", "/blobs/{digest}", s.cfg.Web.Plain(s.hasBlob))

	r.Method("GET", "/scans/{id}", web.Serve(s.cfg.Web, 200, s.GetScan))
	r.Method("DELETE", "/scans/{id}", web.Serve(s.cfg.Web, 202, s.ChangeScan(s.RemoveEnded, anyPoint)))
	r.Method("POST", "/scans/{id}/cancel", web.Serve(s.cfg.Web, 202, s.ChangeScan(s.cfg.Workloads.Stop, Active)))
	r.Method("POST", "/scans/{id}/hold", web.Serve(s.cfg.Web, 202, s.ChangeScan(s.cfg.Jobs.Hold, NotHeld)))
	r.Method("POST", "/scans/{id}/release", web.Serve(s.cfg.Web, 202, s.ChangeScan(s.ReleaseHeld, Active)))
	r.Method("POST", "/scans/{id}/requeue", web.Serve(s.cfg.Web, 202, s.ChangeScan(s.cfg.Jobs.Requeue, Running)))
	r.Method("POST", "/scans/{id}/retry", web.Serve(s.cfg.Web, 202, s.retryScan))
	r.Method("POST", "/scans/{id}/resubmit", web.Serve(s.cfg.Web, 202, audit.Told(s.resubmitScan, auditScanAnew)))
	r.Method("GET", "/scans/{id}/why", web.Serve(s.cfg.Web, 200, s.WhyScan))
	r.Method("GET", "/scans/{id}/events", web.GetOnly(s.cfg.Web.Plain(s.scanEvents)))
}
