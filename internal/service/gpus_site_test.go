package service

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"slipway/internal/gpu"
	"slipway/internal/gpu/cdi"
	"slipway/internal/gpu/fakegpu"
	"slipway/internal/gpu/fleet"
	"slipway/internal/secret"
	"slipway/internal/store"
	"slipway/spawner/engine"
)

// gpuSite is a fleet of simulated GPUs, and the engine that leases their slices.
type gpuSite struct {
	dir     string
	records *store.Store
	gpus    *fleet.Fleet
	engine  *engine.Manager // nil: there is none yet
}

func newGPUSite(t testing.TB, models []string, rules ...fleet.Rule) *gpuSite {
	t.Helper()
	s, err := &gpuSite{dir: t.TempDir()}, error(nil)
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	must(os.Chmod(s.dir, 0o700))
	s.records, err = store.Open(t.Context(), filepath.Join(s.dir, "store.db"), slog.New(slog.DiscardHandler))
	must(err)
	t.Cleanup(func() { _ = s.records.Close() })
	driver, err := fakegpu.New(fakegpu.Config{Models: models})
	must(err)
	s.gpus, err = fleet.New(t.Context(), fleet.Config{
		Driver: driver, Store: s.records, Rules: rules, Bind: (&cdi.Host{}).Bind, Held: s.leases,
		Logger: slog.New(slog.DiscardHandler),
	})
	must(err)
	return s
}

func (s *gpuSite) leases() []gpu.Lease {
	if s.engine == nil {
		return nil
	}
	return s.engine.Leases()
}

// start makes the engine, with what the site has and what a test has besides.
func (s *gpuSite) start(t testing.TB, c engine.Config) {
	t.Helper()
	c.Store, c.GPUs, c.Dir, c.Logger = s.records, s.gpus, filepath.Join(s.dir, "work"), slog.New(slog.DiscardHandler)
	c.Sessions, c.Sealer = "docker", secret.NewBox()
	var err error
	if s.engine, err = engine.New(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}
