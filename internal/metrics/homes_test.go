package metrics

import (
	"strings"
	"testing"

	"slipway/spawner"
)

func TestHomes(t *testing.T) {
	got := scrape(New(Config{
		Stats: func() spawner.Stats { return spawner.Stats{} },
		Homes: func() Homes {
			return Homes{Over: map[[2]string]int{{"home", "80"}: 3}, Trouble: map[string]int{"scratch": 1}}
		},
	}))
	for _, want := range []string{`slipway_quota_users{area="home",over="80"} 3`, `slipway_quota_trouble{area="scratch"} 1`} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("%q is missing", want)
		}
	}
}
