package local_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/internal/testenv"
	"slipway/internal/tunnel"
	"slipway/spawner"
)

// payload is a job under its real agent, and the service's end of the link to it.
type payload struct {
	job
	control.Client
}

// realAgent puts the program that sites start for each job in the agent's place.
func (w *world) realAgent(t *testing.T) {
	t.Helper()
	program := filepath.Join(shared(), "slipway-job")
	if _, err := os.Stat(program); err != nil {
		must(t, os.MkdirAll(shared(), 0o755))
		cmd := exec.Command("go", "build", "-trimpath", "-o", program, "slipway/internal/runner")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("build the agent: %v\n%s", err, out)
		}
	}
	name := filepath.Join(w.agentDir, "slipway")
	must(t, os.Remove(name))
	must(t, os.Link(program, name))
}

// pay starts a job and has its agent run a line of shell. Of the image's programs those that have no name there are
// asked of $b.
func pay(t *testing.T, w *world, change func(*spawner.Launch), line string) payload {
	t.Helper()
	w.realAgent(t)
	l := w.launch(t)
	if change != nil {
		change(&l)
	}
	links := tunnel.New(tunnel.Config{Logger: slog.New(slog.DiscardHandler)})
	must(t, links.Open(string(l.ID), filepath.Join(l.Dir, "link", filepath.Base(control.LinkSocket)), l.Account.UID))
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { _ = links.Run(ctx) })
	t.Cleanup(func() { cancel(); done.Wait() })
	p := payload{start(t, w, l), control.Client{Dial: func(ctx context.Context) (net.Conn, error) {
		return links.Dial(ctx, string(l.ID), tunnel.DoorControl)
	}}}
	up, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	if err := links.Wait(up, string(l.ID)); err != nil {
		t.Fatalf("the agent does not come up: %v\n%s", err, p.output())
	}
	must(t, p.Client.Launch(t.Context(), control.App{
		Launch: "one", Argv: []string{"/bin/sh", "-c", line}, Env: control.Env{"b": "/bin/busybox"}, Grace: 300 * time.Millisecond,
	}))
	return p
}

// over waits until the payload has ended.
func (p payload) over(t *testing.T) control.Status {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	var last control.Status
	_ = p.Watch(ctx, func(st control.Status) error {
		if last = st; st.State == control.Exited {
			return io.EOF
		}
		return nil
	})
	if last.State != control.Exited {
		t.Fatalf("the payload does not end: %+v\n%s", last, p.output())
	}
	return last
}

func (p payload) printed(t *testing.T, from int64) string {
	t.Helper()
	r, err := p.Log(t.Context(), from, false)
	must(t, err)
	defer r.Close()
	b, err := io.ReadAll(r)
	must(t, err)
	return string(b)
}

// TestPayloads runs such as do what one does not expect. Each ends as it should, and nothing of it is left.
func TestPayloads(t *testing.T) {
	for name, tc := range map[string]struct {
		line  string
		code  int
		says  string // all that it prints
		check func(*testing.T, payload, control.Status)
	}{
		"prints bytes of every kind": {line: `printf '\000\001\377\033[2J\n'; printf err >&2`, says: "\x00\x01\xff\x1b[2J\nerr"},
		"reads its input":            {line: `$b wc -c`, says: "0\n"},
		"closes its output":          {line: `exec >&- 2>&-; echo x; exit 4`, code: 4},
		"leaves children":            {line: `$b setsid $b sleep 1000 & ($b sleep 1000 &); echo gone`, says: "gone\n"},
		"is deaf": {
			line: `trap '' TERM; echo deaf; while :; do $b sleep 1; done`, code: 137, says: "deaf\n",
		},
		"leaves a file of 5 GiB": {
			line: `$b truncate -s 5G large; echo 42 > small`,
			check: func(t *testing.T, p payload, _ control.Status) {
				_, _, err := p.File(t.Context(), "large")
				if !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "5368709120") || !strings.Contains(fmt.Sprint(err, err.(*errs.Error).Remedy), "1073741824") {
					t.Errorf("the large file: %v", err)
				}
				r, size, err := p.File(t.Context(), "small")
				must(t, err)
				defer r.Close()
				if b, err := io.ReadAll(r); string(b) != "42\n" || size != 3 || err != nil {
					t.Errorf("the small file: %q, %v", b, err)
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := pay(t, newWorld(t), nil, tc.line)
			if name == "is deaf" {
				p.await(t, func(spawner.Observation) bool { return p.printed(t, 0) == tc.says })
				must(t, p.End(t.Context()))
				if o := p.exited(t); o.ExitCode != tc.code {
					t.Errorf("Observe = %+v", o)
				}
				return
			}
			st := p.over(t)
			if got := p.printed(t, 0); st.ExitCode != tc.code || got != tc.says {
				t.Errorf("code %d, printed %q; want %d, %q", st.ExitCode, got, tc.code, tc.says)
			}
			if tc.check != nil {
				tc.check(t, p, st)
			}
			must(t, p.Stop(t.Context(), p.ID, 0))
			if n := alive(t); n > 0 {
				t.Errorf("%d processes are left", n)
			}
		})
	}
}

