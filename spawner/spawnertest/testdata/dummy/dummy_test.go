package dummy

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"slipway/internal/config"
	"slipway/spawner"
	"slipway/spawner/spawnertest"
)

func TestConforms(t *testing.T) {
	var made atomic.Int64
	spawnertest.Run(t, func(*testing.T) spawnertest.Subject {
		b := New()
		return spawnertest.Subject{
			Backend: b,
			Launch: func(*testing.T) spawner.Launch {
				id := spawner.ID(fmt.Sprintf("j-%016d", made.Add(1)))
				return spawner.Launch{Workload: spawner.Workload{ID: id, Kind: spawner.Job}}
			},
			Again: func(*testing.T) spawner.Backend { return Backend{b.Again(spawnertest.Config{})} },
		}
	})
}

func TestConfigurable(t *testing.T) {
	if !slices.ContainsFunc(config.Backends(), func(b config.Backend) bool { return b.Name == New().Name() && b.Jobs }) {
		t.Error("jobs cannot be sent there")
	}
}
