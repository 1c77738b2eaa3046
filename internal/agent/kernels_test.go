package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/internal/testenv"
	"slipway/internal/tunnel"
	"slipway/kernels/wire"
)

func ipykernel(home string) control.App {
	python := filepath.Join(testenv.Cache(), "dev", "bin", "python")
	return control.App{
		Argv: []string{python, "-m", "ipykernel_launcher", "-f", control.ConnectionFile}, Kernel: &control.KernelApp{},
		Env: control.Env{"HOME": home, "IPYTHONDIR": home, "JUPYTER_CONFIG_DIR": home, "JPY_PARENT_PID": "1", "A": "b"},
	}
}

// talk opens a stream to the kernel through the tunnel.
func (r *rig) talk(t *testing.T, client string) (net.Conn, *bufio.Reader, wire.Welcome) {
	t.Helper()
	c, err := r.links.Dial(t.Context(), workload, tunnel.DoorKernel)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(testenv.Hang))
	if err := wire.WriteHello(c, wire.Hello{Client: client}); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(c)
	w, err := wire.ReadWelcome(in)
	if err != nil {
		t.Fatal(err)
	}
	return c, in, w
}

// cellPrints runs a cell and gives what it prints first, and the number of the message.
func cellPrints(t *testing.T, c net.Conn, in *bufio.Reader, code string) (string, uint64) {
	t.Helper()
	m, err := wire.New(wire.Shell, "execute_request", nil, map[string]any{"code": code, "silent": false})
	if err != nil {
		t.Fatal(err)
	}
	m.Header = json.RawMessage(strings.Replace(string(m.Header), `"session":"slipway"`, `"session":"test"`, 1))
	if err := wire.WriteMessage(c, wire.EncodeV1(m)); err != nil {
		t.Fatal(err)
	}
	return nextPrint(t, in, m.ID())
}

// nextPrint returns what is printed next, of one request or of any.
func nextPrint(t *testing.T, in *bufio.Reader, id string) (string, uint64) {
	t.Helper()
	for {
		d, err := wire.ReadDown(in)
		if err != nil {
			t.Fatal(err)
		}
		m, err := wire.DecodeV1(d.Message)
		if err != nil {
			t.Fatal(err)
		}
		var said struct{ Text string }
		if m.Type() != "stream" || id != "" && m.ParentID() != id || json.Unmarshal(m.Content, &said) != nil {
			continue
		}
		if text := strings.TrimSpace(said.Text); text != "" { // the end of a line may come by itself
			return text, d.Seq
		}
	}
}

