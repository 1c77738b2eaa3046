package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"slipway/hubapi/server"
	"slipway/internal/accesstokens"
	"slipway/internal/config"
	"slipway/internal/cvmfs"
	"slipway/internal/devicelogin"
	"slipway/internal/environments"
	"slipway/internal/errs"
	"slipway/internal/homes/homemounts"
	"slipway/internal/identity"
	"slipway/internal/metrics"
	"slipway/internal/programs"
	"slipway/internal/programs/install"
	"slipway/internal/reserve"
	"slipway/internal/secret"
	"slipway/internal/service/backends"
	"slipway/internal/sockets"
	"slipway/internal/sshauth"
	"slipway/internal/sshgate"
	"slipway/internal/store"
	"slipway/internal/tunnel"
	"slipway/internal/usage"
	"slipway/internal/version"
	gateway "slipway/kernels"
	"slipway/kernels/kernelspecs"
	"slipway/spawner"
	"slipway/spawner/batch"
	"slipway/spawner/docker"
	"slipway/spawner/engine"
	"slipway/spawner/htcondor/pool"
	"slipway/spawner/launch"
	"slipway/spawner/local"
	"slipway/spawner/workloads"
)

// service is the service's parts, in the order in which they are made.
type service struct {
	cfg          config.Config
	log          *slog.Logger
	reserve      *reserve.Reserve
	store        *store.Store
	accounts     *identity.Accounts
	rules        *identity.Rules
	realms       realms
	switches     *kernelspecs.Switches
	traffic      gateway.Traffic  // of kernels
	lines        *gateway.Lines   // likewise
	journal      *gateway.Journal // likewise; nil: there are no kernels
	docker       *docker.Backend
	local        *local.Backend
	batch        []*batch.Backend // of the batch systems that the site has
	pool         *pool.Pool       // nil: the site has no HTCondor
	cvmfs        cvmfs.Directory
	self         string // this program
	lean         string // the program that is started for each job, and to look at homes
	homeMounts   *homemounts.Mounts
	links        *tunnel.Links
	engine       *engine.Manager
	workloads    workloads.Workloads
	box          *secret.Box
	environments *environments.Service
	gpus         gpuParts
	held         credentialParts
	storage      *storage
	doctor       *dataDoctor
	hubs         []hubPart
	logins       *devicelogin.Logins
	tokens       *accesstokens.Tokens
	sshKeys      *sshauth.Authority // nil: the site has no ssh
	usage        *usage.Meter
	parts        *parts
	server       *server.Server
	gate         *sshgate.Gate      // nil likewise
	end          context.CancelFunc // ends everything that was made for this run
}

// Serve runs the service until ctx ends. Sessions and jobs outlive it.
func Serve(ctx context.Context, cfg config.Config, log *slog.Logger) (err error) {
	listeners, err := sockets.Open(cfg, log)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		listeners.Close()
		return fmt.Errorf("find this program: %w", err)
	}
	programs.SaveMemory()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &service{
		cfg: cfg, log: log, self: self, end: cancel, reserve: reserve.New(cfg.DataDir, log),
		logins: devicelogin.New(loginPages(cfg)),
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.assemble(ctx); err != nil {
		listeners.Close()
		return err
	}
	log.Info(
		"slipway serves", "listen", strings.Join(listeners.Addresses(), " "), "data", cfg.DataDir,
		"version", version.Release,
	)
	if listeners.SSH != nil {
		log.Info("slipway serves ssh", "listen", listeners.SSH.Addr().String())
	}
	s.tellRetired(ctx)
	return s.run(ctx, listeners)
}

func (s *service) assemble(ctx context.Context) error {
	for _, part := range []func(context.Context) error{
		s.openData, s.makeHubs, s.makeCVMFS, s.makeHomeMounts, s.makeBackends, s.makeCredentials, s.makeMounter,
		s.makeEngine, s.makeDoctor, s.makeGPUs, s.makeUsage, s.makeTokens, s.makeSSHKeys, s.makeParts, s.makeServer, s.makeGate,
	} {
		if err := part(ctx); err != nil {
			return s.reserve.Explain(err)
		}
	}
	return nil
}

func (s *service) path(parts ...string) string {
	return filepath.Join(append([]string{s.cfg.DataDir}, parts...)...)
}

