package api

import (
	"context"
	"testing"

	"slipway/internal/errs"
	"slipway/spawner"
)

// drained counts the GPUs that were taken out of use or put back.
type drained int

func (d *drained) Drain(context.Context, string, string, string) (string, error) {
	*d++
	return "GPU-1", nil
}

func (d *drained) Resume(context.Context, string) (string, string, error) {
	*d++
	return "GPU-1", "", nil
}

// TestWhoKeepsGPUs: an administrator does by herself, and no program in a session of hers.
func TestWhoKeepsGPUs(t *testing.T) {
	var keeper drained
	k := keeping{&keeper}
	for name, c := range map[string]spawner.Caller{
		"nobody": {}, "a user": {User: "bob", Hub: "main"}, "a Spawner": {Hub: "main", Spawner: true}, "a Spawner that says more": {Hub: "main", Spawner: true, Admin: true},
		"an administrator's session": {User: "root", Hub: "main", Admin: true, Workload: "s-root"}, "her job": {User: "root", Hub: "main", Workload: "j-root"},
	} {
		_, err := k.drain(t.Context(), c, "GPU-1", "")
		_, _, again := k.resume(t.Context(), c, "GPU-1")
		if !errs.Is(err, errs.Forbidden) || !errs.Is(again, errs.Forbidden) {
			t.Errorf("%s: %v, %v", name, err, again)
		}
	}
	if keeper != 0 {
		t.Errorf("%d were done", keeper)
	}
	if _, err := k.drain(t.Context(), spawner.Caller{System: true}, "GPU-1", ""); err != nil {
		t.Error(err)
	}
}
