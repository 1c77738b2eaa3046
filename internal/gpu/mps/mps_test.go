package mps

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/errs"
	"slipway/internal/gpu"
	"slipway/internal/testenv"
)

func TestEqualShares(t *testing.T) {
	t.Parallel()
	r := newRig(t, manner{Multi: true, Floor: true})
	a, err := r.d.Probe(t.Context())
	if err != nil || !a.MultiUser || a.V3 || a.Clients != 60 {
		t.Fatalf("probed %+v, %v", a, err)
	}
	got := r.share(gpuA, "s-1", 1001, 25, 1536<<20)
	g, _ := r.d.at(gpuA)
	want := Share{
		PipeDir: g.pipe(), Env: map[string]string{"CUDA_MPS_PIPE_DIRECTORY": g.pipe()},
		Mounts: []gpu.Mount{{Source: g.pipe(), Target: g.pipe()}, {Source: g.shm, Target: "/dev/shm", Write: true}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	pid := r.control(gpuA)
	r.share(gpuA, "s-2", 1002, 25, 1536<<20) // another user, the same part
	r.share(gpuA, "s-1", 1001, 25, 1536<<20) // once more
	for name, try := range map[string]part{"percent": {UID: 1003, Percent: 50, Memory: 1536 << 20}, "memory": {UID: 1003, Percent: 25, Memory: gib}} {
		_, err := r.d.Share(t.Context(), gpuA, "s-3", try.UID, try.Percent, try.Memory)
		if !errs.Is(err, errs.Conflict) || !strings.Contains(err.Error(), "mps:25%/1536M") {
			t.Errorf("another %s beside others: %v", name, err)
		}
	}
	if r.control(gpuA) != pid || !r.exclusive[gpuA] {
		t.Error("the daemon was changed, or the GPU is not exclusive")
	}
	r.release(gpuA, "s-1")
	if r.control(gpuA) != pid {
		t.Error("the daemon has ended before its last holder left")
	}
	if err := r.d.Quit(t.Context(), gpuA); !errs.Is(err, errs.Conflict) || !strings.Contains(err.Error(), "s-2") {
		t.Errorf("quit with a holder: %v", err)
	}
	r.release(gpuA, "s-2")
	r.release(gpuA, "s-2")
	r.nothing(gpuA)
	r.share(gpuA, "s-3", 1003, 50, gib) // the GPU is free for other parts
	if !strings.Contains(r.tell(gpuA, "fake_seen"), "set_default_device_pinned_mem_limit 0 1024M") {
		t.Error("the limit was not set")
	}
}

func (r *rig) release(uuid, holder string) {
	r.t.Helper()
	if err := r.d.Release(r.t.Context(), uuid, holder); err != nil {
		r.t.Error(err)
	}
}

func TestUnequalShares(t *testing.T) {
	t.Parallel()
	r := newRig(t, manner{V3: true})
	a, err := r.d.Probe(t.Context())
	if err != nil || !a.MultiUser || !a.V3 {
		t.Fatalf("probed %+v, %v", a, err)
	}
	one, two := r.share(gpuA, "s-1", -1, 25, 20*gib), r.share(gpuA, "s-2", -1, 60, 512<<20)
	if one.PipeDir == two.PipeDir || !strings.HasPrefix(one.PipeDir, r.pipe(gpuA)+"/slipway/w") || len(one.Mounts) != 1 || one.Mounts[0].Source != one.PipeDir {
		t.Errorf("shares are %+v and %+v", one, two)
	}
	r.share(gpuA, "s-1", -1, 25, 20*gib)
	if n := strings.Count(r.tell(gpuA, "fake_seen"), "namespace create"); n != 2 {
		t.Errorf("%d namespaces were made", n)
	}
	r.tell(gpuA, "fake_client", "51", spaceName("s-1"))
	r.tell(gpuA, "fake_client", "52", spaceName("s-2"))
	r.tell(gpuA, "fake_client", "53", spaceName("s-1"))
	for range 2 {
		if err := r.d.End(t.Context(), gpuA, "s-1", []int{51, 99}); err != nil {
			t.Fatal(err)
		}
	}
	s, err := r.d.Health(t.Context(), gpuA)
	if err != nil || s.Condition != Working || !slices.Equal(s.Clients, []int{52}) {
		t.Errorf("then %+v, %v", s, err)
	}
	r.release(gpuA, "s-1")
	if _, err := os.Stat(one.PipeDir); err == nil {
		t.Error("the namespace of who left is still there")
	}
	if _, err := os.Stat(two.PipeDir); err != nil {
		t.Error("the namespace of who stays is gone")
	}
	r.release(gpuA, "s-2")
	r.nothing(gpuA)
}

func TestOneUserAtATime(t *testing.T) {
	t.Parallel()
	testenv.Need(t, testenv.Root)
	r := newRig(t, manner{})
	r.share(gpuA, "s-1", 1001, 25, gib)
	r.share(gpuA, "s-2", 1001, 25, gib)
	_, err := r.d.Share(t.Context(), gpuA, "s-3", 1002, 25, gib)
	if !errs.Is(err, errs.Conflict) || !strings.Contains(err.Error(), "one user at a time") || !strings.Contains(err.Error(), "multiuser-server") {
		t.Errorf("a second user: %v", err)
	}
	if _, err := r.d.Share(t.Context(), gpuB, "s-3", -1, 25, gib); !errs.Is(err, errs.Conflict) {
		t.Errorf("a user that is not known: %v", err)
	}
	r.share(gpuB, "s-3", 1002, 25, gib) // another GPU has its own daemon
	info, err := os.Stat(r.pipe(gpuB))
	if err != nil || info.Sys().(*syscall.Stat_t).Uid != 1002 {
		t.Error("the server of the user cannot make its pipes")
	}
	r.d.uid = 1001
	if _, err := r.d.Share(t.Context(), gpuB, "s-4", 1002, 25, gib); !errs.Is(err, errs.Missing) {
		t.Errorf("a service that is not root: %v", err)
	}
}

func TestRefusals(t *testing.T) {
	r := newRig(t, manner{Multi: true})
	for name, c := range map[string]struct {
		uuid    string
		percent int
		memory  int64
	}{"gpu": {"../x", 25, gib}, "percent": {gpuA, 0, gib}, "above 100": {gpuA, 101, gib}, "memory": {gpuA, 25, 1000}} {
		if _, err := r.d.Share(t.Context(), c.uuid, "s-1", 1, c.percent, c.memory); !errs.Is(err, errs.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r.cfg.Dir = filepath.Join(r.dir, strings.Repeat("long", 20))
	r.restart()
	if _, err := r.d.Share(t.Context(), gpuA, "s-1", 1, 25, gib); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "the directory of MPS") {
		t.Errorf("sockets with too long a path: %v", err)
	}
	r.cfg.Control = filepath.Join(r.dir, "not-there")
	r.restart()
	_, err := r.d.Probe(t.Context())
	if !errs.Is(err, errs.Missing) || !strings.Contains(err.Error(), "install") {
		t.Errorf("no program: %v", err)
	}
	if entries, _ := os.ReadDir(filepath.Join(r.dir, "mps")); len(entries) > 0 {
		t.Errorf("something is left of refusals: %v", entries)
	}
}

func TestMostClients(t *testing.T) {
	d := New(Config{Dir: "/run/x"})
	r := record{Multi: true, Holders: map[string]part{}}
	for i := range 48 {
		r.Holders[string(rune('A'+i))] = part{Percent: 2, Memory: gib}
	}
	g, _ := d.at(gpuA)
	if err := d.admit(g, r, Ability{Clients: 48}, "new", part{Percent: 2, Memory: gib}); !errs.Is(err, errs.NoCapacity) {
		t.Errorf("the 49th of 48: %v", err)
	}
	if err := d.admit(g, r, Ability{Clients: 48}, "A", part{Percent: 2, Memory: gib}); err != nil {
		t.Errorf("one of 48 again: %v", err)
	}
}

// TestBadDaemons: what goes wrong at the daemon is said, is the place's fault, and leaves nothing when nobody else is
// on it.
func TestBadDaemons(t *testing.T) {
	t.Parallel()
	const starts = 5 * time.Second // in which a daemon comes up and is told its limits
	for name, c := range map[string]struct {
		manner   manner
		says     string
		deadline time.Duration // where what goes wrong is that nothing comes
	}{
		"does not start":         {manner{Multi: true, NoStart: true}, "no CUDA-capable device", testenv.Hang},
		"dies at once":           {manner{Multi: true, DiesAtOnce: true}, "start its MPS daemon", starts},
		"answers nonsense":       {manner{Multi: true, NoAnswer: true}, "start its MPS daemon", starts},
		"refuses":                {manner{Multi: true, Refuse: true}, "start its MPS daemon", starts},
		"has other limits":       {manner{Multi: true, Wrong: true}, "want 1024M, found 1M", testenv.Hang},
		"has other limits (v3)":  {manner{V3: true, Wrong: true}, "want 1024M and 25%", testenv.Hang},
		"server dies (v3)":       {manner{V3: true, ServerDies: true}, "start the server", starts},
		"does not start (v3)":    {manner{V3: true, NoStart: true}, "no CUDA-capable device", testenv.Hang},
		"ends by force only":     {manner{Multi: true, Wrong: true, Stubborn: true}, "found 1M", starts},
		"ends by force only, v3": {manner{V3: true, Wrong: true, Stubborn: true}, "1024M", starts},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, c.manner)
			r.cfg.Deadline = c.deadline
			r.restart()
			_, err := r.d.Share(t.Context(), gpuA, "s-1", 1001, 25, gib)
			if !errors.Is(err, gpu.ErrBadPlace) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the error is %v", err)
			}
			r.nothing(gpuA)
		})
	}
}

