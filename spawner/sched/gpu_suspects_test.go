package sched

import (
	"testing"
	"time"

	"slipway/internal/gpu"
	"slipway/spawner"
)

// TestOneUsersWordCondemnsNothing: only what workloads of two users find bad is taken out.
func TestOneUsersWordCondemnsNothing(t *testing.T) {
	alice, bob := spawner.Principal{Hub: "main", User: "alice"}, spawner.Principal{Hub: "main", User: "bob"}
	part := func(at int) gpu.Slice {
		return gpu.Slice{GPU: "GPU-1", Mode: gpu.MIG, Placement: gpu.Placement{Start: at, Size: 1}}
	}
	now := time.Now()
	for _, tt := range []struct {
		name   string
		second spawner.Principal
		at     int
		after  time.Duration
		want   bool
	}{
		{"another user finds the same", bob, 0, time.Hour, true},
		{"the same user again", alice, 0, time.Hour, false},
		{"the same name at another hub is another user", spawner.Principal{Hub: "other", User: "alice"}, 0, time.Hour, true},
		{"another part", bob, 1, time.Hour, false},
		{"long afterwards", bob, 0, suspectLasts, false},
	} {
		d := gpuSuspects{}
		if d.add(part(0), alice, now) {
			t.Errorf("%s: condemned at once", tt.name)
		}
		if got := d.add(part(tt.at), tt.second, now.Add(tt.after)); got != tt.want {
			t.Errorf("%s: condemned %v", tt.name, got)
		}
	}
}

// TestOutOfTheWay: a part in doubt takes itself out of what is free, on a GPU that several share the whole GPU.
func TestOutOfTheWay(t *testing.T) {
	for mode, want := range map[gpu.Mode]gpu.Mode{gpu.MIG: gpu.MIG, gpu.Whole: gpu.Whole, gpu.MPS: "", gpu.Shared: ""} {
		d := gpuSuspects{}
		d.add(gpu.Slice{GPU: "GPU-1", Mode: mode}, spawner.Principal{Hub: "main", User: "alice"}, time.Now())
		if list := d.list(time.Now()); len(list) != 1 || list[0].Mode != want {
			t.Errorf("%s: %v", mode, list)
		}
		if list := d.list(time.Now().Add(suspectLasts)); len(list) > 0 {
			t.Errorf("%s: for ever %v", mode, list)
		}
	}
}
