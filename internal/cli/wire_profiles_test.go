package cli

import (
	"testing"

	"slipway/internal/config"
)

// TestJobLimitsOfThePool: the pool's own limits count there, and this host's where it has none.
func TestJobLimitsOfThePool(t *testing.T) {
	cfg := config.Default()
	cfg.HTCondor.MaxCPUs = 32
	p := jobPolicyOf(cfg)
	if here, far := p.On(""), p.On(config.BackendHTCondor); here.MaxCPUs != 2 || far.MaxCPUs != 32 || far.MaxMemory != here.MaxMemory {
		t.Errorf("here %+v, in the pool %+v", here, far)
	}
	cfg.Jobs.Backend = config.BackendHTCondor
	if p := jobPolicyOf(cfg).On(""); p.MaxCPUs != 32 {
		t.Errorf("of jobs that go to the pool by themselves %+v", p)
	}
}
