package metrics

import (
	"strings"
	"testing"

	"slipway/spawner"
)

func TestPlaces(t *testing.T) {
	got := scrape(New(Config{
		Stats: func() spawner.Stats { return spawner.Stats{} },
		Stores: func() []Store {
			return []Store{{Name: "vault", Up: true, Stored: 3, Waiting: 1, Bytes: 1000, Damaged: 2}, {Name: "bucket"}}
		},
		Exports: func() []Export { return []Export{{Name: "cvmfs", Up: true, Published: 5}} },
	}))
	for _, want := range []string{
		`slipway_store_up{store="vault"} 1`, `slipway_store_up{store="bucket"} 0`, `slipway_store_environments{state="stored",store="vault"} 3`,
		`slipway_store_environments{state="waiting",store="vault"} 1`, `slipway_store_bytes{store="vault"} 1000`, `slipway_store_damaged_total{store="vault"} 2`,
		`slipway_export_up{export="cvmfs"} 1`, `slipway_export_names{export="cvmfs"} 5`,
	} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("%q is missing", want)
		}
	}
}
