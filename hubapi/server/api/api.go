// Package api serves the native API: it translates between requests and what the engine and the other parts of the
// service do, and nothing else. Who may do what is decided by the methods that it calls, which take the caller; where a
// part has no callers of its own, as for keys, credentials and GPUs, one function here decides. Pages do what they do
// through it.
package api

import (
	"context"
	"io"
	"log/slog"
	"time"

	"slipway/hubapi"
	"slipway/hubapi/server/audit"
	"slipway/hubapi/server/convert"
	"slipway/hubapi/server/feeds"
	"slipway/hubapi/server/hubs"
	"slipway/hubapi/server/offers"
	"slipway/hubapi/server/servers"
	"slipway/hubapi/server/web"
	"slipway/internal/agent/control"
	"slipway/internal/devicelogin"
	"slipway/internal/gpu"
	"slipway/internal/metrics"
	"slipway/internal/sshauth"
	"slipway/spawner"
	"slipway/spawner/catalog"
)

// Workloads are what sessions and jobs have in common. The engine has the contract of each method, as of those below.
type Workloads interface {
	Get(ctx context.Context, c spawner.Caller, id spawner.ID) (spawner.Workload, error)
	List(ctx context.Context, c spawner.Caller) ([]spawner.Workload, error)
	Each(ctx context.Context, c spawner.Caller, scan string, each func(w *spawner.Workload)) error
	SessionsOf(ctx context.Context, c spawner.Caller, user spawner.User, name string) ([]spawner.Workload, error)
	Await(ctx context.Context, c spawner.Caller, id spawner.ID, done func(spawner.Workload) bool) (spawner.Workload, error)
	Stop(ctx context.Context, c spawner.Caller, id spawner.ID) (spawner.Workload, error)
	Remove(ctx context.Context, c spawner.Caller, id spawner.ID) error
}

// Sessions starts and keeps sessions.
type Sessions interface {
	StartSession(ctx context.Context, c spawner.Caller, r spawner.SessionRequest) (spawner.Workload, error)
	Keep(ctx context.Context, c spawner.Caller, id spawner.ID, d time.Duration) (spawner.Workload, error)
}

// Jobs submits and moves jobs.
type Jobs interface {
	SubmitJob(ctx context.Context, c spawner.Caller, r spawner.JobRequest) (spawner.Workload, error)
	SubmitScan(ctx context.Context, c spawner.Caller, r spawner.JobRequest, points []spawner.Point) ([]spawner.Workload, error)
	Plan(ctx context.Context, c spawner.Caller, r spawner.JobRequest) (spawner.Plan, error)
	Hold(ctx context.Context, c spawner.Caller, id spawner.ID) (spawner.Workload, error)
	Release(ctx context.Context, c spawner.Caller, id spawner.ID) (spawner.Workload, error)
	Requeue(ctx context.Context, c spawner.Caller, id spawner.ID) (spawner.Workload, error)
	Retry(ctx context.Context, c spawner.Caller, id spawner.ID, r spawner.Retry) (spawner.Workload, error)
	Resubmit(ctx context.Context, c spawner.Caller, ids []spawner.ID, r spawner.Resubmission) ([]spawner.Workload, error)
}

// Reports explains how jobs stand, and what they use.
type Reports interface {
	Why(ctx context.Context, c spawner.Caller, id spawner.ID) (spawner.Explanation, error)
	Detail(w spawner.Workload) string
	Usage(ctx context.Context, c spawner.Caller) (spawner.Usage, error)
}

// Files has what workloads read and write.
type Files interface {
	PutBlob(ctx context.Context, c spawner.Caller, digest string, r io.Reader) error
	Blob(ctx context.Context, c spawner.Caller, digest string) (io.ReadCloser, error)
	HasBlob(ctx context.Context, c spawner.Caller, digest string) bool
	Log(ctx context.Context, c spawner.Caller, id spawner.ID, from int64, follow bool) (io.ReadCloser, error)
	Tail(ctx context.Context, c spawner.Caller, id spawner.ID, lines int) (string, error)
	Files(ctx context.Context, c spawner.Caller, id spawner.ID) ([]control.File, error)
	File(ctx context.Context, c spawner.Caller, id spawner.ID, name string) (io.ReadCloser, int64, error)
}

