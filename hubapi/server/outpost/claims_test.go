package outpost

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/errs"
)

func TestClaimsForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, k := newClaims(), claim{"main", "", "a"}
		c.stop(k)
		time.Sleep(stoppedAge - time.Second)
		c.stop(claim{"main", "", "b"})
		if _, _, err := c.take(t.Context(), k); !errs.Is(err, errs.Conflict) {
			t.Errorf("a start behind its stop: %v", err)
		}
		time.Sleep(time.Second)
		_, release, err := c.take(t.Context(), k)
		if err != nil {
			t.Fatalf("a quarter of an hour later: %v", err)
		}
		release()
		for i := range 3 * stoppedLimit {
			c.stop(claim{"main", "", fmt.Sprint(i)})
			c.stop(claim{"main", "", fmt.Sprint(i)})
		}
		if len(c.stopped) != stoppedLimit || len(c.order["main"]) != stoppedLimit || !c.wasStopped(claim{"main", "", fmt.Sprint(3*stoppedLimit - 1)}) {
			t.Errorf("%d stops are remembered", len(c.stopped))
		}
		if c.wasStopped(claim{"other", "", fmt.Sprint(3*stoppedLimit - 1)}) {
			t.Error("a stop counts for its own hub")
		}
	})
}
