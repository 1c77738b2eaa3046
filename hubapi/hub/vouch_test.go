package hub

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"slipway/internal/errs"
)

// TestAHubThatKnowsNobody: where the Hub refuses the service's own token too, as on a full disk, a user's is not called
// unknown.
func TestAHubThatKnowsNobody(t *testing.T) {
	var full atomic.Bool
	var asked atomic.Int64
	c := serviceOf(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if full.Load() || !strings.HasSuffix(r.Header.Get("Authorization"), ownToken) {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		fmt.Fprint(w, `{"kind":"service","name":"slipway","scopes":[]}`)
	})
	full.Store(true)
	for n := range 5 {
		if _, err := c.Identify(t.Context(), fmt.Sprint("good", n)); !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), "cannot answer now") {
			t.Errorf("on a full disk: %v", err)
		}
	}
	if n := asked.Load(); n != 6 {
		t.Errorf("the Hub was asked %d times about 5 tokens and its own service", n)
	}
	full.Store(false)
	c.vouching.asked = c.vouching.asked.Add(-negativeAge)
	if _, err := c.Identify(t.Context(), "bad"); !errs.Is(err, errs.Unauthorized) || !strings.Contains(err.Error(), "make a new one") {
		t.Errorf("of an unknown token: %v", err)
	}
}