// Config is what an API needs. What is nil there is not at this site, and routes that need it say so.
type Config struct {
	// The other rooms of the server.
	Web     *web.Core
	Audit   *audit.Log
	Hubs    *hubs.Set
	Offers  *offers.Offers
	Convert *convert.Converter
	Feeds   *feeds.Feeds
	Servers *servers.Servers

	Workloads Workloads
	Sessions  Sessions
	Jobs      Jobs
	Reports   Reports
	Files     Files
	Catalogue catalog.Catalogue
	Policy    catalog.JobPolicy
	// Environments keeps environments, and Freeze makes one out of a session; it goes on when ctx ends, and asking for
	// the same again joins it. Its progress may be told from any goroutine until it returns.
	Environments Environments
	Freeze       func(ctx context.Context, c spawner.Caller, id spawner.ID, r hubapi.FreezeRequest, progress func(hubapi.Progress)) (hubapi.Environment, error)
	Shipper      Shipper
	Exporter     Exporter
	Credentials  Credentials
	// GPUs returns what there is of GPUs, GPUSeries how much of its slice a workload has used over time, and
	// PublishGPUs the GPUs in a form for matchmaking.
	GPUs        func() gpu.Inventory
	GPUSeries   func(holder string) []hubapi.GPUPoint
	PublishGPUs func(format string) (string, error)
	Keeper      GPUKeeper
	Pool        Pool
	Storage     Storage
	KernelMenu  KernelMenu
	Kernels     Gateway
	Quota       func(ctx context.Context, c spawner.Caller) (hubapi.Quotas, error)
	DataDoctor  DataDoctor
	Logins      *devicelogin.Logins
	SSH         *sshauth.Authority
	// UserCredentials has users' tokens and proxies. Principal returns the word by which it knows a hub's user.
	UserCredentials UserCredentials
	Principal       func(hub string, user spawner.User) string
	People          People
	Metrics         *metrics.Metrics
	Logger          *slog.Logger
}

// API serves the native API. Each resource has handlers of its own, with what they need of others.
type API struct {
	web *web.Core

	Sessions     *SessionHandlers
	Servers      *servers.Servers
	Jobs         *JobHandlers
	Scans        *ScanHandlers
	Environments *EnvironmentHandlers
	GPUs         *GPUHandlers
	Data         *DataHandlers
	Kernels      *KernelHandlers
	SSH          *SSHHandlers
	Credentials  *CredentialHandlers
	Users        *UserHandlers
}

// New makes an API.
func New(cfg Config) *API {
	all := lookup{web: cfg.Web, workloads: cfg.Workloads}
	jobs := &JobHandlers{
		lookup: all, convert: cfg.Convert, feeds: cfg.Feeds, jobs: cfg.Jobs, reports: cfg.Reports, files: cfg.Files,
		policy: cfg.Policy,
	}
	ssh := &SSHHandlers{
		web: cfg.Web, hubs: cfg.Hubs, offers: cfg.Offers, workloads: cfg.Workloads, authority: cfg.SSH,
		logins: cfg.Logins,
	}
	return &API{
		web: cfg.Web,
		Sessions: &SessionHandlers{
			lookup: all, hubs: cfg.Hubs, offers: cfg.Offers, convert: cfg.Convert, feeds: cfg.Feeds,
			sessions: cfg.Sessions, files: cfg.Files, catalogue: cfg.Catalogue, environments: cfg.Environments,
			log: cfg.Logger,
		},
		Servers: cfg.Servers,
		Jobs:    jobs,
		Scans: &ScanHandlers{
			lookup: all, job: jobs, convert: cfg.Convert, feeds: cfg.Feeds, jobs: cfg.Jobs, reports: cfg.Reports,
		},
		Environments: &EnvironmentHandlers{
			lookup: all, feeds: cfg.Feeds, environments: cfg.Environments, freeze: cfg.Freeze, shipper: cfg.Shipper,
			exporter: cfg.Exporter, registry: cfg.Credentials, metrics: cfg.Metrics,
		},
		GPUs: &GPUHandlers{
			lookup: all, inventory: cfg.GPUs, used: cfg.GPUSeries, publish: cfg.PublishGPUs, keeper: cfg.Keeper,
			pool: cfg.Pool,
		},
		Data:    &DataHandlers{lookup: all, storage: cfg.Storage, doctor: cfg.DataDoctor},
		Kernels: &KernelHandlers{web: cfg.Web, audit: cfg.Audit, menu: cfg.KernelMenu, gateway: cfg.Kernels},
		SSH:     ssh,
		Credentials: &CredentialHandlers{
			web: cfg.Web, audit: cfg.Audit, workloads: cfg.Workloads, credentials: cfg.UserCredentials,
			principal: cfg.Principal, issuerLogins: newIssuerLogins(),
		},
		Users: &UserHandlers{
			web: cfg.Web, offers: cfg.Offers, ssh: ssh, authority: cfg.SSH, people: cfg.People, quota: cfg.Quota,
			credentials: cfg.UserCredentials, principal: cfg.Principal,
		},
	}
}
