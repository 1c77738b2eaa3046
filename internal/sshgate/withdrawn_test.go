package sshgate

import "testing"

// TestWithdrawnMeanwhile: what is taken away between the look at a key and the entry lets nobody in either.
func TestWithdrawnMeanwhile(t *testing.T) {
	h := open(t, nil)
	h.keeper.lost = true
	c := h.alice("alice")
	if err := c.Wait(); err == nil {
		t.Error("the connection ended without an error")
	}
}