func TestMute(t *testing.T) {
	t.Parallel()
	r := newRig(t, manner{Multi: true})
	r.share(gpuA, "s-1", 1001, 25, gib)
	pid := r.control(gpuA)
	if _, err := r.d.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.d.cfg.Deadline = 300 * time.Millisecond
	r.behave(manner{Multi: true, Mute: true})
	if s, err := r.d.Health(t.Context(), gpuA); err != nil || s.Condition != Mute || !strings.Contains(s.Why, "does not answer") {
		t.Errorf("it is %+v, %v", s, err)
	}
	if err := r.d.End(t.Context(), gpuA, "s-1", []int{7}); !errs.Is(err, errs.Unavailable) {
		t.Errorf("ended without an answer: %v", err)
	}
	if _, err := r.d.Share(t.Context(), gpuA, "s-2", 1001, 25, gib); !errors.Is(err, gpu.ErrBadPlace) {
		t.Errorf("shared without an answer: %v", err)
	}
	if r.control(gpuA) != pid {
		t.Error("a daemon that somebody holds was ended")
	}
	r.d.cfg.Deadline = 5 * time.Second
	r.release(gpuA, "s-1") // nobody is on it any more: it ends by force
	r.nothing(gpuA)
}

func TestStalePipe(t *testing.T) {
	t.Parallel()
	for _, m := range []manner{{Multi: true}, {V3: true}} {
		r := newRig(t, m)
		r.share(gpuA, "s-1", 1001, 25, gib)
		pid := r.control(gpuA)
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		r.d.until(t.Context(), func() bool { return r.control(gpuA) == 0 })
		s, err := r.d.Health(t.Context(), gpuA)
		if err != nil || s.Condition != Absent || !strings.Contains(s.Why, "ended by itself") {
			t.Errorf("it is %+v, %v", s, err)
		}
		if err := r.d.End(t.Context(), gpuA, "s-1", []int{7}); err != nil {
			t.Errorf("nobody can be on a dead daemon: %v", err)
		}
		r.share(gpuA, "s-1", 1001, 25, gib)
		if now := r.control(gpuA); now == 0 || now == pid || r.condition(gpuA) != Working {
			t.Error("it was not started anew")
		}
	}
}

