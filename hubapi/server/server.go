// Package server serves Slipway's HTTP. It makes its rooms and mounts them: the native API, the pages, the session
// proxy, the Outpost protocol, and what they share below. Who imports whom goes one way: audit and hubs know no other
// room, web knows these two, convert, offers, feeds, proxy, servers, outpost and logins stand on web, the API on those,
// usage on the API, and the pages on all.
//
// A handler translates, and nothing else: who may do what is decided by the engine's methods, which take the caller. A
// clean shutdown ends every stream.
package server

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"slipway/hubapi"
	"slipway/hubapi/server/api"
	"slipway/hubapi/server/audit"
	"slipway/hubapi/server/convert"
	"slipway/hubapi/server/feeds"
	"slipway/hubapi/server/hubs"
	"slipway/hubapi/server/logins"
	"slipway/hubapi/server/offers"
	"slipway/hubapi/server/outpost"
	"slipway/hubapi/server/pages"
	"slipway/hubapi/server/proxy"
	"slipway/hubapi/server/servers"
	"slipway/hubapi/server/usage"
	"slipway/hubapi/server/web"
	"slipway/internal/accesstokens"
	"slipway/internal/devicelogin"
	"slipway/internal/gpu"
	"slipway/internal/metrics"
	"slipway/internal/secret"
	"slipway/internal/sshauth"
	"slipway/spawner"
	"slipway/spawner/catalog"
)

// Engine is the sum of what the rooms need of the engine, each of which says its part.
type Engine interface {
	api.Workloads
	api.Sessions
	api.Jobs
	api.Reports
	api.Files
	pages.Workloads
	pages.Status
	convert.Engine
	offers.Engine
	outpost.Engine
	proxy.Engine
}

// Check is a part that the service needs to be ready.
type Check struct {
	Name  string
	Check func(ctx context.Context) error
}

// Config is what a Server needs. All fields without a stated default are required.
type Config struct {
	Engine    Engine
	Catalogue catalog.Catalogue
	// Offers returns the part of it that is open to a hub's user, as the engine does. Nil: everything is everybody's.
	Offers func(hub string, user spawner.User) catalog.Catalogue
	Jobs   catalog.JobPolicy
	Hubs   []hubs.Hub // those that share a listener have different base paths in APIURL
	// Dial opens a connection to the app of a running session.
	Dial func(ctx context.Context, id spawner.ID) (net.Conn, error)
	// DialCode opens one to VS Code beside it.
	DialCode func(ctx context.Context, id spawner.ID) (net.Conn, error)
	// Environments and Freeze are nil where the service keeps no environments. A freeze goes on when ctx ends; asking
	// for the same again joins it. Its progress may be told from any goroutine until it returns.
	Environments api.Environments
	Freeze       func(ctx context.Context, c spawner.Caller, id spawner.ID, r hubapi.FreezeRequest, progress func(hubapi.Progress)) (hubapi.Environment, error)
	// Link is of LinkPath: it finds out by itself who is calling, and returns an error only if it has answered nothing.
	// It lasts as long as the agent's link; the request's context ends with the server. Nil: there is none.
	Link func(w http.ResponseWriter, r *http.Request) error
	// GPUs returns what there is of GPUs, GPUUse how much of its slice a workload uses, GPUSeries the same over time,
	// and PublishGPUs the GPUs in a form for matchmaking. All are nil where there are none.
	GPUs        func() gpu.Inventory
	Keeper      api.GPUKeeper // nil likewise
	GPUSeries   func(holder string) []hubapi.GPUPoint
	GPUUse      func(holder string) gpu.Use
	PublishGPUs func(format string) (string, error)
	Usage       usage.Meter     // nil: nothing is measured over time
	Pool        api.Pool        // nil: the site has no HTCondor pool
	Shipper     api.Shipper     // nil likewise
	Exporter    api.Exporter    // nil likewise
	Credentials api.Credentials // nil likewise
	Storage     api.Storage     // nil: the site has no storage elements
	// KernelMenu says which kernels callers may start; nil: there are none.
	KernelMenu api.KernelMenu
	// Quota looks how full a user's directories are; KnownQuota gives what was last found of those of a workload's
	// owner, without waiting. Nil: nobody knows.
	Quota      func(ctx context.Context, c spawner.Caller) (hubapi.Quotas, error)
	KnownQuota func(w spawner.Workload) []hubapi.Quota
	DataDoctor api.DataDoctor       // nil: the site has no data to look at
	Logins     *devicelogin.Logins  // of programs that users let in; nil: no hub has pages to confirm them on
	Tokens     *accesstokens.Tokens // that these programs get; nil: none
	SSH        *sshauth.Authority   // who may come in by ssh; nil: there is none
	// UserCredentials has users' tokens and proxies; nil: the service keeps none. Principal gives the word by which it
	// knows a hub's user.
	UserCredentials api.UserCredentials
	Principal       func(hub string, user spawner.User) string
	People          api.People       // who users are on this host; nil: nothing is known
	Registry        http.Handler     // of /v2/ and /sif/; it finds out by Identify who is calling. Nil: there is none
	Kernels         api.Gateway      // of /kernels/. Nil: there is none
	Checks          []Check          // for /readyz; nil: the engine alone
	Metrics         *metrics.Metrics // nil: no /metrics
	// TrustedProxies are those whose X-Forwarded-For is believed.
	TrustedProxies []netip.Prefix
	Logger         *slog.Logger
}

