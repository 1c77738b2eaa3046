package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"slipway/hubapi/server"
	"slipway/internal/agent/control"
	"slipway/internal/identity"
	"slipway/internal/metrics"
	"slipway/internal/secret"
	"slipway/internal/store"
	"slipway/spawner"
	"slipway/spawner/spawnertest"
)

// settings are how the world is played.
type settings struct {
	dir, listen, tokenFile, hubVersion string
	start, boot, stop                  time.Duration
	cpuProfile, heapProfile            string
}

func parseServe(args []string) (settings, error) {
	var s settings
	f := flag.NewFlagSet("simulated serve", flag.ContinueOnError)
	f.StringVar(&s.dir, "dir", "", "where the records, homes and directories of sessions go; must be empty or not there")
	f.StringVar(&s.listen, "listen", "127.0.0.1:0", "loopback address of the service")
	f.StringVar(&s.tokenFile, "token-file", "", "file with the token that the Hub's Spawner presents")
	f.StringVar(&s.hubVersion, "hub-version", "6.1.1", "the version of JupyterHub that the apps claim to be of")
	f.DurationVar(&s.start, "start", 0, "how long the backend takes to start a container")
	f.DurationVar(&s.boot, "boot", 0, "how long an app takes from there to its first answer")
	f.DurationVar(&s.stop, "stop", 0, "how long the backend takes to stop a container")
	f.StringVar(&s.cpuProfile, "cpuprofile", "", "write a CPU profile of the whole run here")
	f.StringVar(&s.heapProfile, "heapprofile", "", "write a profile of the memory in use here at the end")
	if err := f.Parse(args); err != nil {
		return s, err
	}
	host, _, err := net.SplitHostPort(s.listen)
	switch {
	case f.NArg() > 0 || s.dir == "" || s.tokenFile == "":
		return s, errors.New(usage)
	case err != nil || !net.ParseIP(host).IsLoopback():
		return s, fmt.Errorf("--listen %s: only loopback addresses, such as 127.0.0.1:8090", s.listen)
	case os.Geteuid() != 0:
		return s, errors.New("needs root, as the service does: it makes homes of many users")
	}
	return s, nil
}

// serve is the service until ctx ends; then it prints its figures.
func serve(ctx context.Context, args []string) error {
	s, err := parseServe(args)
	if err != nil {
		return err
	}
	token, err := os.ReadFile(s.tokenFile)
	if err != nil {
		return err
	}
	end, err := profileCPU(s.cpuProfile)
	if err != nil {
		return err
	}
	defer end()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil)).With("simulated", true)
	l, err := net.Listen("tcp", s.listen)
	if err != nil {
		return err
	}
	m, err := serveWorld(ctx, s, secret.New(strings.TrimSpace(string(token))), l, log)
	if err != nil {
		return err
	}
	f, err := m.figures()
	return errors.Join(err, json.NewEncoder(os.Stdout).Encode(f))
}

// profileCPU begins a profile, if one is asked for, and gives what ends it.
func profileCPU(path string) (end func(), err error) {
	if path == "" {
		return func() {}, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return pprof.StopCPUProfile, pprof.StartCPUProfile(f)
}

// profileHeap writes what memory is in use for, if asked to.
func profileHeap(path string) error {
	if path == "" {
		return nil
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	runtime.GC()
	return errors.Join(pprof.Lookup("heap").WriteTo(f, 0), f.Close())
}

// serveWorld puts the real parts together as the service does, over a backend and agents that are played.
func serveWorld(ctx context.Context, s settings, token secret.Text, l net.Listener, log *slog.Logger) (*meter, error) {
	if err := os.MkdirAll(s.dir, 0o711); err != nil {
		return nil, err
	}
	records, err := store.Open(ctx, filepath.Join(s.dir, "records", "slipway.db"), log)
	if err != nil {
		return nil, err
	}
	defer records.Close()
	accounts, err := identity.New(identity.Config{Store: records, First: 20000, Last: 59999, GID: 100, Homes: filepath.Join(s.dir, "homes")})
	if err != nil {
		return nil, err
	}
	engine, err := newEngine(ctx, s, records, accounts, log)
	if err != nil {
		return nil, err
	}
	all := newApps(ctx, s.hubVersion)
	service := server.New(server.Config{
		Engine: engine, Hubs: []server.Hub{{Name: "main", SpawnerToken: token}}, Catalogue: catalogue(), Dial: all.dial,
		Metrics: metrics.New(metrics.Config{Stats: engine.Stats}), Logger: log,
	})
	m := newMeter(service.Public())
	front := &http.Server{
		Handler: m, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 128 << 10,
		ConnContext: server.ConnContext, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	inside := &http.Server{Handler: all, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	fmt.Println("ready: the simulated service at", l.Addr())
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return engine.Run(ctx) })
	g.Go(func() error { return ended(inside.Serve(all)) })
	g.Go(func() error { return ended(front.Serve(l)) })
	g.Go(func() error {
		<-ctx.Done()
		return errors.Join(profileHeap(s.heapProfile), front.Close(), inside.Close())
	})
	return m, ended(g.Wait())
}

// ended takes away the errors of an end that was asked for.
func ended(err error) error {
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// newEngine makes the real engine. Its capacity is large, not unlimited, so that the ledger has its work.
func newEngine(ctx context.Context, s settings, records *store.Store, accounts *identity.Accounts, log *slog.Logger) (*spawner.Manager, error) {
	crew := spawnertest.NewCrew()
	if s.boot > 0 {
		crew.Boot(func(h *spawnertest.Hand) { time.AfterFunc(s.boot, h.Ready) })
	}
	backend := spawnertest.New(spawnertest.Config{
		Name: "docker", Started: crew.ComeUp, Ended: crew.GoDown, StartTime: s.start, StopTime: s.stop,
	})
	engine, err := spawner.New(ctx, spawner.Config{
		Store: records, Backends: []spawner.Backend{backend}, Agents: thin{crew}, Dir: filepath.Join(s.dir, "workloads"), Sessions: "docker",
		Capacity: map[string]spawner.Capacity{"docker": {CPUs: 1 << 20, Memory: 1 << 50}}, Logger: log,
		Account: func(ctx context.Context, user spawner.User) (spawner.Account, error) {
			a, err := accounts.Account(ctx, string(user))
			return spawner.Account(a), err
		},
	})
	if err != nil {
		return nil, err
	}
	crew.Dial(func(id spawner.ID, up bool) { engine.LinkChanged(ctx, id, up) })
	return engine, nil
}

func catalogue() spawner.Catalogue {
	return spawner.Catalogue{
		Images: []spawner.ImageChoice{{Name: "none", Title: "Nothing: this service is simulated", Ref: "simulated"}},
		Profiles: []spawner.Profile{{
			Name: "simulated", Title: "Simulated", Description: "Nothing runs in it", Kind: spawner.Lab, Images: []string{"none"},
			CPUs: 1, Memory: 1 << 30, Default: true,
		}},
	}
}

// thin is a crew whose agents forget their app's environment: in the world that is played, it lies in another process.
type thin struct{ *spawnertest.Crew }

// Agent gives an agent.
func (t thin) Agent(id spawner.ID) spawner.Agent { return thinAgent{t.Crew.Agent(id)} }

type thinAgent struct{ spawner.Agent }

// Launch launches an app.
func (a thinAgent) Launch(ctx context.Context, app control.App) error {
	app.Env, app.Argv = nil, nil
	return a.Agent.Launch(ctx, app)
}
