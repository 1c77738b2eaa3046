package culling

import (
	"strings"
	"testing"
	"time"

	"slipway/internal/agent/control"
	"slipway/spawner"
)

func TestPlannedStop(t *testing.T) {
	up := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	at := func(minutes int) time.Time { return up.Add(time.Duration(minutes) * time.Minute) }
	life := spawner.Life{Idle: time.Hour, MaxAge: 10 * time.Hour, FirstConnect: 20 * time.Minute, Warning: 10 * time.Minute, MaxKeep: 4 * time.Hour}
	tests := []struct {
		name   string
		edit   func(*spawner.Workload)
		looked int // minutes
		now    int
		stop   int // minutes; -1: never
		why    string
		known  bool
		keep   bool
	}{
		{"just started", func(*spawner.Workload) {}, 0, 1, 20, "not opened", true, true},
		{"opened and left", func(w *spawner.Workload) { w.Visited = at(5) }, 30, 31, 65, "idle for 26 min of at most 1 h", true, true},
		{"in use", func(w *spawner.Workload) { w.Visited, w.Active = at(5), at(90) }, 90, 90, 150, "if nothing goes on in it for 1 h", true, true},
		{"its agent is silent", func(w *spawner.Workload) { w.Visited = at(5) }, 30, 40, 65, "idle", false, true},
		{"something went on", func(w *spawner.Workload) { w.Visited, w.Active = at(5), at(90) }, 100, 100, 150, "idle for 10 min", true, true},
		{"never opened, but at work", func(w *spawner.Workload) { w.Active = at(10) }, 15, 15, 70, "idle", true, true},
		{"kept", func(w *spawner.Workload) { w.Visited, w.KeepUntil = at(5), at(200) }, 60, 60, 200, "kept until then", true, true},
		{"kept for less than is left anyway", func(w *spawner.Workload) { w.Visited, w.KeepUntil = at(5), at(20) }, 10, 10, 65, "idle", true, true},
		{"never opened, and kept", func(w *spawner.Workload) { w.KeepUntil = at(100) }, 10, 10, 100, "kept until then", true, true},
		{"old", func(w *spawner.Workload) { w.Active = at(590) }, 595, 595, 600, "up for 9 h 55 min of at most 10 h", true, false},
		{"old, and kept", func(w *spawner.Workload) { w.Active, w.KeepUntil = at(500), at(900) }, 595, 595, 600, "up for", true, false},
		{"no limits", func(w *spawner.Workload) { w.Spec.Life = spawner.Life{} }, 0, 10000, -1, "", false, false},
		{"no keeping", func(w *spawner.Workload) { w.Visited, w.Spec.Life.MaxKeep = at(5), 0 }, 30, 31, 65, "idle", true, false},
		{"never opened, without a limit for that", func(w *spawner.Workload) { w.Spec.Life.FirstConnect = 0 }, 30, 31, 60, "idle", true, true},
	}
	for _, tt := range tests {
		w := spawner.Workload{Phase: spawner.Running, Up: up, Spec: spawner.Spec{SessionSpec: spawner.SessionSpec{Life: life}}}
		tt.edit(&w)
		p := PlannedStop(w, at(tt.looked), time.Time{}, at(tt.now))
		want := time.Time{}
		if tt.stop >= 0 {
			want = at(tt.stop)
		}
		if !p.At.Equal(want) || !strings.Contains(p.Why, tt.why) || p.Known != tt.known || p.CanKeep != tt.keep {
			t.Errorf("%s: %+v, want %v, %q, known %v, can be kept %v", tt.name, p, want, tt.why, tt.known, tt.keep)
		}
	}
}

// TestDeadline: what a batch system gives a session ends it as its age does, and its user is told of that twice.
func TestDeadline(t *testing.T) {
	up := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	w := spawner.Workload{Phase: spawner.Running, Up: up}
	w.Visited = up
	w.Spec.Life = spawner.Life{Idle: 3 * time.Hour, MaxAge: 10 * time.Hour, Warning: 10 * time.Minute, MaxKeep: time.Hour}
	for ends, want := range map[time.Duration]spawner.PlannedStop{
		2 * time.Hour:    {At: up.Add(2 * time.Hour), Warning: 15 * time.Minute, LastCall: 5 * time.Minute},
		20 * time.Minute: {At: up.Add(20 * time.Minute), Warning: 10 * time.Minute, LastCall: 5 * time.Minute},
		4 * time.Hour:    {At: up.Add(3 * time.Hour), Warning: 10 * time.Minute},
		-time.Minute:     {At: up.Add(-time.Minute), LastCall: 5 * time.Minute},
	} {
		p := PlannedStop(w, up, up.Add(ends), up)
		if !p.At.Equal(want.At) || p.Warning != want.Warning || p.LastCall != want.LastCall || !p.Known {
			t.Errorf("of %s: %+v", ends, p)
		}
	}
}

func TestActiveAt(t *testing.T) {
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	before := Pulse{Looked: now.Add(-time.Minute), CPU: 100}
	tests := []struct {
		name string
		p    Pulse
		a    control.Activity
		busy float64
		want time.Duration // ago; negative: nothing
	}{
		{"a kernel computes", before, control.Activity{Asked: true, Busy: 1, Quiet: 300}, 0.1, 0},
		{"a kernel printed a while ago", before, control.Activity{Asked: true, Quiet: 300, CPU: 100}, 0.1, 5 * time.Minute},
		{"nothing ever went on", before, control.Activity{Asked: true, Quiet: -1, CPU: 100}, 0.1, -1},
		{"a program from a terminal computes", before, control.Activity{Asked: true, Quiet: 3600, CPU: 130}, 0.1, 0},
		{"JupyterLab itself uses a little", before, control.Activity{Asked: true, Quiet: 3600, CPU: 101}, 0.1, time.Hour},
		{"the processors say nothing", before, control.Activity{Asked: true, Quiet: 3600, CPU: 160}, 0, time.Hour},
		{"the first look knows no rate", Pulse{}, control.Activity{Asked: true, Quiet: -1, CPU: 1e6}, 0.1, -1},
		{"a server that does not answer may compute", before, control.Activity{CPU: 130, Quiet: -1}, 0.1, 0},
		{"or not", before, control.Activity{CPU: 100, Busy: 3, Quiet: -1}, 0.1, -1},
		{"it does not, but somebody types over ssh", before, control.Activity{CPU: 100, SSH: 1, Quiet: 1}, 0.1, time.Second},
		{"an agent that lies", before, control.Activity{Asked: true, Quiet: 1e300, CPU: 100}, 0.1, longestQuiet},
	}
	for _, tt := range tests {
		want := time.Time{}
		if tt.want >= 0 {
			want = now.Add(-tt.want)
		}
		if got := tt.p.ActiveAt(tt.a, spawner.Life{BusyCPU: tt.busy}, now); !got.Equal(want) {
			t.Errorf("%s: %v, want %v", tt.name, got, want)
		}
	}
}

func TestWords(t *testing.T) {
	for d, want := range map[time.Duration]string{20 * time.Minute: "20 min", time.Hour: "1 h", 110 * time.Minute: "1 h 50 min", 29 * time.Second: "less than a minute"} {
		if got := Words(d); got != want {
			t.Errorf("%v: %q", d, got)
		}
	}
}