// openData opens what is kept on disk. The data directory can be passed through, because jobs of other users open their
// image and their own directory below it; what is private has a directory of its own.
func (s *service) openData(ctx context.Context) error {
	if err := os.MkdirAll(s.cfg.DataDir, 0o711); err != nil {
		return fmt.Errorf("make the data directory: %w", err)
	}
	if err := os.Chmod(s.cfg.DataDir, 0o711); err != nil {
		return fmt.Errorf("let users pass through the data directory: %w", err)
	}
	s.reserve.Look() // on a full disk there is room from here on
	// Trees that were copied for a freeze that a killed service did not finish.
	if err := errors.Join(os.RemoveAll(s.path("fetch")), os.MkdirAll(s.path("fetch"), 0o700)); err != nil {
		return fmt.Errorf("clear the copied trees away: %w", err)
	}
	var err error
	if s.store, err = store.Open(ctx, s.path("records", "slipway.db"), s.log); err != nil {
		return err
	}
	s.store.OnFull(s.reserve.Release)
	if s.realms, err = recallRealms(ctx, s.store, s.cfg.Hubs); err != nil {
		return err
	}
	if s.switches, err = kernelspecs.RecallSwitches(ctx, s.store, s.log); err != nil {
		return err
	}
	users := s.cfg.Users
	if s.rules, err = identity.NewRules(s.cfg.Identities.Rules()); err != nil {
		return err
	}
	look, err := s.looker()
	if err != nil {
		return err
	}
	s.accounts, err = identity.New(identity.Config{
		Store: s.store, First: users.UIDs.First, Last: users.UIDs.Last, GID: users.GID, Homes: users.Homes, Look: look,
		Holders: identity.NewNSS("").Holders,
	})
	if err != nil {
		return err
	}
	return s.openLibrary(ctx)
}

func (s *service) makeBackends(ctx context.Context) error {
	err := install.Agent(s.self, s.path("bin"))
	if err != nil {
		return err
	}
	if s.box, err = openBox(ctx, s.store, s.cfg.SecretKey); err != nil {
		return err
	}
	s.docker, err = backends.Docker(s.cfg, s.lean, s.cvmfs, s.log)
	if err != nil {
		return err
	}
	agent, err := install.JobProgram(s.lean, s.path("bin"))
	if err != nil {
		return err
	}
	if s.local, err = backends.Local(s.cfg, s.lean, agent, s.cvmfs, s.log); err != nil {
		return err
	}
	if s.pool, err = backends.Pool(s.cfg, s.path("records"), s.log); err != nil {
		return err
	}
	s.storage = newStorage(s.cfg.Data, s.log)
	s.storage.remote = s.runsRemotely
	return s.makeBatchSystems()
}

// architecture returns for which machines an environment is.
func (s *service) architecture(digest string) (string, error) {
	parts, err := s.environments.Library().Parts(digest)
	if err != nil {
		return "", err
	}
	return parts.Architecture()
}

func (s *service) makeEngine(ctx context.Context) error {
	if len(s.cfg.Kernels.Specs) > 0 {
		journal, err := gateway.NewJournal(s.path("kernels"), s.log)
		if err != nil {
			return err
		}
		s.journal = journal
	}
	s.lines = gateway.NewLines()
	s.links = tunnel.New(
		tunnel.Config{Logger: s.log, Changed: func(id string, up bool) { s.linkChanged(ctx, id, up) }, User: s.userOf},
	)
	c := engine.Config{
		Full:  func() error { return s.reserve.Check(ctx) },
		Store: s.store, Backends: s.backends(), Agents: s.looking(s.agents()), Sealer: s.box, Account: s.account,
		AnnounceStart: s.announceStart,
		Launch: launch.Config{
			Image: s.environments.Library().Ready, Thaw: s.environments.Thaw, Uplink: s.uplink,
			HomeMounts: s.homeMounts.Prepare,
			Storage:    s.engineStorage(), AgentDir: s.path("bin"), Env: backends.WithTrust(s.cfg, s.programsEnv()),
			Stacks: s.stacks(), Gateway: len(s.cfg.Kernels.Specs) > 0,
		},
		Dir: s.path("workloads"), Capacity: s.capacity(),
		Sessions: s.docker.Name(),
		Logger:   s.log,
	}
	s.judgeJobs(&c)
	s.leaseGPUs(&c)
	var err error
	if s.engine, err = engine.New(ctx, c); err != nil {
		return err
	}
	s.workloads, err = workloads.New(ctx, s.engine, workloads.Config{
		Account: s.account, Environment: s.environments.Find, Catalogue: catalogueOf(s.cfg), Member: s.member,
		Base: s.environments.Base, Keep: s.environments.Keep, Ailment: s.homeMounts.Ailment, Logger: s.log,
		Jobs: s.cfg.Jobs.Backend, Admits: jobPolicyOf(s.cfg).Admits, Retention: time.Duration(s.cfg.Jobs.Retention),
		SliceUse: s.sliceUse, Allowance: s.allowances(),
		Kernels: s.cfg.Kernels.MaxPerUser, Busy: busyAbove(s.cfg.Kernels.MaxWarmLoad),
	})
	return err
}

func (s *service) account(ctx context.Context, hub string, user spawner.User) (spawner.Account, error) {
	realm, known := s.realms[hub]
	if !known {
		return spawner.Account{}, errs.New(errs.Missing, "whose users those of hub %s are is not known", hub).
			With("the administrator puts the hub back into the configuration, under that name")
	}
	a, err := s.accounts.Account(ctx, realm, string(user))
	return engineAccount(a), err
}