func TestFault(t *testing.T) {
	t.Parallel()
	for _, m := range []manner{{Multi: true}, {V3: true}} {
		r := newRig(t, m)
		r.share(gpuA, "s-1", 1001, 25, gib)
		r.tell(gpuA, "fake_client", "77", spaceName("s-1"))
		r.tell(gpuA, "fake_fault")
		s, err := r.d.Health(t.Context(), gpuA)
		if err != nil || s.Condition != Faulty || !strings.Contains(s.Why, "ended the programs of all") || !slices.Equal(s.Holders, []string{"s-1"}) {
			t.Errorf("it is %+v, %v", s, err)
		}
		if _, err := r.d.Share(t.Context(), gpuA, "s-2", 1001, 25, gib); !errors.Is(err, gpu.ErrBadPlace) {
			t.Errorf("shared after a fault: %v", err)
		}
		pid := r.control(gpuA)
		r.share(gpuA, "s-1", 1001, 25, gib) // nobody else is on it: it is made anew
		if r.control(gpuA) == pid || r.condition(gpuA) != Working {
			t.Error("the fault stays")
		}
	}
}

func TestAltered(t *testing.T) {
	t.Parallel()
	r := newRig(t, manner{Multi: true})
	r.share(gpuA, "s-1", 1001, 25, gib)
	r.tell(gpuA, "fake_alter")
	if c := r.condition(gpuA); c != Altered {
		t.Errorf("it is %s", c)
	}
	r.share(gpuA, "s-2", 1001, 25, gib) // sets the limits again
	if c := r.condition(gpuA); c != Working {
		t.Errorf("then %s", c)
	}
}

