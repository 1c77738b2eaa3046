package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"slipway/hubapi/hub"
	"slipway/hubapi/server"
	"slipway/hubapi/server/hubs"
	"slipway/hubapi/server/web"
	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/internal/metrics"
	"slipway/internal/secret"
	"slipway/internal/store"
	"slipway/internal/tunnel"
	"slipway/kernels"
	"slipway/spawner"
	"slipway/spawner/engine"
	"slipway/spawner/spawnertest"
	"slipway/spawner/workloads"
)

const (
	user  = "bench"
	token = "token-of-" + user
)

// service is the one that is measured.
type service struct {
	url    string
	links  *tunnel.Links
	lines  *kernels.Lines
	engine workloads.Workloads
	store  *store.Store
	cancel context.CancelFunc
	work   *errgroup.Group

	mu      sync.Mutex
	sockets map[string]string // of the agents' links, by workload
	kernels []string          // their clients' ids
}

func newService(ctx context.Context, dir string) (*service, error) {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	records, err := store.Open(ctx, filepath.Join(dir, "slipway.db"), log)
	if err != nil {
		return nil, err
	}
	s := &service{
		links: tunnel.New(tunnel.Config{Logger: log}), lines: kernels.NewLines(), store: records,
		sockets: map[string]string{},
	}
	crew := spawnertest.NewCrew()
	account := func(context.Context, string, spawner.User) (spawner.Account, error) {
		return spawner.Account{
			UID: os.Getuid(), GID: os.Getgid(), Login: user, HomeDir: "/home/" + user, Home: filepath.Join(dir, "home"),
		}, nil
	}
	m, err := engine.New(ctx, engine.Config{
		Store: records,
		Backends: []spawner.Backend{
			spawnertest.New(spawnertest.Config{Name: "docker", Started: crew.ComeUp, Ended: crew.GoDown}),
		},
		Agents: linked{crew, s}, Sealer: secret.NewBox(), Sessions: "docker", Dir: filepath.Join(dir, "w"),
		Logger:   log,
		Capacity: map[string]spawner.Capacity{"docker": {CPUs: 1 << 20, Memory: 1 << 50}},
		Account:  account,
	})
	if err != nil {
		return nil, errors.Join(err, records.Close())
	}
	if s.engine, err = workloads.New(ctx, m, workloads.Config{Account: account, Logger: log}); err != nil {
		return nil, errors.Join(err, records.Close())
	}
	crew.Dial(func(id spawner.ID, up bool) { m.LinkChanged(ctx, id, up) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, records.Close())
	}
	s.url = "http://" + l.Addr().String() + "/kernels"
	s.serve(ctx, l, m, log)
	return s, nil
}

// serve runs what a service runs.
func (s *service) serve(ctx context.Context, l net.Listener, m *engine.Manager, log *slog.Logger) {
	api := server.New(server.Config{
		Engine: s.engine, Logger: log, Metrics: metrics.New(metrics.Config{Stats: s.engine.Stats}),
		Dial: func(context.Context, spawner.ID) (net.Conn, error) {
			return nil, errs.New(errs.Unavailable, "it has no app")
		},
		Hubs: []hubs.Hub{
			{Name: "main", APIURL: &url.URL{Scheme: "http", Host: "127.0.0.1", Path: "/hub/api"}, Identify: identify},
		},
		Kernels: func(who func(*http.Request) (spawner.Caller, error), tell func(context.Context, kernels.Deed)) http.Handler {
			return kernels.New(kernels.Config{
				Engine: s.engine, Specs: specs, Identify: who, Tell: tell, Logger: log, Lines: s.lines,
				Agent: func(spawner.ID) kernels.Agent { return resting{} },
				Dial: func(ctx context.Context, id spawner.ID) (net.Conn, error) {
					return s.links.Dial(ctx, string(id), tunnel.DoorKernel)
				},
			})
		},
	})
	front := &http.Server{
		Handler: api.Public(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 128 << 10,
		ConnContext:    web.ConnContext, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	ctx, s.cancel = context.WithCancel(ctx)
	s.work, ctx = errgroup.WithContext(ctx)
	front.BaseContext = func(net.Listener) context.Context { return ctx }
	s.work.Go(func() error { return s.links.Run(ctx) })
	s.work.Go(func() error { return s.lines.Run(ctx) })
	s.work.Go(func() error { return m.Run(ctx) })
	s.work.Go(func() error { return front.Serve(l) })
	s.work.Go(func() error { <-ctx.Done(); return front.Close() })
}

func (s *service) close() error {
	s.cancel()
	if err := s.work.Wait(); err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, http.ErrServerClosed) {
		return errors.Join(err, s.store.Close())
	}
	return s.store.Close()
}

func identify(_ context.Context, given string) (hub.Identity, error) {
	if given != token {
		return hub.Identity{}, errs.New(errs.Unauthorized, "nobody has this token")
	}
	return hub.Identity{Name: user}, nil
}

func specs(spawner.Caller) []kernels.Spec {
	return []kernels.Spec{{
		Name: "python", DisplayName: "Python", Language: "python", Backend: "docker",
		Session: spawner.Spec{
			SessionSpec: spawner.SessionSpec{Image: "played"}, Argv: []string{"python3", "-f", control.ConnectionFile},
			Resources: spawner.Resources{CPUs: 1, Memory: 1 << 30, Pids: 100},
		},
	}}
}

// linked opens the real link of each agent that is played.
type linked struct {
	*spawnertest.Crew
	*service
}

// Open listens for the agent of a workload.
func (l linked) Open(id spawner.ID, socket string, uid int) error {
	l.mu.Lock()
	l.sockets[string(id)] = socket
	l.mu.Unlock()
	return errors.Join(l.Crew.Open(id, socket, uid), l.links.Open(string(id), socket, uid))
}

// Close ends the link.
func (l linked) Close(id spawner.ID) { l.Crew.Close(id); l.links.Close(string(id)) }

// resting is what an agent says of its kernel to those who look at a list.
type resting struct{ kernels.Agent }

// Kernel says that it does nothing.
func (resting) Kernel(context.Context) (control.KernelStatus, error) {
	return control.KernelStatus{State: control.KernelIdle}, nil
}

func (s *service) startKernels(ctx context.Context, n int) error {
	for range n {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/api/kernels", bytes.NewReader([]byte(`{"name": "python"}`)))
		if err != nil {
			return err
		}
		r.Header.Set("Authorization", "token "+token)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		var m struct{ ID, Message string }
		err = json.NewDecoder(res.Body).Decode(&m)
		_ = res.Body.Close()
		if err != nil || res.StatusCode != http.StatusCreated {
			return fmt.Errorf("start a kernel: %s %s %w", res.Status, m.Message, err)
		}
		s.kernels = append(s.kernels, m.ID)
	}
	return nil
}