// TestFloodOfOutput prints 1 GB: the beginning is kept, and how much is not is said.
func TestFloodOfOutput(t *testing.T) {
	p := pay(t, newWorld(t), func(l *spawner.Launch) { l.Spec.Resources.Memory = 1 << 30 }, `$b head -c 1000000000 /dev/zero; exit 5`)
	st := p.over(t)
	if st.ExitCode != 5 || st.LogSize < 256<<20 || st.LogSize > control.LogLimit {
		t.Fatalf("%+v", st)
	}
	if end, want := p.printed(t, st.LogSize-60), fmt.Sprintf("slipway: %d bytes were printed after that\n", 1000000000-256<<20); !strings.HasSuffix(end, want) {
		t.Errorf("the log ends with %q", end)
	}
	if o, err := p.Observe(t.Context(), p.ID); err != nil || o.CPU <= 0 || o.Memory <= 0 {
		t.Errorf("Observe = %+v, %v", o, err)
	}
}

// TestMemoryOfAllProcesses is of two processes that together have more than either, and then of one that has too much.
func TestMemoryOfAllProcesses(t *testing.T) {
	hold := `hold() { x=$($b head -c 40000000 /dev/zero | $b tr '\0' x); $b touch $1; while [ ! -e a ] || [ ! -e b ]; do $b usleep 10000; done; }; hold a & hold b; wait; echo both`
	p := pay(t, newWorld(t), func(l *spawner.Launch) { l.Spec.Resources.Memory = 1 << 30 }, hold)
	st := p.over(t)
	o, err := p.Observe(t.Context(), p.ID)
	must(t, err)
	if st.ExitCode != 0 || o.Memory < 80_000_000 || o.Memory < st.MaxRSS || o.CPU <= 0 {
		t.Errorf("code %d, largest process %d; Observe = %+v; %s", st.ExitCode, st.MaxRSS, o, p.printed(t, 0))
	}
	p = pay(t, newWorld(t), func(l *spawner.Launch) { l.Spec.Resources.Memory = 64 << 20 }, `$b tail /dev/zero; exit $?`)
	if st = p.over(t); st.ExitCode != 137 {
		t.Errorf("without memory: %+v", st)
	}
	if o, err = p.Observe(t.Context(), p.ID); err != nil || !strings.Contains(o.Reason, "out of memory (limit 64 MiB, peak 64 MiB)") || o.Memory < 60<<20 {
		t.Errorf("without memory: Observe = %+v, %v", o, err)
	}
}

// TestFullDiskOfAJob fills the disk that a job's directories lie on, which is the control directory's too: how it ended
// is known all the same.
func TestFullDiskOfAJob(t *testing.T) {
	testenv.Need(t, testenv.Root)
	for _, where := range []string{"/tmp/x", "x"} {
		w := newWorld(t)
		disk := filepath.Join(w.root, "work")
		must(t, os.Mkdir(disk, 0o711))
		must(t, syscall.Mount("slipway-test", disk, "tmpfs", 0, "size=32m,mode=711"))
		t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
		w.cfg.Dir = filepath.Join(disk, "jobs")
		p := pay(t, w, nil, `$b dd if=/dev/zero of=`+where+` bs=1M; exit 7`)
		st := p.over(t)
		if st.ExitCode != 7 {
			t.Errorf("%s: %+v", where, st)
		}
		must(t, p.End(t.Context()))
		if o := p.exited(t); o.ExitCode != 7 || o.Reason != "" {
			t.Errorf("%s: Observe = %+v", where, o)
		}
	}
}