// TestRunningServer: a server that runs already is told the limits too, for it does not ask for new ones.
func TestRunningServer(t *testing.T) {
	t.Parallel()
	r := newRig(t, manner{Multi: true})
	r.share(gpuA, "s-1", 1001, 25, gib)
	r.tell(gpuA, "fake_client", "77")
	r.share(gpuA, "s-2", 1001, 25, gib)
	g, _ := r.d.at(gpuA)
	_, servers := r.d.processes(g)
	if len(servers) != 1 || !strings.Contains(r.tell(gpuA, "fake_seen"), "set_device_pinned_mem_limit "+number(servers[0])+" 0 1024M") {
		t.Errorf("servers %v saw\n%s", servers, r.tell(gpuA, "fake_seen"))
	}
	for range 2 {
		if err := r.d.End(t.Context(), gpuA, "s-1", []int{77, 78}); err != nil {
			t.Fatal(err)
		}
	}
	if seen := r.tell(gpuA, "fake_seen"); strings.Count(seen, "terminate_client") != 1 {
		t.Errorf("it saw\n%s", seen)
	}
}

// TestRestarts: the daemon outlives the service, which finds it again.
func TestRestarts(t *testing.T) {
	t.Parallel()
	for _, m := range []manner{{Multi: true}, {V3: true}} {
		r := newRig(t, m)
		before := r.share(gpuA, "s-1", 1001, 25, gib)
		r.share(gpuB, "s-2", 1001, 25, gib)
		pid := r.control(gpuA)
		r.restart()
		if err := r.d.Keep(t.Context(), map[string][]string{gpuA: {"s-1"}}); err != nil {
			t.Fatal(err)
		}
		r.nothing(gpuB)
		if diff := cmp.Diff(before, r.share(gpuA, "s-1", 1001, 25, gib)); diff != "" || r.control(gpuA) != pid {
			t.Errorf("after a restart: daemon %d, then %d; %s", pid, r.control(gpuA), diff)
		}
	}
}

// crash is the end of the service.
type crash struct{ at string }

// crashAt does something with a service that ends at a step. It says whether the step came.
func (r *rig) crashAt(step string, n int, do func(d *Daemons)) (came bool) {
	r.restart()
	r.d.step = func(name string) {
		if name == step {
			if n--; n == 0 {
				panic(crash{name})
			}
		}
	}
	defer r.restart()
	defer func() {
		switch c := recover().(type) {
		case nil:
		case crash:
			came = true
		default:
			panic(c)
		}
	}()
	do(r.d)
	return false
}