func TestKernelApp(t *testing.T) {
	testenv.Need(t, testenv.IPyKernel)
	r := newRig(t)
	if _, err := r.client.Kernel(t.Context()); !errs.Is(err, errs.NotFound) {
		t.Errorf("before there is one: %v", err)
	}
	if _, _, w := r.talk(t, "early"); w.Error == "" {
		t.Errorf("before there is one: %+v", w)
	}
	r.launch(t, ipykernel(r.dir), control.Ready)
	c, in, w := r.talk(t, "one")
	if w.State != "idle" || w.Error != "" {
		t.Errorf("%+v", w)
	}
	out, had := cellPrints(t, c, in, "import os; print(f\"{os.environ['A']} {'JPY_PARENT_PID' in os.environ} {os.getcwd()}\")")
	if out != "b False "+r.cfg.WorkDir {
		t.Errorf("%q", out)
	}
	if err := wire.WriteAck(c, had); err != nil {
		t.Fatal(err)
	}
	if a, err := r.client.Activity(t.Context()); err != nil || !a.Asked || a.Kernels != 1 || a.Quiet < 0 || a.Quiet > 60 {
		t.Errorf("%+v, %v", a, err)
	}
	interruptApp(t, r, c, in)
	restartService(t, r, c, in)
	restartApp(t, r)
	crashApp(t, r)
	if err := r.client.End(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func interruptApp(t *testing.T, r *rig, c net.Conn, in *bufio.Reader) {
	if out, _ := cellPrints(t, c, in, "print('computes', flush=True)\nwhile True: pass"); out != "computes" {
		t.Fatalf("%q", out)
	}
	if s, err := r.client.Kernel(t.Context()); err != nil || s.State != control.KernelBusy || s.Connections != 1 || s.Restarts != 0 {
		t.Errorf("%+v, %v", s, err)
	}
	if err := r.client.InterruptKernel(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the kernel is idle", func() bool { // until then a cell would be dropped for the error before it
		s, err := r.client.Kernel(t.Context())
		return err == nil && s.State == control.KernelIdle
	})
	if out, _ := cellPrints(t, c, in, "print('done')"); out != "done" {
		t.Errorf("%q", out)
	}
}

// What is printed while there is no service comes when there is one again.
func restartService(t *testing.T, r *rig, c net.Conn, in *bufio.Reader) {
	hold := filepath.Join(r.dir, "go-on")
	out, had := cellPrints(t, c, in, "import os, time\nprint('waits', flush=True)\nwhile not os.path.exists('"+hold+"'): time.sleep(0.05)\nprint('over', flush=True)")
	if out != "waits" {
		t.Fatalf("%q", out)
	}
	if err := wire.WriteAck(c, had); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the acknowledgement arrives", func() bool { return ackedOf(t, r) >= had })
	r.stop()
	if err := os.WriteFile(hold, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.serve(t)
	r.wait(t)
	_, again, w := r.talk(t, "one")
	if w.Acked != had {
		t.Errorf("it goes on behind %d, and %d was acknowledged", w.Acked, had)
	}
	if out, _ := nextPrint(t, again, ""); out != "over" {
		t.Errorf("%q", out)
	}
}

// ackedOf asks for what the client has, by taking its place.
func ackedOf(t *testing.T, r *rig) uint64 {
	_, _, w := r.talk(t, "one")
	return w.Acked
}

func restartApp(t *testing.T, r *rig) {
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Hang)
	defer cancel()
	if err := r.client.RestartKernel(ctx); err != nil {
		t.Fatal(err)
	}
	if s, err := r.client.Kernel(ctx); err != nil || s.Restarts != 1 || s.State != control.KernelIdle {
		t.Errorf("%+v, %v", s, err)
	}
	c, in, _ := r.talk(t, "two")
	if out, _ := cellPrints(t, c, in, "print('A' in globals())"); out != "False" {
		t.Errorf("%q", out)
	}
}

// What a process that dies has begun is ended with it: it would hold memory of the GPU that the next one is to have.
func crashApp(t *testing.T, r *rig) {
	c, in, _ := r.talk(t, "three")
	out, _ := cellPrints(t, c, in, "import os, subprocess; print(subprocess.Popen(['sleep', '1000']).pid)")
	var child int
	if err := json.Unmarshal([]byte(out), &child); err != nil {
		t.Fatal(err)
	}
	if out, _ := cellPrints(t, c, in, "os.kill(os.getpid(), 9)"); !strings.Contains(out, "begins anew") {
		t.Errorf("%q", out)
	}
	eventually(t, "the next process answers", func() bool {
		s, err := r.client.Kernel(t.Context())
		return err == nil && s.Restarts == 2 && s.State == control.KernelIdle
	})
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(child), "stat"))
	if err == nil && !strings.Contains(string(b), ") Z ") {
		t.Errorf("its child goes on: %s", b)
	}
}

func TestKernelThatCannotStart(t *testing.T) {
	for name, test := range map[string]struct {
		app  control.App
		want string
		code int
	}{
		"ends at once": {shell("echo no module named ipykernel >&2; exit 3"), "ended before it answered", 3},
		"no program":   {control.App{Argv: []string{"no-such-kernel"}}, "check its spelling", 127},
		"no format":    {control.App{Argv: []string{"/etc/hostname"}}, "cannot run", 126},
	} {
		r := newRig(t)
		test.app.Kernel = &control.KernelApp{}
		st := r.launch(t, test.app, control.Exited)
		if st.ExitCode != test.code || !strings.Contains(st.Reason, test.want) {
			t.Errorf("%s: %+v", name, st)
		}
		if log := r.log(t, 0, false); name == "ends at once" && !strings.Contains(log, "no module") {
			t.Errorf("%s: the log has %q", name, log)
		}
	}
}

func TestKernelEndsWithItsAgent(t *testing.T) {
	testenv.Need(t, testenv.IPyKernel)
	r := newRig(t)
	r.launch(t, ipykernel(r.dir), control.Ready)
	c, in, _ := r.talk(t, "one")
	out, _ := cellPrints(t, c, in, "import os; print(os.getpid())")
	var pid int
	if err := json.Unmarshal([]byte(out), &pid); err != nil {
		t.Fatal(err)
	}
	r.cancel()
	<-r.done
	r.done <- nil // for the end of the test
	if err := syscall.Kill(pid, 0); err == nil {
		t.Error("the kernel goes on")
	}
}
