package kernel

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/testenv"
	"slipway/kernels/wire"
)

// All that one ipykernel shows is in one test: each start takes a second or two.
func TestIPyKernel(t *testing.T) {
	r := newRig(t)
	c := r.join("one")
	if out, status := c.result(c.execute("print(6 * 7)")); out != "42\n" || status != "ok" {
		t.Fatalf("%q, %s", out, status)
	}
	for name, f := range map[string]func(*testing.T, *rig, *client){
		"small outputs": smallOutputs, "large output": largeOutput, "input": input, "comm": comm, "two clients": twoClients, "away": away,
		"connection file": connectionIsSecret,
	} {
		t.Run(name, func(t *testing.T) { c.t = t; f(t, r, c) })
	}
	c.t = t
	t.Run("debugger", func(t *testing.T) { c.t = t; debugger(t, r, c) })
	t.Run("subshells", func(t *testing.T) { c.t = t; subshells(t, r, c) })
	t.Run("interrupt", func(t *testing.T) { c.t = t; interrupt(t, r, c) })
	t.Run("restart", func(t *testing.T) { c.t = t; restart(t, r, c) })
	t.Run("killed", func(t *testing.T) { c.t = t; killed(t, r, c) })
	t.Run("message interrupts", func(t *testing.T) { c.t = t; r.cfg.Message = true; interrupt(t, r, c) })
}

func smallOutputs(t *testing.T, _ *rig, c *client) {
	id := c.execute("from IPython.display import display\nfor i in range(10000): display({'text/plain': str(i)}, raw=True)")
	n := 0
	for done := false; !done; {
		m := c.receive()
		if m.ParentID() != id {
			continue
		}
		switch said := content(m); {
		case m.Type() == "display_data":
			if said.Data["text/plain"] != fmt.Sprint(n) {
				t.Fatalf("output %d is %v", n, said.Data)
			}
			n++
		case said.State == "idle":
			done = true
		}
	}
	if n != 10000 {
		t.Errorf("%d outputs", n)
	}
}

func largeOutput(t *testing.T, _ *rig, c *client) {
	out, status := c.result(c.execute("print('x' * 50_000_000)"))
	if len(out) != 50_000_001 || strings.Trim(out, "x") != "\n" || status != "ok" {
		t.Errorf("%d bytes, %s", len(out), status)
	}
	c.ack()
}

func input(t *testing.T, _ *rig, c *client) {
	id := c.execute("print('hello ' + input('who? '))")
	ask := c.until(func(m wire.Message) bool { return m.Type() == "input_request" })
	if ask.Channel != wire.Stdin || content(ask).Prompt != "who? " || ask.ParentID() != id {
		t.Errorf("%+v", ask)
	}
	c.send(wire.Stdin, "input_reply", map[string]string{"value": "alice"})
	if out, status := c.result(id); out != "hello alice\n" || status != "ok" {
		t.Errorf("%q, %s", out, status)
	}
}

func comm(t *testing.T, _ *rig, c *client) {
	id := c.execute(`
from comm import get_comm_manager
def opened(comm, message):
    @comm.on_msg
    def _(m): comm.send({"sum": sum(sum(bytes(b)) for b in m["buffers"])}, buffers=[b"\x00\xff", bytes(m["buffers"][0])])
get_comm_manager().register_target("echo", opened)`)
	if _, status := c.result(id); status != "ok" {
		t.Fatal(status)
	}
	c.send(wire.Shell, "comm_open", map[string]any{"comm_id": "c1", "target_name": "echo", "data": map[string]any{}})
	c.send(wire.Shell, "comm_msg", map[string]any{"comm_id": "c1", "data": map[string]any{}}, []byte{1, 2, 0, 3}, nil)
	m := c.until(func(m wire.Message) bool { return m.Type() == "comm_msg" })
	if got := content(m).Data["sum"]; got != 6.0 || len(m.Buffers) != 2 || string(m.Buffers[0]) != "\x00\xff" || string(m.Buffers[1]) != "\x01\x02\x00\x03" {
		t.Errorf("%v, buffers %q", got, m.Buffers)
	}
}

