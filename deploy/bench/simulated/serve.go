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
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"slipway/hubapi/hub"
	"slipway/hubapi/server"
	"slipway/hubapi/server/hubs"
	"slipway/hubapi/server/web"
	"slipway/internal/hubsync"
	"slipway/internal/identity"
	"slipway/internal/metrics"
	"slipway/internal/secret"
	"slipway/internal/store"
)

// settings are how the world is played.
type settings struct {
	dir, listen, tokenFile           string
	hubAPI, hubTokenFile, hubVersion string
	start, boot, stop                time.Duration
	cpuProfile, heapProfile          string
}

func parseServe(args []string) (settings, error) {
	var s settings
	f := flag.NewFlagSet("simulated serve", flag.ContinueOnError)
	f.StringVar(
		&s.dir, "dir", "", "where the records, homes and directories of sessions go; must be empty or not there",
	)
	f.StringVar(&s.listen, "listen", "127.0.0.1:0", "loopback address of the service")
	f.StringVar(&s.tokenFile, "token-file", "", "file with the token that the Hub's Spawner presents")
	f.StringVar(&s.hubAPI, "hub-api", "http://127.0.0.1:8081/hub/api", "the Hub's REST API")
	f.StringVar(
		&s.hubTokenFile, "hub-token-file", "",
		"file with the token of the Hub's service slipway; empty: the Hub is told nothing",
	)
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
	h, err := newHub(s)
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
	m, err := serveWorld(ctx, s, h, l, log)
	if err != nil {
		return err
	}
	f, err := m.figures()
	return errors.Join(err, json.NewEncoder(os.Stdout).Encode(f))
}

// What the service asks a Hub for, as often as it does by default.
const (
	reconcileEach = 5 * time.Minute
	reconcileAge  = 30 * time.Minute
)

// knownHub is the Hub that the service works for.
type knownHub struct {
	hubs.Hub
	client *hub.Client
}

func newHub(s settings) (knownHub, error) {
	api, err := url.Parse(s.hubAPI)
	if err != nil {
		return knownHub{}, err
	}
	spawnerToken, err := readSecret(s.tokenFile)
	if err != nil {
		return knownHub{}, err
	}
	var own secret.Text
	if s.hubTokenFile != "" {
		if own, err = readSecret(s.hubTokenFile); err != nil {
			return knownHub{}, err
		}
	}
	client := hub.New(hub.Config{APIURL: api, Service: "slipway", Token: own})
	return knownHub{hubs.Hub{
		Name: "main", APIURL: api, SpawnerToken: spawnerToken, Identify: client.Identify, Activity: !own.Empty(),
	}, client}, nil
}

func readSecret(file string) (secret.Text, error) {
	b, err := os.ReadFile(file)
	return secret.New(strings.TrimSpace(string(b))), err
}

// serveWorld puts the real parts together as the service does, over a backend and agents that are played.
func serveWorld(ctx context.Context, s settings, h knownHub, l net.Listener, log *slog.Logger) (*meter, error) {
	if err := os.MkdirAll(s.dir, 0o711); err != nil {
		return nil, err
	}
	records, err := store.Open(ctx, filepath.Join(s.dir, "records", "slipway.db"), log)
	if err != nil {
		return nil, err
	}
	defer records.Close()
	accounts, err := identity.New(
		identity.Config{Store: records, First: 20000, Last: 59999, GID: 100, Homes: filepath.Join(s.dir, "homes")},
	)
	if err != nil {
		return nil, err
	}
	manager, all, err := newEngine(ctx, s, records, accounts, log)
	if err != nil {
		return nil, err
	}
	service := server.New(server.Config{
		Engine: all, Hubs: []hubs.Hub{h.Hub}, Catalogue: catalogue(), Dial: apps{s.hubVersion}.dial,
		Metrics: metrics.New(metrics.Config{Stats: all.Stats}), Logger: log,
	})
	m := newMeter(service.Public())
	front := &http.Server{
		Handler: m, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 128 << 10,
		ConnContext: web.ConnContext, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	fmt.Println("ready: the simulated service at", l.Addr())
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return manager.Run(ctx) })
	if h.Activity {
		sync := hubsync.New(hubsync.Config{
			Name: h.Name, Hub: h.client, Engine: all, Activity: true, Every: reconcileEach, Age: reconcileAge,
			Logger: log,
		})
		g.Go(func() error { return ended(sync.Run(ctx)) })
	}
	g.Go(func() error { return ended(front.Serve(l)) })
	g.Go(func() error {
		<-ctx.Done()
		return errors.Join(profileHeap(s.heapProfile), front.Close())
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
