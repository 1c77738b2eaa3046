package metrics

import (
	"strings"
	"testing"

	"slipway/spawner"
)

func TestSSH(t *testing.T) {
	got := scrape(New(Config{
		Stats: func() spawner.Stats { return spawner.Stats{} },
		SSH: func() SSH {
			return SSH{Open: 2, Unproved: 3, Read: 10, Written: 20, Logins: map[string]int{"ok": 4, "refused": 5}, Channels: map[string]int{"session": 6}}
		},
	}))
	for _, want := range []string{
		`slipway_ssh_connections{state="open"} 2`, `slipway_ssh_connections{state="unproved"} 3`, `slipway_ssh_logins_total{outcome="refused"} 5`,
		`slipway_ssh_channels_total{kind="session"} 6`, `slipway_ssh_bytes_total{direction="read"} 10`, `slipway_ssh_bytes_total{direction="written"} 20`,
	} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("%q is missing", want)
		}
	}
}