// TestCrashes ends the service at each step of giving and taking back a share. Then either the share is given again, or
// there is nothing of it.
func TestCrashes(t *testing.T) {
	t.Parallel()
	giving := []string{"saved", "exclusive", "launched", "started", "server", "space", "limited"}
	taking := []string{"dropped", "left", "stopped", "opened"}
	for proto, m := range map[string]manner{"v2": {Multi: true}, "v3": {V3: true}} {
		for _, step := range giving {
			t.Run(proto+" "+step, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, m)
				give := func(d *Daemons) { _, _ = d.Share(context.Background(), gpuA, "s-1", 1001, 25, gib) }
				if came := r.crashAt(step, 1, give); came != (m.V3 || step != "server" && step != "space") {
					t.Fatalf("the step came: %v", came)
				}
				r.share(gpuA, "s-1", 1001, 25, gib)
				if r.condition(gpuA) != Working || !r.exclusive[gpuA] {
					t.Error("a share that is given again is not whole")
				}
				r.release(gpuA, "s-1")
				r.nothing(gpuA)
				r.crashAt(step, 1, give)
				if err := r.d.Keep(t.Context(), nil); err != nil {
					t.Error(err)
				}
				r.nothing(gpuA)
			})
		}
		for _, step := range taking {
			t.Run(proto+" "+step, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, m)
				r.share(gpuA, "s-1", 1001, 25, gib)
				r.share(gpuA, "s-2", 1001, 25, gib)
				r.crashAt(step, 1, func(d *Daemons) {
					_ = d.Release(context.Background(), gpuA, "s-1")
					_ = d.Release(context.Background(), gpuA, "s-2")
				})
				r.release(gpuA, "s-1")
				if err := r.d.Keep(t.Context(), nil); err != nil {
					t.Error(err)
				}
				r.nothing(gpuA)
			})
		}
	}
}

func TestExclusiveFails(t *testing.T) {
	r := newRig(t, manner{Multi: true})
	r.d.cfg.Exclusive = func(_ context.Context, _ string, on bool) error {
		if on {
			return gpu.ErrDenied
		}
		return nil
	}
	if _, err := r.d.Share(t.Context(), gpuA, "s-1", 1001, 25, gib); !errors.Is(err, gpu.ErrDenied) {
		t.Errorf("the error is %v", err)
	}
	r.nothing(gpuA)
}

func TestTurnsAreGivenUp(t *testing.T) {
	r := newRig(t, manner{Multi: true})
	_, done, err := r.d.take(t.Context(), gpuA)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.d.Health(ctx, gpuA); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting for a turn: %v", err)
	}
}

func TestLogsStayShort(t *testing.T) {
	r := newRig(t, manner{Multi: true})
	r.cfg.LogLimit = 8192
	r.restart()
	r.share(gpuA, "s-1", 1001, 25, gib)
	g, _ := r.d.at(gpuA)
	outside := filepath.Join(r.dir, "precious")
	if err := os.WriteFile(outside, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(g.log(), "server.log.old")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"server.log", "control.log"} {
		if err := os.WriteFile(filepath.Join(g.log(), name), []byte(strings.Repeat("line\n", 10_000)+"the end\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.condition(gpuA)
	if info, err := os.Stat(filepath.Join(g.log(), "control.log")); err != nil || info.Size() != 0 {
		t.Errorf("the log is %v, %v", info, err)
	}
	if text, err := os.ReadFile(filepath.Join(g.log(), "control.log.old")); err != nil || len(text) != 2048 || !strings.HasSuffix(string(text), "the end\n") {
		t.Errorf("%d bytes of it are kept, %v", len(text), err)
	}
	if text, _ := os.ReadFile(outside); string(text) != "precious" {
		t.Error("a link led outside")
	}
}

// TestEnclosed: the daemon's /dev/shm is a directory of its own.
func TestEnclosed(t *testing.T) {
	testenv.Need(t, testenv.Root)
	r := newRig(t, manner{Multi: true})
	r.cfg.Enclose = []string{filepath.Join(r.dir, "enclose")}
	r.restart()
	s := r.share(enclosedGPU, "s-1", 1001, 25, gib)
	if _, err := os.Stat(filepath.Join(s.Mounts[1].Source, "cuda.shm.fake")); err != nil {
		t.Errorf("what the daemon shares is not where its clients have it: %v", err)
	}
	if _, err := os.Stat("/dev/shm/cuda.shm.fake"); err == nil {
		t.Error("the daemon uses the host's /dev/shm")
	}
	r.release(enclosedGPU, "s-1")
	r.nothing(enclosedGPU)
	if err := Enclose([]string{"x"}); err == nil || !strings.Contains(err.Error(), "words") {
		t.Errorf("enclose without a program: %v", err)
	}
}
