package mounts

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"slipway/internal/testenv"
	"slipway/internal/testenv/autofs"
)

// TestMain is also the program that looks at a directory.
func TestMain(m *testing.M) {
	testenv.EndAtOnce()
	if len(os.Args) == 4 && os.Args[1] == "probe" {
		if err := Probe(os.Stdout, os.Args[2], os.Args[3]); err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) == 2 && os.Args[1] == "look" {
		if err := lookHere(); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) == 6 && os.Args[1] == "renew" {
		if err := RenewMount(os.Stdout, os.Args[2], os.Args[3], os.Args[4], os.Args[5]); err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func newTestProber(t *testing.T, dir string, deadline time.Duration, names ...string) *Prober {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return NewProber(ProberConfig{Dir: dir, Names: names, Deadline: deadline, Program: []string{self, "probe"}, Locks: t.TempDir()})
}

func TestWhatAProbeFinds(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"good.example.org/file": "x", "deep.example.org/a/b": "x"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "empty.example.org"), 0o755); err != nil {
		t.Fatal(err)
	}
	p := newTestProber(t, dir, time.Minute, Itself, "good.example.org", "deep.example.org", "empty.example.org", "gone.example.org", "good.example.org/file")
	p.Round(t.Context())
	want := []string{". ", "good.example.org ", "deep.example.org ", "empty.example.org cannot be used: it is empty: nothing is mounted there",
		"gone.example.org cannot be used: no such file or directory", "good.example.org/file "}
	got := p.Results(t.Context())
	for i, r := range got {
		if r.String() != want[i] {
			t.Errorf("%q, want %q", r, want[i])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d results", len(got))
	}
}

func TestADeadProbeHoldsUpNothing(t *testing.T) {
	p := NewProber(ProberConfig{Dir: "/", Names: []string{"a", "b"}, Deadline: 50 * time.Millisecond, Program: []string{"sh", "-c", "exec sleep 1000"}, Locks: t.TempDir()})
	p.Round(t.Context())
	for _, r := range p.Known() {
		if !r.Silent || r.Trouble != "does not answer" || r.Stuck {
			t.Errorf("%+v", r)
		}
	}
	if p.Stuck() != 0 {
		t.Error("a process that can be ended was left")
	}
}

// TestAtMostOneIsStuck: no second process looks at what holds the first for good.
func TestAtMostOneIsStuck(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := newTestProber(t, dir, time.Minute, "a")
	cmd := exec.Command("sleep", "1000") // stands for one that the kernel holds
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.asker.stuck["a"] = []hung{{&child{process: cmd.Process}, "a"}}
	if r := p.Ask(t.Context(), "a"); !r.Stuck || !r.Silent || p.Stuck() != 1 {
		t.Errorf("%+v, %d stuck", r, p.Stuck())
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	await(t, "the directory is looked at again", func() bool { return p.Ask(t.Context(), "a").Trouble == "" })
	if p.Stuck() != 0 {
		t.Error("it still counts as stuck")
	}
}

// TestProbesTakeTurns: whoever else has looked and never came back keeps later ones out, those of another service too.
func TestProbesTakeTurns(t *testing.T) {
	p := newTestProber(t, t.TempDir(), 300*time.Millisecond, Itself)
	holder := exec.Command("flock", filepath.Join(p.cfg.Locks, lockName(Itself)), "sh", "-c", "echo held; exec sleep 1000")
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Skip("flock is missing:", err)
	}
	defer func() { _, _ = holder.Process.Kill(), holder.Wait() }()
	if _, err := out.Read(make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	if r := p.Ask(t.Context(), Itself); !r.Silent {
		t.Errorf("%+v", r)
	}
}

func TestTheEndDoesNotWaitForADeadOne(t *testing.T) {
	p := NewProber(ProberConfig{Dir: "/", Names: []string{"a"}, Deadline: time.Hour, Program: []string{"sh", "-c", "exec sleep 1000"}, Locks: t.TempDir()})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	cancel()
	testenv.Receive(t, "it ends", ended)
}

// TestTheEndBeginsNoMore: of many silent directories, those that were not yet looked at are not begun with.
func TestTheEndBeginsNoMore(t *testing.T) {
	began := filepath.Join(t.TempDir(), "began")
	var names []string
	for i := range 3 * atOnce {
		names = append(names, strconv.Itoa(i))
	}
	p := NewProber(ProberConfig{Dir: "/", Names: names, Deadline: time.Hour, Program: []string{"sh", "-c", `echo x >>"$0"; exec sleep 1000`, began}, Locks: t.TempDir()})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { p.Round(ctx); close(ended) }()
	lines := func() int { b, _ := os.ReadFile(began); return strings.Count(string(b), "x") }
	await(t, "as many as may look", func() bool { return lines() == atOnce })
	cancel()
	testenv.Receive(t, "the round ends", ended)
	if n := lines(); n != atOnce {
		t.Errorf("%d have begun", n)
	}
}

// TestARepositoryWhoseServerIsDead is the real thing: autofs waits for a map that never answers, and for the others
// goes on.
func TestARepositoryWhoseServerIsDead(t *testing.T) {
	a := autofs.Start(t)
	a.AwaitExpiry(autofs.Repository)
	p := newTestProber(t, a.Dir, 15*time.Second, Itself, autofs.Repository, autofs.Dead, "gone.example.org")
	began := time.Now()
	p.Round(t.Context())
	took := time.Since(began)
	got := map[string]Result{}
	for _, r := range p.Known() {
		got[r.Name] = r
	}
	if got[Itself].Trouble != "" || got[autofs.Repository].Trouble != "" {
		t.Errorf("what is well has trouble: %+v", got)
	}
	if r := got[autofs.Dead]; !r.Silent {
		t.Errorf("%+v", r)
	}
	if r := got["gone.example.org"]; !strings.Contains(r.Trouble, "no such file") {
		t.Errorf("%+v", r)
	}
	t.Logf("a round with a dead repository took %v; %d processes are stuck", took, p.Stuck())
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	testenv.Until(t, what, testenv.Hang, done)
}
