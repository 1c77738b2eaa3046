package local_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway/internal/errs"
	"slipway/internal/testenv"
	"slipway/spawner"
	"slipway/spawner/local"
)

func (w *world) trial(argv ...string) local.Trial {
	return local.Trial{
		Image: w.image, Account: spawner.Account{Login: "wanda", UID: 54321, GID: 54322, Home: "/home/wanda", HomeDir: "/nowhere"}, Argv: argv,
		Resources: spawner.Resources{CPUs: 1, Memory: 256 << 20, Pids: 64}, Limit: time.Minute,
	}
}

// gone makes sure that nothing of a trial is left.
func (w *world) gone(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(w.cfg.Dir, "trial")); !os.IsNotExist(err) {
		t.Errorf("a trial's directory is left: %v", err)
	}
	left, err := filepath.Glob("/sys/fs/cgroup/*/" + w.cfg.CgroupParent + "/" + w.cfg.Instance + "/trial")
	if must(t, err); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// TestTrialHasNothing: it runs as the user with nobody's rights, and sees no network, no home, nothing of the host.
func TestTrialHasNothing(t *testing.T) {
	w := newWorld(t)
	b := w.backend(t)
	out, err := b.Try(t.Context(), w.trial("/bin/busybox", "sh", "-c",
		`busybox id -u; busybox cut -d: -f1 /proc/net/dev | busybox tail -n +3; busybox ls -A "$HOME"; busybox cut -d" " -f19 /proc/self/stat; busybox grep CapEff /proc/self/status; busybox env | busybox grep -c SLIPWAY`))
	must(t, err)
	if got := strings.Join(strings.Fields(string(out)), " "); got != "54321 lo 19 CapEff: 0000000000000000 0" {
		t.Errorf("%s", out)
	}
	w.gone(t)
	if all, err := b.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("a trial is taken for a workload: %v %v", all, err)
	}
}

// TestTrialIsBounded: in time and in memory, and it ends with who waits for it.
func TestTrialIsBounded(t *testing.T) {
	w := newWorld(t)
	b := w.backend(t)
	long := w.trial("/bin/busybox", "sleep", "1000")
	long.Limit = 500 * time.Millisecond
	if _, err := b.Try(t.Context(), long); !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), "time limit of 500ms reached") {
		t.Errorf("time: %v", err)
	}
	fat := w.trial("/bin/busybox", "sh", "-c", "busybox tail /dev/zero; exit 1")
	if _, err := b.Try(t.Context(), fat); !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), "out of memory") {
		t.Errorf("memory: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		testenv.Within(testenv.Hang, func() bool { return alive(t) > 0 })
		cancel()
	}()
	if _, err := b.Try(ctx, w.trial("/bin/busybox", "sleep", "1000")); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	w.gone(t)
	if _, err := b.Try(t.Context(), local.Trial{Image: w.image}); !errs.Is(err, errs.Invalid) {
		t.Errorf("nothing to run: %v", err)
	}
	root := w.trial("/bin/busybox", "true")
	root.Account.UID = 0
	if _, err := b.Try(t.Context(), root); !errs.Is(err, errs.Forbidden) {
		t.Errorf("as root: %v", err)
	}
}

// TestTrialOfKilledService: what is left of it ends before another begins.
func TestTrialOfKilledService(t *testing.T) {
	w := newWorld(t)
	first := w.trial("/bin/busybox", "sh", "-c", "busybox sleep 1000")
	text, err := json.Marshal(order{Config: w.cfg, Trial: &first})
	must(t, err)
	if out, err := exec.Command(w.cfg.Self, "test-service", string(text)).CombinedOutput(); err == nil || len(out) > 0 {
		t.Fatalf("the service was to be killed: %v\n%s", err, out)
	}
	if n := alive(t); n == 0 {
		t.Error("nothing of the trial has outlived the service: the test tests nothing")
	}
	out, err := w.backend(t).Try(t.Context(), w.trial("/bin/busybox", "echo", "hello"))
	if must(t, err); strings.TrimSpace(string(out)) != "hello" {
		t.Errorf("%s", out)
	}
	if n := alive(t); n > 0 {
		t.Errorf("%d processes are left", n)
	}
	w.gone(t)
}
