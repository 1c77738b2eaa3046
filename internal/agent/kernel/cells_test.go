package kernel

import (
	"slices"
	"syscall"
	"testing"

	"slipway/internal/agent/control"
	"slipway/internal/testenv"
	"slipway/kernels/wire"
)

// kill ends the process as a cell can.
func (r *rig) kill() {
	r.t.Helper()
	r.mu.Lock()
	pid := r.life.process.PID
	r.mu.Unlock()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		r.t.Fatal(err)
	}
}

// back waits until the process answers that was started so many times again. A test ends with one: its fakes end with
// it.
func (r *rig) back(restarts int) {
	r.t.Helper()
	testenv.Until(r.t, "the kernel answers", patience, func() bool { return r.Status().State == control.KernelIdle && r.Status().Restarts == restarts })
}

// asked waits until the agent knows of so many cells of a client's that are not answered.
func (r *rig) asked(name string, n int) {
	r.t.Helper()
	testenv.Until(r.t, "the cells are known", patience, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.seats[name].asked) == n
	})
}

// What ends its process at once keeps that from saying that it runs: it is told of under the cell all the same, and the
// cells are answered, for clients such as nbclient wait for nothing else.
func TestDeathAnswersCells(t *testing.T) {
	r, f := withFake(t)
	one, two := r.join("one"), r.join("two")
	one.cell()
	last := two.cell()
	r.asked("one", 0)
	f.deaf.Lock()
	defer f.deaf.Unlock()
	silent := one.send(wire.Shell, "execute_request", map[string]any{"code": "", "silent": true})
	names := map[string]string{silent: "silent", one.execute("1"): "first", one.execute("2"): "second"}
	r.asked("one", 3)
	r.mu.Lock()
	seat := r.seats["one"]
	r.mu.Unlock()
	for i, a := range r.askedOf(seat) {
		if id := a.ID(); i > 2 || names[id] == "" || a.Channel != wire.Shell {
			t.Errorf("a Welcome tells of %s", a.Header)
		}
	}
	r.kill()
	var got []string
	one.until(func(m wire.Message) bool {
		if name := names[m.ParentID()]; name != "" {
			said := content(m)
			got = append(got, name+" "+m.Type()+" "+said.Status+said.Ename+said.State)
		}
		return content(m).State == "restarting"
	})
	if want := []string{
		"first stream ", "silent execute_reply errorDeadKernel", "silent status idle",
		"first error DeadKernel", "first execute_reply errorDeadKernel", "first status idle",
		"second error DeadKernel", "second execute_reply errorDeadKernel", "second status idle",
	}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if _, under := two.notice(); under != last {
		t.Errorf("the other client is told under %s", under)
	}
	r.asked("one", 0)
	one.cell() // of the next process
}

// A cell that runs is where its death is told of, whatever waits behind it, also where it is its client's first.
func TestDeathIsToldUnderWhatRuns(t *testing.T) {
	r, f := withFake(t)
	c := r.join("one")
	f.deaf.Lock()
	defer f.deaf.Unlock()
	c.execute("1")
	second := c.message(wire.Shell, "execute_request", map[string]any{"code": "2"})
	c.say(second)
	r.asked("one", 2)
	f.say(f.key, "execute_input", second.Header, map[string]any{"code": "2", "execution_count": 1})
	c.until(func(m wire.Message) bool { return m.Type() == "execute_input" })
	testenv.Until(t, "it runs", patience, func() bool { return r.cellOf(r.now()["one"]) != nil })
	r.kill()
	if _, under := c.notice(); under != second.ID() {
		t.Errorf("it is told under %s", under)
	}
	r.back(1)
}

// Whoever asks for an end of the process knows that its cells end too.
func TestRestartForgetsCells(t *testing.T) {
	r, f := withFake(t)
	c := r.join("one")
	f.deaf.Lock()
	c.execute("1")
	r.asked("one", 1)
	if err := r.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.deaf.Unlock()
	r.asked("one", 0)
	r.back(1)
	r.kill()
	c.until(func(m wire.Message) bool {
		if m.Type() == "execute_reply" || m.Type() == "error" {
			t.Errorf("%s", m.Content)
		}
		return content(m).State == "restarting"
	})
	r.back(2)
}

func TestIPythonThatKillsItself(t *testing.T) {
	r := newRig(t)
	r.answers()
	c := r.join("one")
	c.result(c.execute("1"))
	id := c.execute("import os; os.kill(os.getpid(), 9)")
	if printed, status := c.result(id); printed != "Slipway: the kernel ended by itself, and begins anew: its variables are gone.\n" || status != "errorDeadKernel" {
		t.Errorf("%q, %s", printed, status)
	}
}