// principal returns the word for a hub's user. It is nobody's where the realm is not known, for none is empty.
func (s *service) principal(hub string, user spawner.User) string {
	return identity.Principal(s.realms[hub], string(user))
}

func (s *service) makeServer(context.Context) error {
	catalogue := catalogueOf(s.cfg)
	if err := CheckConfig(s.cfg); err != nil {
		return err
	}
	shipper, err := s.environments.NewShipper()
	if err != nil {
		return err
	}
	offers := s.newMenu()
	s.server = server.New(server.Config{
		Engine: s.workloads, Catalogue: catalogue, Offers: s.workloads.Offers, Jobs: jobPolicyOf(s.cfg),
		Hubs: serverHubs(s.hubs), Link: s.link,
		Dial: agents{s.links}.dialApp, DialCode: agents{s.links}.dialCode,
		Environments: s.environments, Freeze: s.environments.Freeze, Registry: s.registry().Handler(s.log),
		Shipper: shipper, Exporter: s.environments,
		Kernels: s.kernelGateway(offers), KernelMenu: s.menuOf(offers), Credentials: s.credentials(),
		UserCredentials: s.held.doors(), Principal: s.principal, People: people{s},
		GPUs: s.inventory(), Keeper: s.keeper(), GPUUse: s.gpuUse, GPUSeries: s.gpuSeries, PublishGPUs: s.publisher(),
		Usage: siteUsage{s.usage, s},
		Pool:  s.poolGPUs(), Logins: s.logins, Tokens: s.tokens, SSH: s.sshKeys, Storage: s.storage, DataDoctor: s.doctor,
		Quota: s.homeMounts.Quota, KnownQuota: s.homeMounts.KnownQuota,
		Checks: []server.Check{{Name: "docker", Check: s.docker.Check}, {Name: "disk", Check: s.reserve.Check}},
		Metrics: metrics.New(metrics.Config{
			Version: version.Release, Parts: s.parts.Up,
			Stats: s.workloads.Stats, GPUs: s.inventory(), Stores: s.environments.Stores,
			Exports: s.environments.Exports, SSH: s.sshStats(), Credentials: s.held.metrics(),
			CVMFS: s.cvmfs.Metrics(), Homes: s.homeMounts.Metrics, Kernels: s.kernelTraffic(),
			Library: s.environments.Swept, Links: s.links.Count,
		}), TrustedProxies: config.Prefixes(s.cfg.TrustedProxies), Logger: s.log,
	})
	return nil
}

// run runs all parts; the first that fails ends the others.
func (s *service) run(ctx context.Context, l sockets.Listeners) error {
	g, ctx := errgroup.WithContext(ctx)
	defer context.AfterFunc(ctx, s.end)()
	// What clients have said to kernels is on its way to their agents when the service ends.
	after, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	g.Go(func() error { defer cut(); return s.lines.Run(ctx) })
	g.Go(func() error { return s.links.Run(after) })
	g.Go(func() error { return s.engine.Run(ctx) })
	g.Go(func() error { s.reserve.Run(ctx); return nil })
	g.Go(func() error { s.usage.Run(ctx); return nil })
	g.Go(func() error { return s.tokens.Run(ctx) })
	s.environments.Run(ctx, g.Go)
	g.Go(func() error { return s.storage.elements.Run(ctx) })
	s.runMounter(ctx, g.Go)
	g.Go(func() error { return s.homeMounts.Watch(ctx) })
	g.Go(func() error { return s.watchDisks(ctx) })
	s.held.run(ctx, g.Go)
	g.Go(func() error { return s.docker.Watch(ctx, s.engine.Wake) })
	s.runGPUs(ctx, g.Go)
	s.cvmfs.Run(ctx, s.processes, g.Go)
	s.runBatchSystems(ctx, g.Go)
	s.parts.run(ctx, g.Go)
	s.runGate(ctx, l.SSH, g.Go)
	for _, p := range s.hubs {
		g.Go(func() error { return s.syncer(p).Run(ctx) })
	}
	g.Go(func() error {
		return s.server.Run(ctx, server.Listeners{
			Public: l.Common, Hubs: l.Hubs, AgentAPI: s.links.Streams(tunnel.DoorAPI),
			AgentHub: s.links.Streams(tunnel.DoorHub),
		})
	})
	err := g.Wait()
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return err
}

func (s *service) close() error {
	var all []error
	if s.gpus.driver != nil {
		all = append(all, s.gpus.driver.Close())
	}
	if s.docker != nil {
		all = append(all, s.docker.Close())
	}
	if s.local != nil {
		all = append(all, s.local.Tidy(context.Background()))
	}
	if s.environments != nil {
		all = append(all, s.environments.Close())
	}
	if s.store != nil {
		all = append(all, s.store.Close())
	}
	return errors.Join(all...)
}
