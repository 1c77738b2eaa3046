package docker

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/errs"
	"slipway/internal/testenv"
	lookalike "slipway/internal/testenv/autofs"
	"slipway/spawner"
)

// cvmfsWorld has workloads that see the look-alike's directory as the service configures it.
func cvmfsWorld(t *testing.T) (world, *lookalike.Autofs) {
	t.Helper()
	testenv.Need(t, testenv.Busybox)
	w := newWorld(t)
	a := lookalike.Start(t)
	w.Backend = w.again(t, Config{Instance: w.cfg.Instance, Mounts: []Mount{{Source: a.Dir, Target: "/cvmfs", ReadOnly: true, Propagation: "rslave"}}})
	t.Cleanup(func() { w.clear(t) })
	return w, a
}

const hello = "hello from " + lookalike.Repository + "\n"

// reads has a user's process in the container read a file below /cvmfs.
func (w world) reads(t *testing.T, id spawner.ID, name string) string {
	t.Helper()
	out, err := exec.Command("docker", "exec", nameOf(id), "/bin/busybox", "timeout", "20", "/bin/busybox", "cat", "/cvmfs/"+name).CombinedOutput()
	if err != nil {
		return fmt.Sprintf("%s (%v)", out, err)
	}
	return string(out)
}

// TestCVMFSMountedLater: what nobody had mounted when the container started appears when its user looks, goes when it
// is idle, and comes back. Nobody writes there.
func TestCVMFSMountedLater(t *testing.T) {
	w, a := cvmfsWorld(t)
	a.AwaitExpiry(lookalike.Repository)
	l := w.launch(t, "")
	w.up(t, l)
	if a.Mounted(lookalike.Repository) {
		t.Error("the start has mounted a repository that nobody looks at")
	}
	for range 2 {
		if got := w.reads(t, l.ID, lookalike.Repository+"/hello.txt"); got != hello {
			t.Errorf("read %q", got)
		}
		a.AwaitExpiry(lookalike.Repository)
	}
	a.Kill()
	a.Up()
	if got := w.reads(t, l.ID, lookalike.Repository+"/hello.txt"); got != hello {
		t.Errorf("after automount was killed: %q", got)
	}
	for _, name := range []string{"new", lookalike.Repository + "/new"} {
		if out, err := exec.Command("docker", "exec", nameOf(l.ID), "/bin/busybox", "touch", "/cvmfs/"+name).CombinedOutput(); err == nil {
			t.Errorf("wrote /cvmfs/%s: %s", name, out)
		}
	}
}

// TestCVMFSBusyAtTheEnd: a session that ends while it reads a repository leaves no mount, and the repository is
// unmounted afterwards.
func TestCVMFSBusyAtTheEnd(t *testing.T) {
	w, a := cvmfsWorld(t)
	l := w.launch(t, "")
	w.up(t, l)
	reader := exec.Command("docker", "exec", nameOf(l.ID), "/bin/busybox", "sh", "-c", "exec 3</cvmfs/"+lookalike.Repository+"/hello.txt; cd /cvmfs/"+lookalike.Repository+"; echo busy; exec sleep 1000")
	out, err := reader.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := reader.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	if err := w.Stop(t.Context(), l.ID, 0); err != nil {
		t.Fatal(err)
	}
	_ = reader.Wait()
	if err := w.Remove(t.Context(), l.ID); err != nil {
		t.Fatal(err)
	}
	a.AwaitExpiry(lookalike.Repository)
	info, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Count(string(info), " "+a.Dir+" ") != 1 {
		t.Errorf("mounts of this host at %s: %d (%v)", a.Dir, strings.Count(string(info), " "+a.Dir+" "), err)
	}
}

// TestCVMFSComesToAKeptSession: a session of before there was a /cvmfs has it at its next start, with its changes.
func TestCVMFSComesToAKeptSession(t *testing.T) {
	w, _ := cvmfsWorld(t)
	before := w.again(t, Config{Instance: w.cfg.Instance})
	l := w.launch(t, "")
	if err := before.Start(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("docker", "exec", "--user", "0", nameOf(l.ID), "/bin/busybox", "touch", "/var/mine").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := before.Stop(t.Context(), l.ID, 0); err != nil {
		t.Fatal(err)
	}
	var told []string
	l.Report = func(message string, _ int) { told = append(told, message) }
	w.up(t, l)
	if got := w.reads(t, l.ID, lookalike.Repository+"/hello.txt"); got != hello {
		t.Errorf("read %q; it was told %q", got, told)
	}
	if out, err := exec.Command("docker", "exec", nameOf(l.ID), "/bin/busybox", "stat", "/var/mine").CombinedOutput(); err != nil {
		t.Errorf("its change is gone: %s", out)
	}
	want := []string{"Moving your changes to a container with what sessions see of this host now"}
	if d := cmp.Diff(want, told); d != "" {
		t.Error(d)
	}
}

func TestOutlook(t *testing.T) {
	w := newWorld(t)
	var told []string
	outlook := func(context.Context) ([]string, error) { return []string{"CVMFS: a.b does not answer"}, nil }
	b := w.again(t, Config{Instance: w.cfg.Instance, Outlook: func(ctx context.Context) ([]string, error) { return outlook(ctx) }})
	l := w.launch(t, "")
	l.Report = func(message string, _ int) { told = append(told, message) }
	if err := b.Start(t.Context(), l); err != nil || len(told) != 1 || told[0] != "CVMFS: a.b does not answer" {
		t.Errorf("Start = %v, told %q", err, told)
	}
	outlook = func(context.Context) ([]string, error) { return nil, errs.New(errs.Unavailable, "it does not answer") }
	if err := b.Start(t.Context(), l); err != nil {
		t.Error("a session that runs is in nobody's way:", err)
	}
	other := w.launch(t, "")
	if err := b.Start(t.Context(), other); !errs.Is(err, errs.Unavailable) {
		t.Errorf("Start = %v", err)
	}
}

// TestCVMFSAddsNothingToAStart measures; the bound is for a machine with much else to do.
func TestCVMFSAddsNothingToAStart(t *testing.T) {
	w, _ := cvmfsWorld(t)
	plain := w.again(t, Config{Instance: w.cfg.Instance})
	took := func(b *Backend) time.Duration {
		l := w.launch(t, "")
		began := time.Now()
		if err := b.Start(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		return time.Since(began)
	}
	took(plain)
	var with, without time.Duration
	for range 3 {
		with += took(w.Backend) / 3
		without += took(plain) / 3
	}
	t.Logf("a start takes %v with /cvmfs and %v without", with, without)
	if with > without+time.Second {
		t.Errorf("/cvmfs adds %v to a start", with-without)
	}
}
