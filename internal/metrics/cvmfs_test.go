package metrics

import (
	"strings"
	"testing"

	"slipway/spawner"
)

func TestCVMFS(t *testing.T) {
	got := scrape(New(Config{
		Stats: func() spawner.Stats { return spawner.Stats{} },
		CVMFS: func() CVMFS {
			return CVMFS{Repositories: []Repository{{"atlas.cern.ch", true, 0.25}, {"dead.cern.ch", false, 5}}, Stuck: 1}
		},
	}))
	for _, want := range []string{
		`slipway_cvmfs_repository_up{repository="atlas.cern.ch"} 1`, `slipway_cvmfs_repository_up{repository="dead.cern.ch"} 0`,
		`slipway_cvmfs_probe_seconds{repository="atlas.cern.ch"} 0.25`, `slipway_cvmfs_stuck_probes 1`,
	} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("%q is missing", want)
		}
	}
}
