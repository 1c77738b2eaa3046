package metrics

import (
	"strings"
	"testing"

	"slipway/spawner"
)

func TestLibrary(t *testing.T) {
	got := scrape(New(Config{
		Stats:   func() spawner.Stats { return spawner.Stats{} },
		Library: func() Library { return Library{Environments: 2, Bases: 1, Bytes: 4096, Waiting: 3, WaitingBytes: 8192} },
	}))
	for _, want := range []string{
		`slipway_library_swept_total{kind="environment"} 2`, `slipway_library_swept_total{kind="base"} 1`, `slipway_library_swept_bytes_total 4096`,
		`slipway_library_unreferenced 3`, `slipway_library_unreferenced_bytes 8192`,
	} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("%q is missing", want)
		}
	}
}
