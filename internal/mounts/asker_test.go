package mounts

import (
	"strings"
	"testing"
	"time"

	"slipway/internal/errs"
)

// TestOneSilentServerAmongMany: what hangs at one user's directory is not held against the others', until it is very
// much.
func TestOneSilentServerAmongMany(t *testing.T) {
	a := NewAsker(AskerConfig{Program: []string{"true"}, Deadline: time.Minute})
	c, err := begin([]string{"sleep", "1000"})
	if err != nil {
		t.Fatal(err)
	}
	hang := func(n int, place string) {
		for range n {
			a.stuck["/home"] = append(a.stuck["/home"], hung{c, place})
		}
	}
	ask := func(root, place string) error { _, err := a.Ask(t.Context(), root, place); return err }
	hang(mostStuck, "/home/alice")
	if err := ask("/home", "/home/alice"); !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), "/home/alice does not answer") {
		t.Error("at what hangs:", err)
	}
	if err := ask("/home", "/home/bob"); err != nil {
		t.Error("beside it:", err)
	}
	hang(mostBelow-mostStuck, "/home/others")
	if err := ask("/home", "/home/bob"); !errs.Is(err, errs.Unavailable) {
		t.Error("where very much hangs:", err)
	}
	if err := ask("/data", "/data"); err != nil {
		t.Error("elsewhere:", err)
	}
	for !c.end() { // it is killed: that takes as long as the machine is busy
	}
	if err := ask("/home", "/home/alice"); err != nil {
		t.Error("when all have ended:", err)
	}
}