// Both see what one does; the answers are its own.
func twoClients(t *testing.T, r *rig, c *client) {
	other := r.join("two")
	id := c.execute("print('for both')")
	if out, _ := c.result(id); out != "for both\n" {
		t.Errorf("%q", out)
	}
	var text string
	for idle := false; !idle; {
		m := other.receive()
		if m.Channel != wire.IOPub {
			t.Errorf("an answer to another: %s", m.Type())
		}
		text += content(m).Text
		idle = m.ParentID() == id && content(m).State == "idle"
	}
	if text != "for both\n" || r.Status().Connections != 2 {
		t.Errorf("%q, %+v", text, r.Status())
	}
	_ = other.conn.Close()
	testenv.Until(t, "the other leaves", patience, func() bool { return r.Status().Connections == 1 })
}

// What comes while a client is away is there when it comes back, once, behind what it had.
func away(t *testing.T, r *rig, c *client) {
	first := r.join("away")
	if _, status := first.result(first.execute("print('seen')")); status != "ok" {
		t.Fatal(status)
	}
	first.ack()
	had := first.seq
	id := first.execute("import time\nfor i in range(200): print(i, flush=True)\ntime.sleep(0.2)\nprint('end')")
	_ = first.conn.Close()
	if _, status := c.result(c.execute("print('another')")); status != "ok" {
		t.Error(status)
	}
	for range 100 {
		_ = r.join("away").conn.Close()
	}
	again := r.join("away")
	if again.from != had {
		t.Errorf("what follows %d comes, and it had %d", again.from, had)
	}
	out, status := again.result(id)
	var want strings.Builder
	for i := range 200 {
		fmt.Fprintln(&want, i)
	}
	if out != want.String()+"end\n" || status != "ok" {
		t.Errorf("%q, %s", out, status)
	}
	_ = again.conn.Close()
}

func connectionIsSecret(t *testing.T, r *rig, _ *client) {
	for path, mode := range map[string]os.FileMode{r.cfg.Dir: 0o700 | os.ModeDir, connectionFile(r.cfg.Dir): 0o600} {
		if st, err := os.Stat(path); err != nil || st.Mode() != mode {
			t.Errorf("%s: %v, %v", path, st.Mode(), err)
		}
	}
}

func interrupt(t *testing.T, r *rig, c *client) {
	id := c.execute("print('begins', flush=True)\nwhile True: pass")
	c.until(func(m wire.Message) bool { return m.ParentID() == id && m.Type() == "stream" })
	if s := r.Status(); s.State != control.KernelBusy {
		t.Errorf("%+v", s)
	}
	if err := r.Interrupt(); err != nil {
		t.Fatal(err)
	}
	if _, status := c.result(id); status != "errorKeyboardInterrupt" {
		t.Errorf("it ended with %s", status)
	}
	testenv.Until(t, "the kernel is idle", patience, func() bool { return r.Status().State == control.KernelIdle })
}

func restart(t *testing.T, r *rig, c *client) {
	before, pid := r.Status().Restarts, r.process()
	c.execute("a = 1\nwhile True: pass")
	testenv.Until(t, "the kernel computes", patience, func() bool { return r.Status().State == control.KernelBusy })
	if err := r.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.until(func(m wire.Message) bool {
		if content(m).State == "restarting" {
			t.Error("it looks as if the kernel had died")
		}
		return content(m).State == "idle" && m.ParentID() == "" // nobody's request: all see that it rests
	})
	if s := r.Status(); s.Restarts != before+1 || r.process() == pid {
		t.Errorf("%+v", s)
	}
	if _, status := c.result(c.execute("a")); status != "errorNameError" {
		t.Errorf("the new kernel knows what the old one did: %s", status)
	}
}

func killed(t *testing.T, r *rig, c *client) {
	before := r.Status().Restarts
	id := c.execute("print('last words', flush=True)\nwhile True: pass")
	c.until(func(m wire.Message) bool { return m.ParentID() == id && m.Type() == "stream" })
	if err := syscall.Kill(r.process(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	c.until(func(m wire.Message) bool { return content(m).State == "restarting" })
	began := time.Now()
	if out, status := c.result(c.execute("print('back')")); out != "back\n" || status != "ok" {
		t.Errorf("%q, %s", out, status)
	}
	if s := r.Status(); s.Restarts != before+1 {
		t.Errorf("%+v", s)
	}
	t.Logf("back after %s", time.Since(began))
}
