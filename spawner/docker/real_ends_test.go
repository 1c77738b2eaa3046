package docker

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/client"

	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/spawnertest"
)

// script returns a launch whose agent is a shell script.
func (w world) script(t *testing.T, text string) spawner.Launch {
	t.Helper()
	l := w.launch(t, "")
	l.AgentDir = t.TempDir()
	if err := os.WriteFile(filepath.Join(l.AgentDir, "slipway"), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return l
}

// ended waits for a workload's end.
func (w world) ended(t *testing.T, id spawner.ID) spawner.Observation {
	t.Helper()
	var o spawner.Observation
	until(t, "the workload has ended", func() bool {
		var err error
		o, err = w.Observe(t.Context(), id)
		return err == nil && o.Existence != spawner.Up
	})
	return o
}

// TestEnds ends running workloads in every way that there is outside Slipway, and looks at what is told of it.
func TestEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const idle = "#!/bin/sh\necho up >&2\ntrap 'exit 143' TERM\nwhile :; do sleep 0.1; done\n"
	stop := func(t *testing.T, container string) {
		if _, err := w.client.ContainerStop(t.Context(), container, client.ContainerStopOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	tests := map[string]struct {
		agent string
		act   func(t *testing.T, container string)
		want  spawner.Observation // Reason is its beginning
	}{
		"dies": {
			"#!/bin/sh\ni=1; while [ $i -le 60 ]; do echo line $i >&2; i=$((i+1)); done; exit 3\n", nil,
			spawner.Observation{Existence: spawner.Exited, ExitCode: 3, Tail: numbered(21, 60)},
		},
		"docker kill": {idle, func(t *testing.T, container string) {
			if _, err := w.client.ContainerKill(t.Context(), container, client.ContainerKillOptions{Signal: "KILL"}); err != nil {
				t.Fatal(err)
			}
		}, spawner.Observation{Existence: spawner.Exited, ExitCode: 137, Reason: "its container was ended outside Slipway", Tail: "up"}},
		"docker stop": {idle, stop, spawner.Observation{
			Existence: spawner.Exited, ExitCode: 143, Reason: "its container was ended outside Slipway", Tail: "up",
		}},
		"kill -9": {idle, func(t *testing.T, container string) {
			c, err := w.client.ContainerInspect(t.Context(), container, client.ContainerInspectOptions{})
			if err != nil || c.Container.State.Pid <= 1 {
				t.Fatal(c.Container.State, err)
			}
			if err := syscall.Kill(c.Container.State.Pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}, spawner.Observation{Existence: spawner.Exited, ExitCode: 137, Reason: "its container was killed from outside (signal 9)", Tail: "up"}},
		"docker rm": {idle, func(t *testing.T, container string) {
			if _, err := w.client.ContainerRemove(t.Context(), container, client.ContainerRemoveOptions{Force: true}); err != nil {
				t.Fatal(err)
			}
		}, spawner.Observation{Existence: spawner.Absent}},
		"crash":           {"#!/bin/sh\nexit 139\n", nil, spawner.Observation{Existence: spawner.Exited, ExitCode: 139, Reason: "its first process was ended by signal 11"}},
		"foreign program": {"\x7fELF of another machine", nil, spawner.Observation{Existence: spawner.Exited, ExitCode: 1, Reason: "the engine cannot run Slipway's agent", Tail: "exec /run/slipway/bin/slipway: exec format error"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			l := w.script(t, test.agent)
			w.up(t, l)
			if test.act != nil {
				until(t, "its agent is up", func() bool { return w.log(t, l.ID) == "up" })
				test.act(t, nameOf(l.ID))
			}
			o := w.ended(t, l.ID)
			if o.Existence != test.want.Existence || o.ExitCode != test.want.ExitCode || o.Tail != test.want.Tail {
				t.Errorf("Observe = %+v, want %+v", o, test.want)
			}
			if !strings.HasPrefix(o.Reason, test.want.Reason) || (o.Reason == "") != (test.want.Reason == "") || (o.Reason == "") != (o.Remedy == "") {
				t.Errorf("the reason is %q (%q), want %q and a remedy with it", o.Reason, o.Remedy, test.want.Reason)
			}
		})
	}
}

func numbered(from, to int) string {
	var lines []string
	for i := from; i <= to; i++ {
		lines = append(lines, "line "+strconv.Itoa(i))
	}
	return strings.Join(lines, "\n")
}

// log is what a workload's agent has printed so far.
func (w world) log(t *testing.T, id spawner.ID) string {
	t.Helper()
	c, found, err := w.find(t.Context(), id)
	if err != nil || !found {
		t.Fatalf("find(%s) = %v, %v", id, found, err)
	}
	return w.tail(t.Context(), c)
}

// TestTailIsOfTheLastRun: what an earlier run printed is not the reason of this one's end.
func TestTailIsOfTheLastRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.script(t, "#!/bin/sh\nif [ -e /var/tmp/ran ]; then echo second; else echo first; fi; touch /var/tmp/ran; exit 1\n")
	for _, want := range []string{"first", "second"} {
		w.up(t, l)
		if o := w.ended(t, l.ID); o.Tail != want {
			t.Errorf("Tail = %q, want %q", o.Tail, want)
		}
		ended := time.Now()
		until(t, "the runs lie apart", func() bool { return time.Since(ended) > headstart })
	}
}

// TestRestartedOutside: the same container runs, and who watches is told to look.
func TestRestartedOutside(t *testing.T) {
	w := newWorld(t)
	l := w.launch(t, "")
	w.up(t, l)
	w.await(t, l.ID, spawnertest.RunsFile)
	if _, err := w.client.ContainerRestart(t.Context(), nameOf(l.ID), client.ContainerRestartOptions{}); err != nil {
		t.Fatal(err)
	}
	w.sees(t, l.ID, spawner.Up)
	until(t, "the agent was started again", func() bool { return strings.Count(w.text(t, l.ID, spawnertest.RunsFile), "\n") == 2 })
}

// TestListSaysWhatIsSeen: one question tells of all, whatever their state.
func TestListSaysWhatIsSeen(t *testing.T) {
	w := newWorld(t)
	made, up, paused, exited := w.launch(t, ""), w.launch(t, ""), w.launch(t, ""), w.launch(t, spawnertest.ExitWith+"3")
	if _, err := w.create(t.Context(), plan{Launch: made}); err != nil {
		t.Fatal(err)
	}
	for _, l := range []spawner.Launch{up, paused, exited} {
		w.up(t, l)
	}
	if _, err := w.client.ContainerPause(t.Context(), nameOf(paused.ID), client.ContainerPauseOptions{}); err != nil {
		t.Fatal(err)
	}
	w.ended(t, exited.ID)
	got, err := w.List(t.Context())
	want := map[spawner.ID]spawner.Existence{made.ID: spawner.Created, up.ID: spawner.Up, paused.ID: spawner.Up, exited.ID: spawner.Exited}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("List = %v: %s", err, diff)
	}
}

// TestPausedOutside: it is up, and says why nothing goes on.
func TestPausedOutside(t *testing.T) {
	w := newWorld(t)
	l := w.launch(t, "")
	w.up(t, l)
	if _, err := w.client.ContainerPause(t.Context(), nameOf(l.ID), client.ContainerPauseOptions{}); err != nil {
		t.Fatal(err)
	}
	if o := w.sees(t, l.ID, spawner.Up); !strings.Contains(o.Reason, "paused") || !strings.Contains(o.Remedy, "docker unpause "+nameOf(l.ID)) {
		t.Errorf("Observe = %+v", o)
	}
}

// TestStartsThatFail: each says in plain words what is wrong, what to do, and leaves nothing that runs.
func TestStartsThatFail(t *testing.T) {
	w := newWorld(t)
	elsewhere := world{Backend: w.again(t, Config{Instance: w.cfg.Instance, Network: "slipway-test-no-such-network"}), image: w.image, agent: w.agent}
	tests := map[string]struct {
		backend world
		change  func(*spawner.Launch)
		kind    errs.Kind
		plain   string
	}{
		"no network":     {elsewhere, func(*spawner.Launch) {}, errs.Missing, "the engine's network for sessions is gone"},
		"no agent":       {w, func(l *spawner.Launch) { l.AgentDir = t.TempDir() }, errs.Missing, "the engine cannot run Slipway's agent in it"},
		"not executable": {w, func(l *spawner.Launch) { l.AgentDir = unrunnable(t) }, errs.Missing, "the engine cannot run Slipway's agent in it"},
		"no home":        {w, func(l *spawner.Launch) { l.Account.HomeDir = filepath.Join(t.TempDir(), "gone") }, errs.Missing, "cannot be mounted"},
		"too many CPUs":  {w, func(l *spawner.Launch) { l.Spec.Resources.CPUs = 9999 }, errs.Invalid, "more processors than this machine has"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			l := test.backend.launch(t, "")
			test.change(&l)
			err := test.backend.Start(t.Context(), l)
			e, ok := err.(*errs.Error)
			if !ok || e.Kind != test.kind || e.Remedy == "" || !strings.Contains(err.Error(), test.plain) {
				t.Errorf("Start = %v, want %q with a remedy", err, test.plain)
			}
			if o, err := test.backend.Observe(t.Context(), l.ID); err != nil || o.Existence == spawner.Up {
				t.Errorf("after it Observe = %+v, %v", o, err)
			}
			if err := test.backend.Remove(t.Context(), l.ID); err != nil {
				t.Error(err)
			}
		})
	}
}

// unrunnable is a directory whose agent may not be executed.
func unrunnable(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "slipway"), []byte("#!/bin/sh\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}