// Listeners are where a Server serves. Nil ones are not served.
type Listeners struct {
	Public   net.Listener            // Hubs, users and the Hubs' proxies
	Hubs     map[string]net.Listener // likewise, of one hub alone, by its name
	AgentAPI net.Listener            // connections with a method WorkloadID() string: the API as that workload
	AgentHub net.Listener            // likewise: that workload's Hub
}

// Server is the service's HTTP.
type Server struct {
	// These rooms are of use without HTTP too.
	Audit   *audit.Log
	Web     *web.Core
	Outpost *outpost.Outpost
	API     *api.API
	convert *convert.Converter
	cfg     Config
	ready   *readiness
	proxy   *proxy.Proxy
	hubs    *hubs.Set
	pages   *pages.Pages
	box     *secret.Box // seals what browsers keep
	offers  *offers.Offers
	feeds   *feeds.Feeds
	usage   *usage.Room
	logins  *logins.Room
}

// New makes a Server.
func New(cfg Config) *Server {
	cfg.Logins = cmp.Or(cfg.Logins, devicelogin.New(nil))
	s := &Server{
		Audit: &audit.Log{Logger: cfg.Logger, Principal: cfg.Principal, People: cfg.People},
		cfg:   cfg, hubs: hubs.NewSet(cfg.Hubs), ready: newReadiness(cfg.Engine, cfg.Checks),
	}
	s.Web = web.New(web.Config{
		Engine: cfg.Engine, Hubs: s.hubs, Tokens: cfg.Tokens, Audit: s.Audit, Metrics: cfg.Metrics, TrustedProxies: cfg.TrustedProxies,
		Logger: cfg.Logger,
	})
	s.convert = convert.New(convert.Config{Engine: cfg.Engine, Hubs: s.hubs, GPUUse: cfg.GPUUse, SSH: cfg.SSH})
	s.feeds = feeds.New(cfg.Engine, s.Web, s.convert)
	s.proxy = proxy.New(
		proxy.Config{Engine: cfg.Engine, Dial: cfg.Dial, DialCode: cfg.DialCode, Hubs: s.hubs, Logger: cfg.Logger},
		s.Web,
	)
	s.offers = offers.New(offers.Config{Engine: cfg.Engine, Catalogue: cfg.Catalogue, Open: cfg.Offers})
	s.Outpost = outpost.New(outpost.Config{
		Engine: cfg.Engine, Catalogue: cfg.Catalogue, Offers: s.offers, Hubs: s.hubs, Logger: cfg.Logger,
	}, s.Web)
	s.API = api.New(api.Config{
		Web: s.Web, Audit: s.Audit, Hubs: s.hubs, Offers: s.offers, Convert: s.convert, Feeds: s.feeds,
		Servers: servers.New(servers.Config{
			Web: s.Web, Hubs: s.hubs, Convert: s.convert, Workloads: cfg.Engine,
		}),
		Workloads: cfg.Engine, Sessions: cfg.Engine, Jobs: cfg.Engine, Reports: cfg.Engine, Files: cfg.Engine,
		Catalogue: cfg.Catalogue, Policy: cfg.Jobs,
		Environments: cfg.Environments, Freeze: cfg.Freeze, Shipper: cfg.Shipper, Exporter: cfg.Exporter,
		Credentials: cfg.Credentials,
		GPUs:        cfg.GPUs, GPUSeries: cfg.GPUSeries, PublishGPUs: cfg.PublishGPUs, Keeper: cfg.Keeper,
		Pool:    cfg.Pool,
		Storage: cfg.Storage, KernelMenu: cfg.KernelMenu, Kernels: cfg.Kernels, Quota: cfg.Quota,
		DataDoctor: cfg.DataDoctor,
		Logins:     cfg.Logins, SSH: cfg.SSH, UserCredentials: cfg.UserCredentials, Principal: cfg.Principal, People: cfg.People,
		Metrics: cfg.Metrics, Logger: cfg.Logger,
	})
	s.logins = logins.New(logins.Config{Web: s.Web, Hubs: s.hubs, Logins: cfg.Logins, Tokens: cfg.Tokens})
	s.usage = usage.New(usage.Config{Web: s.Web, API: s.API, Workloads: cfg.Engine, Meter: cfg.Usage})
	s.box = secret.NewBox()
	s.pages = pages.New(pages.Config{
		Web: s.Web, API: s.API, Hubs: s.hubs, Offers: s.offers, Convert: s.convert, Feeds: s.feeds,
		Usage:     s.usage,
		Workloads: cfg.Engine, Actions: cfg.Engine, Status: cfg.Engine, Catalogue: cfg.Catalogue, Policy: cfg.Jobs,
		Environments: cfg.Environments,
		GPUs:         cfg.GPUs != nil, Kernels: cfg.Kernels != nil, KnownQuota: cfg.KnownQuota, Pool: cfg.Pool,
		Logins: cfg.Logins, Tokens: cfg.Tokens, SSH: cfg.SSH,
		UserCredentials: cfg.UserCredentials,
		Box:             s.box,
	})
	return s
}

