package metrics

import (
	"net/http/httptest"
	"strings"
	"testing"

	"slipway/spawner"
)

func TestCredentials(t *testing.T) {
	m := New(Config{Stats: func() spawner.Stats { return spawner.Stats{} }, Credentials: func() Credentials {
		return Credentials{Refreshes: map[[2]string]int{{"wlcg", "ok"}: 3}, Held: map[string]int{"wlcg": 2, "x509": 1}, Trouble: map[string]int{"x509": 1}}
	}})
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{
		`slipway_token_refreshes_total{issuer="wlcg",result="ok"} 3`, `slipway_credentials{name="wlcg"} 2`,
		`slipway_credentials_in_trouble{name="wlcg"} 0`, `slipway_credentials_in_trouble{name="x509"} 1`,
	} {
		if !strings.Contains(w.Body.String(), want+"\n") {
			t.Errorf("no %s", want)
		}
	}
}
