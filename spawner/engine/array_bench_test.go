package engine_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"slipway/internal/errs"
	"slipway/internal/secret"
	"slipway/internal/store"
	"slipway/spawner"
	"slipway/spawner/engine"
	"slipway/spawner/launch"
	"slipway/spawner/spawnertest"
	"slipway/spawner/workloads"
)

const atOnce = 500

// BenchmarkLargeScan shows how long a scan of ten thousand points with input files takes to be accepted, with its
// records on a disk, and how long it takes its owner to cancel it, to try it again and to remove it.
func BenchmarkLargeScan(b *testing.B) {
	for b.Loop() {
		m := jobService(b)
		r := spawner.JobRequest{Spec: spawner.Spec{Environment: "ana", Argv: []string{"x"}}, Files: map[string][]byte{}}
		for i := range 5 {
			r.Files[fmt.Sprint("in", i)] = make([]byte, 4<<10)
		}
		begun := time.Now()
		told := func(what string) { b.ReportMetric(time.Since(begun).Seconds(), what); begun = time.Now() }
		scan, err := m.SubmitScan(b.Context(), alice, r, points(spawner.MostPoints))
		if err != nil {
			b.Fatal(err)
		}
		told("accept-s")
		settled := func(done func(spawner.Workload) bool) {
			for _, j := range scan {
				if _, err := m.Await(b.Context(), alice, j.ID, done); err != nil && !errs.Is(err, errs.NotFound) {
					b.Fatal(err)
				}
			}
			begun = time.Now()
		}
		ended := func(w spawner.Workload) bool { return !w.Phase.Active() }
		each(b, scan, func(id spawner.ID) error { _, err := m.Stop(b.Context(), alice, id); return err })
		told("cancel-s")
		settled(ended)
		each(b, scan, func(id spawner.ID) error { _, err := m.Retry(b.Context(), alice, id, spawner.Retry{}); return err })
		told("retry-s")
		each(b, scan, func(id spawner.ID) error { _, err := m.Stop(b.Context(), alice, id); return err })
		settled(ended)
		each(b, scan, func(id spawner.ID) error { return m.Remove(b.Context(), alice, id) })
		told("remove-s")
	}
}

// each does something to the points of a scan as the service does, many at once.
func each(b *testing.B, scan []spawner.Workload, do func(spawner.ID) error) {
	var g errgroup.Group
	g.SetLimit(atOnce)
	for _, j := range scan {
		g.Go(func() error { return do(j.ID) })
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
}

// jobService is an engine over a real store on a disk, with one place for jobs that run for ever.
func jobService(b *testing.B) workloads.Workloads {
	dir, quiet := b.TempDir(), slog.New(slog.NewTextHandler(io.Discard, nil))
	if err := os.Chmod(dir, 0o700); err != nil {
		b.Fatal(err)
	}
	records, err := store.Open(b.Context(), filepath.Join(dir, "store.db"), quiet)
	if err != nil {
		b.Fatal(err)
	}
	crew := spawnertest.NewCrew()
	crew.Boot(func(h *spawnertest.Hand) { h.Ready() })
	m, err := engine.New(b.Context(), engine.Config{
		Store: records, Backends: []spawner.Backend{spawnertest.New(spawnertest.Config{Name: "local", Started: crew.ComeUp, Ended: crew.GoDown})},
		Agents: crew, Dir: filepath.Join(dir, "work"), Logger: quiet, Capacity: map[string]spawner.Capacity{"local": {Count: 1}},
		Sealer: secret.NewBox(),
		Account: func(_ context.Context, _ string, u spawner.User) (spawner.Account, error) {
			return spawner.Account{UID: os.Getuid(), GID: os.Getgid(), Login: string(u), Home: "/home/" + string(u)}, nil
		},
		Launch: launch.Config{Image: func(context.Context, string) (string, error) { return "/envs/1234.sif", nil }},
	})
	if err != nil {
		b.Fatal(err)
	}
	all, err := workloads.New(b.Context(), m, workloads.Config{
		Jobs: "local", Logger: quiet,
		Account:     func(context.Context, string, spawner.User) (spawner.Account, error) { return spawner.Account{}, nil },
		Environment: func(context.Context, string, spawner.User, string) (string, error) { return "sha256:1234", nil },
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	crew.Dial(func(id spawner.ID, up bool) { m.LinkChanged(ctx, id, up) })
	done := make(chan struct{})
	go func() { defer close(done); _ = m.Run(ctx) }()
	b.Cleanup(func() { cancel(); <-done; _ = records.Close() })
	return all
}
