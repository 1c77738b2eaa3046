package kernel

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"slipway/internal/agent/control"
	"slipway/internal/testenv"
	"slipway/kernels/wire"
)

// notice reads until something is told, and gives it, and of which cell it is.
func (c *client) notice() (text, cell string) {
	c.t.Helper()
	m := c.until(func(m wire.Message) bool { return m.Type() == "stream" && content(m).Name == "stderr" })
	return content(m).Text, m.ParentID()
}

// cell has one run.
func (c *client) cell() string {
	c.t.Helper()
	id := c.execute("1")
	for left := 2; left > 0; { // the answer, and that the kernel is idle
		if m := c.receive(); m.ParentID() == id && (m.Type() == "execute_reply" || m.Type() == "status") {
			left--
		}
	}
	return id
}

func TestNoticeStandsUnderTheLastCell(t *testing.T) {
	r, _ := withFake(t)
	one, two := r.join("one"), r.join("two")
	one.cell()
	last := one.cell()
	acted := r.Acted()
	r.Tell("soon", false)
	if text, cell := one.notice(); text != "Slipway: soon\n" || cell != last {
		t.Errorf("%q under %s", text, cell)
	}
	if text, cell := two.notice(); text != "Slipway: soon\n" || cell != "" {
		t.Errorf("to who has run nothing: %q under %s", text, cell)
	}
	if !r.Acted().Equal(acted) {
		t.Error("a warning is taken for somebody's work")
	}
	if again := r.join("one"); !strings.Contains(string(r.cellOf(r.now()["one"])), last) {
		t.Errorf("the stream begins without the cell: %+v", again)
	}
}

// What lasts is told once to who can be shown it: at once under a cell, also of a client that is away, or under its
// first.
func TestNoticeThatLasts(t *testing.T) {
	r, _ := withFake(t)
	r.Tell("anew", true)
	c := r.join("one")
	cell := c.execute("1")
	if text, under := c.notice(); text != "Slipway: anew\n" || under != cell {
		t.Errorf("%q under %s", text, under)
	}
	c.ack()
	s := r.now()["one"]
	testenv.Until(t, "it is known that it was told", patience, func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.journal.acked == c.seq })
	_ = c.conn.Close()
	testenv.Until(t, "it has left", patience, func() bool { return r.Status().Connections == 0 })
	r.Tell("died", true)
	c = r.join("one")
	if text, under := c.notice(); text != "Slipway: died\n" || under != cell {
		t.Errorf("%q under %s", text, under)
	}
	id := c.execute("1")
	for idle := false; !idle; {
		m := c.receive()
		if idle = m.ParentID() == id && m.Type() == "status"; m.Type() == "stream" {
			t.Errorf("told again: %s", m.Content)
		}
	}
	if r.Tell("end", true); len(r.untold) != 0 {
		t.Errorf("it was told, and is kept: %+v", r.untold)
	}
}

// A process that dies is told of where its variables were used; one whose end was asked for is not.
func TestDeathIsToldOfInTheNotebook(t *testing.T) {
	r, _ := withFake(t, func(p *Process, _ *Config) {
		p.How = func() (string, string) { return "ran out of luck", "Try another" }
		p.Count = func(d *control.Deaths) { d.Signal++ }
	})
	c := r.join("one")
	cell := c.cell()
	if err := r.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	answers := func(restarts int) {
		testenv.Until(t, "the kernel answers", patience, func() bool { return r.Status().State == control.KernelIdle && r.Status().Restarts == restarts })
	}
	answers(1)
	r.mu.Lock()
	pid := r.life.process.PID
	r.mu.Unlock()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	text, under := c.notice()
	if want := "Slipway: the kernel ran out of luck, and begins anew: its variables are gone. Try another\n"; text != want || under != cell {
		t.Errorf("%q under %s", text, under)
	}
	answers(2)
	if d := r.Deaths(); d != (control.Deaths{Signal: 1}) {
		t.Errorf("%+v", d)
	}
}

// Of what cannot be kept the journal drops outputs, never what is told.
func TestNoticeOutlivesOutputs(t *testing.T) {
	r, f := withFake(t)
	c := r.join("one")
	s := r.now()["one"]
	s.mu.Lock()
	s.journal.limit = 4 << 10
	s.mu.Unlock()
	_ = c.conn.Close()
	testenv.Until(t, "it has left", patience, func() bool { return r.Status().Connections == 0 })
	r.Tell("soon", false)
	for range 100 {
		f.say(f.key, "stream", json.RawMessage(`{"msg_id":"cell"}`), map[string]string{"name": "stdout", "text": strings.Repeat("x", 100)})
	}
	f.prints(f.key, "last")
	testenv.Until(t, "all has come", patience, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.journal.last > 101
	})
	c = r.join("one")
	var told []string
	for end := false; !end; {
		m := c.receive()
		said := content(m)
		end = said.Text == "last"
		if said.Name == "stderr" {
			told = append(told, said.Text)
		}
		if strings.Contains(said.Text, "not kept") && m.ParentID() != "cell" {
			t.Errorf("what was not kept is told under %q", m.ParentID())
		}
	}
	if !slices.Contains(told, "Slipway: soon\n") || len(told) != 2 || !strings.Contains(strings.Join(told, ""), "were not kept") {
		t.Errorf("%q", told)
	}
	if n := r.Dropped(); n == 0 || !strings.Contains(strings.Join(told, ""), fmt.Sprintf("%d messages", n)) {
		t.Errorf("%d were not kept: %q", n, told)
	}
}