// drain is how long requests in progress may go on at the end.
const drain = 5 * time.Second

// Run serves until ctx ends; then streams end, and other requests have seconds to come to theirs. It returns when no
// handler runs any more. A Server runs once.
func (s *Server) Run(ctx context.Context, l Listeners) error {
	base, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	failed := make(chan error, 3+len(l.Hubs))
	var servers []*http.Server
	var serving sync.WaitGroup
	startIn := func(base context.Context, l net.Listener, h http.Handler) {
		if l == nil {
			return
		}
		srv := s.Web.HTTPServer(base, h)
		servers = append(servers, srv)
		serving.Go(func() { failed <- srv.Serve(l) })
	}
	start := func(l net.Listener, h http.Handler) { startIn(base, l, h) }
	s.hubs.Apart(l.Hubs)
	start(l.Public, s.Public())
	for name, own := range l.Hubs {
		startIn(hubs.ByListenerOf(base, name), own, s.Public())
	}
	start(l.AgentAPI, s.AgentAPI())
	start(l.AgentHub, s.AgentHub())
	s.Web.Background(s.feeds.Run)
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	s.Web.End()
	patience, cancel := context.WithTimeout(base, drain)
	defer cancel()
	var ending sync.WaitGroup
	for _, srv := range servers {
		ending.Go(func() {
			if srv.Shutdown(patience) != nil {
				_ = srv.Close()
			}
		})
	}
	ending.Wait()
	cut()
	serving.Wait()
	s.Web.Wait()
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
