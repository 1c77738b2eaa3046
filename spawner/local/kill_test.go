package local_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"slipway/spawner"
	"slipway/spawner/local"
)

// order is what a service that is to be killed is told to start.
type order struct {
	Config local.Config
	Launch spawner.Launch
	After  time.Duration // negative: before the shim is started
	Trial  *local.Trial  // instead of a job; the service dies when it runs
	Share  bool          // jobs share mounts of their images
}

// service plays a service that starts a job and is killed meanwhile.
func service(text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	o.Config.Logger = slog.New(slog.DiscardHandler)
	if o.Share {
		o.Config.Squashfs = func(string) (int64, error) { return 0, nil }
	}
	o.Launch.Report = func(string, int) {
		die := func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }
		if o.After < 0 {
			die()
		}
		time.AfterFunc(o.After, die)
	}
	b, err := local.New(o.Config)
	if err != nil {
		return err
	}
	if o.Trial != nil {
		go dieWhen(filepath.Join(o.Config.Dir, "trial", "started"))
		_, err := b.Try(context.Background(), *o.Trial)
		return err
	}
	if err := b.Start(context.Background(), o.Launch); err != nil {
		return err
	}
	select {}
}

// dieWhen kills the process when a file is there.
func dieWhen(file string) {
	for {
		if _, err := os.Stat(file); err == nil {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		<-time.After(time.Millisecond)
	}
}

// MarshalJSON is the order's own because a Logger and a func cannot be sent.
func (o order) MarshalJSON() ([]byte, error) {
	o.Config.Logger = nil
	type launch struct {
		spawner.Workload
		Account            spawner.Account
		Dir, AgentDir, SIF string
	}
	l := o.Launch
	return json.Marshal(map[string]any{
		"Config": o.Config, "After": o.After, "Trial": o.Trial, "Share": o.Share, "Launch": launch{l.Workload, l.Account, l.Dir, l.AgentDir, l.SIF},
	})
}

// TestKilledService kills the service at many points of a start. A new one sees the truth, goes on from there, and the
// job runs once.
func TestKilledService(t *testing.T) {
	for _, after := range []time.Duration{-1, 0, 1, 2, 4, 6, 8, 12, 20, 100} {
		w := newWorld(t)
		w.script(t, "echo run >> /var/tmp/runs\ntouch /var/tmp/up\nexec sleep 60\n")
		l := w.launch(t)
		text, err := json.Marshal(order{w.cfg, l, after * time.Millisecond, nil, false})
		must(t, err)
		out, err := exec.Command(w.cfg.Self, "test-service", string(text)).CombinedOutput()
		if err == nil || len(out) > 0 {
			t.Fatalf("the service was to be killed: %v\n%s", err, out)
		}
		b := w.backend(t)
		o, err := b.Observe(t.Context(), l.ID)
		must(t, err)
		t.Logf("killed after %v ms: %s", int(after), o.Existence)
		j := start(t, w, l)
		j.file(t, "up")
		if got := j.file(t, "runs"); got != "run\n" {
			t.Errorf("killed after %v ms: runs %q", int(after), got)
		}
		must(t, j.Stop(t.Context(), l.ID, 0))
		if n := alive(t); n > 0 {
			t.Errorf("killed after %v ms: %d processes are left", int(after), n)
		}
	}
}
