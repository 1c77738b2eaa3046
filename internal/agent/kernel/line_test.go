package kernel

import (
	"slices"
	"syscall"
	"testing"

	"slipway/internal/agent/control"
	"slipway/internal/testenv"
	"slipway/kernels/wire"
)

var taking = wire.Hello{Client: "one", Takes: true}

// again is who comes again, and may say once more what it has said.
var again = wire.Hello{Client: "one", Takes: true, Once: true}

func cellOf(c *client) wire.Message { return c.message(wire.Shell, "execute_request", struct{}{}) }

func TestTakenIsTold(t *testing.T) {
	r, f := withFake(t)
	c := r.come(taking)
	c.say(cellOf(c))
	if err := wire.WriteMessage(c.conn, []byte("nonsense")); err != nil {
		t.Fatal(err)
	}
	c.ack()
	c.say(cellOf(c))
	c.taken(3)
	testenv.Until(t, "both have come", patience, func() bool { return len(f.has()) == 2 })
	if c = r.come(again); c.took != 0 {
		t.Errorf("another stream begins with %d", c.took)
	}
	c.say(cellOf(c))
	c.taken(1)
}

// What came while there was no process is not lost with the stream, and is run once: the service that brings it again
// is told that it was taken.
func TestWhatWaitsForTheKernelIsTakenOnce(t *testing.T) {
	up := make(chan struct{})
	r, f := startFake(t, func(_ *Process, c *Config) {
		start := c.Start
		c.Start = func(file string) (Process, error) { <-up; return start(file) }
	})
	c := r.come(taking)
	first, second := cellOf(c), cellOf(c)
	c.say(first)
	testenv.Until(t, "it waits", patience, func() bool { return len(r.waiting("one")) == 1 })
	c = r.come(again)
	c.say(first)
	c.say(second)
	testenv.Until(t, "both wait", patience, func() bool { return len(r.waiting("one")) == 2 })
	close(up)
	r.answers()
	c.taken(2)
	c = r.come(again)
	c.say(first)
	c.say(second)
	c.taken(2)
	last := cellOf(c)
	c.say(last)
	testenv.Until(t, "all have come", patience, func() bool { return len(f().has()) >= 3 })
	if want := []string{first.ID(), second.ID(), last.ID()}; !slices.Equal(f().has(), want) {
		t.Errorf("%q have come, not %q", f().has(), want)
	}
}

// waiting returns what a client has said on the shell and the kernel has not taken.
func (r *rig) waiting(name string) []request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.seats[name].line(wire.Shell).waits)
}

// Of what a client says to a kernel that does not come up, or computes, nothing is lost, however much it is, and what
// is no cell does not wait behind it.
func TestFullShell(t *testing.T) {
	up := make(chan struct{})
	var f func() *fake
	r, f := startFake(t, func(_ *Process, c *Config) {
		start := c.Start
		c.Start = func(file string) (Process, error) {
			<-up
			p, err := start(file)
			f().deaf.Lock()
			return p, err
		}
	})
	c := r.come(taking)
	const many = lineCount + 3500 // more than lies on the way to the kernel, and no more than lies there and in line
	list := make([]wire.Message, many)
	for i := range list {
		list[i] = c.message(wire.Shell, "comm_msg", struct{}{})
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for _, m := range list {
			c.say(m)
		}
	}()
	testenv.Until(t, "the line is full", patience, func() bool { return len(r.waiting("one")) == lineCount })
	close(up)
	r.answers()
	<-sent
	f().prints(f().key, "to be acknowledged")
	c.receive()
	c.ack()
	id := c.send(wire.Control, "kernel_info_request", struct{}{})
	if m := c.until(func(m wire.Message) bool { return m.Channel != wire.IOPub }); m.ParentID() != id {
		t.Errorf("%+v", m)
	}
	s := r.now()["one"]
	if s.mu.Lock(); s.journal.acked != 1 {
		t.Errorf("an acknowledgement waits: %d", s.journal.acked)
	}
	s.mu.Unlock()
	if n := len(r.waiting("one")); n == 0 {
		t.Error("all was taken by a kernel that listens to nothing")
	}
	f().deaf.Unlock()
	c.taken(many + 1)
	testenv.Until(t, "all has come", patience, func() bool { return len(f().has()) == many })
	for i, id := range f().has() {
		if list[i].ID() != id {
			t.Fatalf("message %d is another", i)
		}
	}
}

// What waits when a process dies may need what is gone with it, and its client hears that the kernel begins anew.
func TestNextProcessGetsNothingOfBefore(t *testing.T) {
	for name, end := range map[string]func(*rig) error{
		"died": func(r *rig) error {
			r.mu.Lock()
			l := r.life
			r.mu.Unlock()
			return l.signal(syscall.SIGKILL)
		},
		"restarted": func(r *rig) error { return r.Restart(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			r, last := startFake(t)
			r.answers()
			c, f := r.come(taking), last()
			f.deaf.Lock()
			defer f.deaf.Unlock()
			const many = 5500
			for range many {
				c.send(wire.Shell, "comm_msg", struct{}{})
			}
			behind := c.send(wire.Control, "kernel_info_request", struct{}{})
			c.until(func(m wire.Message) bool { return m.ParentID() == behind })
			if len(r.waiting("one")) == 0 {
				t.Error("nothing waits")
			}
			if err := end(r); err != nil {
				t.Fatal(err)
			}
			testenv.Until(t, "the next answers", patience, func() bool { return r.Status().State == control.KernelIdle && r.Status().Restarts == 1 })
			c.taken(many + 1)
			id := c.execute("1")
			testenv.Until(t, "it hears", patience, func() bool { return len(last().has()) > 0 })
			if got := last().has(); !slices.Equal(got, []string{id}) {
				t.Errorf("it has heard %d", len(got))
			}
		})
	}
}
