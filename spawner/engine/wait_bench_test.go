package engine_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"slipway/internal/secret"
	"slipway/internal/store"
	"slipway/spawner"
	"slipway/spawner/engine"
	"slipway/spawner/spawnertest"
	"slipway/spawner/workloads"
)

// startsPerSecond is the load under which BenchmarkVisitorsWait measures: faster than any Hub starts servers.
const startsPerSecond = 50

// BenchmarkVisitorsWait measures how long the session proxy's calls wait while sessions start and every change is
// synced to disk: visitors of running sessions must not feel that others start theirs.
func BenchmarkVisitorsWait(b *testing.B) {
	m, started := busyService(b)
	r := request("visitor", "", "v")
	w, err := m.StartSession(b.Context(), hub, r)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := m.Await(b.Context(), hub, w.ID, func(w spawner.Workload) bool { return w.Phase == spawner.Running }); err != nil {
		b.Fatal(err)
	}
	m.Visit(w.ID, true)
	calls := map[string]func(){
		"route": func() { m.Route("main", "/user/visitor/api/contents") },
		"get":   func() { _, _ = m.Get(b.Context(), spawner.Caller{System: true}, w.ID) },
		"visit": func() { m.Visit(w.ID, true) },
	}
	for _, name := range []string{"route", "get", "visit"} {
		b.Run(name, func(b *testing.B) {
			stop := started(b)
			defer stop()
			visits := time.NewTicker(time.Millisecond)
			defer visits.Stop()
			var took []time.Duration
			for b.Loop() {
				<-visits.C
				begun := time.Now()
				calls[name]()
				took = append(took, time.Since(begun))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
			b.ReportMetric(float64(took[len(took)-1].Microseconds()), "max-µs")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// busyService is an engine over a real store on disk, and what starts sessions in it until it is stopped.
func busyService(b *testing.B) (workloads.Workloads, func(*testing.B) (stop func())) {
	dir := b.TempDir()
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	if err := os.Chmod(dir, 0o700); err != nil {
		b.Fatal(err)
	}
	records, err := store.Open(b.Context(), filepath.Join(dir, "store.db"), quiet)
	if err != nil {
		b.Fatal(err)
	}
	crew := spawnertest.NewCrew()
	backend := spawnertest.New(spawnertest.Config{Name: "docker", Started: crew.ComeUp, Ended: crew.GoDown})
	account := func(_ context.Context, _ string, u spawner.User) (spawner.Account, error) {
		return spawner.Account{UID: os.Getuid(), GID: os.Getgid(), Login: string(u), Home: "/home/" + string(u)}, nil
	}
	m, err := engine.New(b.Context(), engine.Config{
		Store: records, Backends: []spawner.Backend{backend}, Agents: crew, Dir: filepath.Join(dir, "work"), Logger: quiet, Sessions: "docker",
		Sealer:  secret.NewBox(),
		Account: account,
	})
	if err != nil {
		b.Fatal(err)
	}
	all, err := workloads.New(b.Context(), m, workloads.Config{Account: account, Logger: quiet})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	crew.Dial(func(id spawner.ID, up bool) { m.LinkChanged(ctx, id, up) })
	done := make(chan struct{})
	go func() { defer close(done); _ = m.Run(ctx) }()
	b.Cleanup(func() { cancel(); <-done; _ = records.Close() })
	n := 0
	return all, func(b *testing.B) func() {
		ctx, stop := context.WithCancel(b.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			tick := time.NewTicker(time.Second / startsPerSecond)
			defer tick.Stop()
			for ; ctx.Err() == nil; n++ {
				<-tick.C
				if _, err := all.StartSession(context.WithoutCancel(ctx), hub, request(fmt.Sprint("user", n), "", fmt.Sprint("l", n))); err != nil {
					b.Error(err)
				}
			}
		}()
		return func() { stop(); <-ended }
	}
}
