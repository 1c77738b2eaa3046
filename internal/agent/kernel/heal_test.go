package kernel

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/testenv"
	"slipway/kernels/wire"
)

// A comm's message has no answer: where its idle status was dropped the kernel is asked. A cell is left alone, also
// where the kernel answers.
func TestBusyForEverIsHealed(t *testing.T) {
	r, f := withFake(t, func(_ *Process, c *Config) { c.Heal = 20 * time.Millisecond })
	c := r.join("one")
	busy := func(id, kind string) {
		f.say(f.key, "status", json.RawMessage(`{"msg_id":"`+id+`","msg_type":"`+kind+`","session":"x"}`), map[string]string{"execution_state": "busy"})
		c.until(func(m wire.Message) bool { return m.ParentID() == id })
	}
	works := func(id string) bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		_, is := r.busy[id]
		return is
	}
	busy("cell", "execute_request")
	for range 3 {
		busy("comm", "comm_msg")
		testenv.Until(t, "it is done", patience, func() bool { return !works("comm") })
	}
	if s := r.Status(); !works("cell") || s.State != control.KernelBusy {
		t.Errorf("the cell that runs is taken for done: %+v", s)
	}
}

// A process that is stopped is told of, and left alone.
func TestHungProcess(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Beat = 100 * time.Millisecond })
	c := r.join("one")
	if out, _ := c.result(c.execute("print(1)")); out != "1\n" {
		t.Fatal(out)
	}
	busy := c.execute("import time\nt = time.time()\nwhile time.time() < t + 1: pass") // it computes, and its heart beats
	if _, status := c.result(busy); status != "ok" || r.Status().Hung {
		t.Errorf("%s, %+v", status, r.Status())
	}
	if err := syscall.Kill(r.process(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	testenv.Until(t, "it is known to hang", patience, func() bool { return r.Status().Hung })
	if text, under := c.notice(); !strings.Contains(text, "does not answer") || under != busy {
		t.Errorf("%q under %s", text, under)
	}
	if err := syscall.Kill(r.process(), syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	testenv.Until(t, "it goes on", patience, func() bool { return !r.Status().Hung })
	if text, _ := c.notice(); !strings.Contains(text, "answers again") {
		t.Errorf("%q", text)
	}
	if out, status := c.result(c.execute("print('here')")); out != "here\n" || status != "ok" || r.Status().Restarts != 0 {
		t.Errorf("%q, %s, %+v", out, status, r.Status())
	}
}
