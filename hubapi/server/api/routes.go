package api

import (
	"github.com/go-chi/chi/v5"

	"slipway/hubapi/server/audit"
	"slipway/hubapi/server/web"
)

// Routes has every route of the native API.
func (s *API) Routes(r chi.Router) {
	r.NotFound(s.web.NoRoute)
	r.Method("GET", "/me", web.Serve(s.web, 200, s.Users.me))
	r.Method("GET", "/profiles", web.Serve(s.web, 200, s.Users.profiles))
	r.Method("GET", "/gpus", s.web.Plain(s.GPUs.listGPUs))
	r.Method("GET", "/gpus/pool", s.web.Plain(s.GPUs.poolGPUs))
	r.Method("POST", "/gpus/{gpu}/drain", web.Serve(s.web, 200, s.GPUs.drainGPU))
	r.Method("POST", "/gpus/{gpu}/resume", web.Serve(s.web, 200, s.GPUs.resumeGPU))
	r.Method("GET", "/data", web.Serve(s.web, 200, s.Data.storages))
	r.Method("GET", "/data/url", web.Serve(s.web, 200, s.Data.dataURL))
	r.Method("GET", "/quota", web.Serve(s.web, 200, s.Users.quotaOf))
	s.Data.doctorRoutes(r)
	s.Kernels.menuRoutes(r)

	r.Method("GET", "/sessions", web.Serve(s.web, 200, s.Sessions.listSessions))
	r.Method("POST", "/sessions", web.Serve(s.web, 202, audit.Told(s.Sessions.startSession, auditSession)))
	r.Method("DELETE", "/sessions", web.Serve(s.web, 204, s.Sessions.removeSessionsOf))
	r.Method("POST", "/servers", s.web.Plain(s.Servers.Start))
	r.Method("GET", "/sessions/{id}", web.Serve(s.web, 200, s.Sessions.session))
	r.Method("DELETE", "/sessions/{id}", web.Serve(s.web, 204, s.Sessions.removeSession))
	r.Method("GET", "/sessions/{id}/wait", web.Serve(s.web, 200, s.Sessions.waitSession).GetOnly())
	r.Method("POST", "/sessions/{id}/stop", web.Serve(s.web, 200, s.Sessions.stopSession))
	r.Method("POST", "/sessions/{id}/keep", web.Serve(s.web, 200, s.Sessions.keepSession))
	r.Method("GET", "/sessions/{id}/gpu", web.Serve(s.web, 200, s.GPUs.sessionGPU))
	r.Method("GET", "/sessions/{id}/events", web.GetOnly(s.web.Plain(s.Sessions.sessionEvents)))
	r.Method("GET", "/sessions/{id}/log", web.GetOnly(s.web.Plain(s.Sessions.sessionLog)))
	r.Method("POST", "/sessions/{id}/freeze", s.web.Plain(s.Environments.freezeSession))

	r.Method("GET", "/environments", web.Serve(s.web, 200, s.Environments.listEnvironments))
	r.Route("/environments/{ref}", s.Environments.environmentRoutes)
	r.Method("POST", "/environment-pulls", s.web.Plain(s.Environments.pullEnvironment))
	r.Method("POST", "/environment-credentials", s.web.Plain(s.Environments.environmentCredential))
	r.Method("GET", "/environment-usage", web.Serve(s.web, 200, s.Environments.environmentUsage))
	r.Method("POST", "/environment-sweep", web.Serve(s.web, 200, audit.Told(s.Environments.sweepEnvironments, auditSwept)))

	r.Route("/ssh", s.SSH.sshRoutes)
	s.Credentials.credentialRoutes(r)
	s.Users.whoRoutes(r)

	r.Method("GET", "/jobs", web.Serve(s.web, 200, s.Jobs.listJobs))
	r.Method("POST", "/jobs", web.Serve(s.web, 202, audit.Told(s.Jobs.submit, auditSubmitted)))
	r.Method("POST", "/jobs/check", web.Serve(s.web, 200, s.Jobs.checkJob))
	r.Method("GET", "/jobs/usage", web.Serve(s.web, 200, s.Jobs.jobsUsage))
	r.Method("GET", "/jobs/{id}", web.Serve(s.web, 200, s.Jobs.job))
	r.Method("DELETE", "/jobs/{id}", web.Serve(s.web, 204, s.Jobs.removeJob))
	r.Method("POST", "/jobs/{id}/cancel", web.Serve(s.web, 202, s.Jobs.changeJob(s.Jobs.workloads.Stop)))
	r.Method("POST", "/jobs/{id}/hold", web.Serve(s.web, 202, s.Jobs.changeJob(s.Jobs.jobs.Hold)))
	r.Method("POST", "/jobs/{id}/release", web.Serve(s.web, 202, s.Jobs.changeJob(s.Jobs.jobs.Release)))
	r.Method("POST", "/jobs/{id}/requeue", web.Serve(s.web, 202, s.Jobs.changeJob(s.Jobs.jobs.Requeue)))
	r.Method("POST", "/jobs/{id}/retry", web.Serve(s.web, 202, s.Jobs.retryJob))
	r.Method("POST", "/jobs/{id}/resubmit", web.Serve(s.web, 202, audit.Told(s.Jobs.resubmitJob, auditJobAnew)))
	r.Method("GET", "/jobs/{id}/why", web.Serve(s.web, 200, s.Jobs.whyJob))
	r.Method("GET", "/jobs/{id}/gpu", web.Serve(s.web, 200, s.GPUs.jobGPU))
	r.Method("GET", "/jobs/{id}/events", web.GetOnly(s.web.Plain(s.Jobs.jobEvents)))
	r.Method("GET", "/jobs/{id}/log", web.GetOnly(s.web.Plain(s.Jobs.jobLog)))
	r.Method("GET", "/jobs/{id}/files", web.Serve(s.web, 200, s.Jobs.jobFiles))
	r.Method("GET", "/jobs/{id}/files/{name}", s.web.Plain(s.Jobs.jobFile))
	r.Method("PUT", "/blobs/{digest}", s.web.Plain(s.Jobs.putBlob))
	r.Method("HEAD", "/blobs/{digest}", s.web.Plain(s.Jobs.hasBlob))

	r.Method("GET", "/scans/{id}", web.Serve(s.web, 200, s.Scans.GetScan))
	r.Method("DELETE", "/scans/{id}", web.Serve(s.web, 202, s.Scans.ChangeScan(s.Scans.RemoveEnded, anyPoint)))
	r.Method("POST", "/scans/{id}/cancel", web.Serve(s.web, 202, s.Scans.ChangeScan(s.Jobs.workloads.Stop, Active)))
	r.Method("POST", "/scans/{id}/hold", web.Serve(s.web, 202, s.Scans.ChangeScan(s.Jobs.jobs.Hold, NotHeld)))
	r.Method("POST", "/scans/{id}/release", web.Serve(s.web, 202, s.Scans.ChangeScan(s.Scans.ReleaseHeld, Active)))
	r.Method("POST", "/scans/{id}/requeue", web.Serve(s.web, 202, s.Scans.ChangeScan(s.Jobs.jobs.Requeue, Running)))
	r.Method("POST", "/scans/{id}/retry", web.Serve(s.web, 202, s.Scans.retryScan))
	r.Method("POST", "/scans/{id}/resubmit", web.Serve(s.web, 202, audit.Told(s.Scans.resubmitScan, auditScanAnew)))
	r.Method("GET", "/scans/{id}/why", web.Serve(s.web, 200, s.Scans.WhyScan))
	r.Method("GET", "/scans/{id}/events", web.GetOnly(s.web.Plain(s.Scans.scanEvents)))
}
