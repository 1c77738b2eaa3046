package kernelproxy

import (
	"bytes"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"slipway/hubapi"
	"slipway/internal/testenv"
	"slipway/kernels/wire"
)

func TestConversation(t *testing.T) {
	g := newGateway(t)
	s := startBridge(t, g, "", nil)
	one, other := s.join("one"), s.join("other")
	id := one.cell("hello")
	for _, c := range []*client{one, other} {
		c.find("what the cell prints", func(m wire.Message) bool { // a slow start is told of before
			return m.Type() == "stream" && m.ParentID() == id && words(m) == "hello"
		})
	}
	one.until("execute_reply", id)
	next := other.ask(wire.Control, "debug_request", map[string]string{})
	if m := other.until("debug_reply", next); m.Channel != wire.Control {
		t.Errorf("it comes on %s", m.Channel)
	}
	other.find("end of the second request", func(m wire.Message) bool {
		if m.Type() == "execute_reply" {
			t.Error("the other gets the first one's answer")
		}
		return m.Type() == "status" && m.ParentID() == next && strings.Contains(string(m.Content), "idle")
	})
	env, _ := g.asked["env"].(map[string]any)
	if env["KERNEL_WORKING_DIR"] != "/home/alice/analysis" || g.asked["name"] != "gpu" || g.asked["tied"] != true {
		t.Errorf("it asks for %v", g.asked)
	}
}

func TestQuestionsGoToWhoAskedFirst(t *testing.T) {
	g := newGateway(t)
	s := startBridge(t, g, "", nil)
	one, other := s.join("one"), s.join("other")
	id := one.cell("ask")
	if m := one.until("input_request", id); m.Channel != wire.Stdin {
		t.Errorf("on %s", m.Channel)
	}
	answer := one.ask(wire.Stdin, "input_reply", map[string]string{"value": "alice"})
	testenv.Until(t, "the answer comes", long, func() bool {
		return g.times(answer) == 1
	})
	other.find("end", func(m wire.Message) bool {
		if m.Channel == wire.Stdin {
			t.Error("the other is asked")
		}
		return strings.Contains(string(m.Content), "idle")
	})
}

func TestBuffersAndSizePassThrough(t *testing.T) {
	g := newGateway(t)
	c := startBridge(t, g, "", nil).join("one")
	up := make(chan wire.Message, 1)
	g.set(func() { g.hears = func(m wire.Message) { up <- m } })
	c.ask(wire.Shell, "comm_msg", map[string]string{}, []byte{0, 255}, nil)
	if m := <-up; len(m.Buffers) != 2 || !bytes.Equal(m.Buffers[0], []byte{0, 255}) {
		t.Errorf("%v", m.Buffers)
	}
	large := strings.Repeat("x", 20<<20)
	g.say(wire.IOPub, "stream", nil, map[string]string{"name": "stdout", "text": large}, []byte{1, 0})
	if m := c.until("stream", ""); words(m) != large || len(m.Buffers) != 1 {
		t.Errorf("%d bytes, %d buffers", len(m.Content), len(m.Buffers))
	}
	for i := range 2_000 {
		g.say(wire.IOPub, "stream", nil, map[string]string{"name": "stdout", "text": fmt.Sprint(i)})
		if got := words(c.until("stream", "")); got != fmt.Sprint(i) {
			t.Fatalf("%s instead of %d", got, i)
		}
	}
}

// A cell that waits for a slice says so; a Jupyter Server gets the answer without which it relays nothing to browsers.
func TestWaitingIsShown(t *testing.T) {
	g := newGateway(t)
	g.exists, g.state = true, hubapi.Kernel{State: "starting", Progress: "2 before you"}
	c := startBridge(t, g, "", nil).join("one")
	c.until("kernel_info_reply", c.ask(wire.Control, "kernel_info_request", struct{}{}))
	c.find("a status that JupyterLab shows", func(m wire.Message) bool {
		return m.Type() == "status" && m.ParentID() == "" && strings.Contains(string(m.Content), "idle")
	})
	id := c.cell("run")
	c.find("progress", func(m wire.Message) bool { return m.ParentID() == id && words(m) == "Slipway: 2 before you\n" })
	g.set(func() { g.state.State = "idle" })
	c.until("clear_output", id)
	c.find("what the cell prints", func(m wire.Message) bool { return m.ParentID() == id && words(m) == "run" })
	c.until("execute_reply", id)
}

func TestInterruptTakesBackWhatWaits(t *testing.T) {
	g := newGateway(t)
	g.exists, g.state.State = true, "starting"
	c := startBridge(t, g, "", nil).join("one")
	id := c.cell("run")
	c.until("status", id) // the bridge has it
	c.until("interrupt_reply", c.ask(wire.Control, "interrupt_request", struct{}{}))
	c.find("error", func(m wire.Message) bool {
		return m.ParentID() == id && strings.Contains(string(m.Content), "KeyboardInterrupt")
	})
	g.set(func() { g.state.State = "idle" })
	c.until("execute_reply", c.cell("next"))
	if n := g.times(id); n != 0 {
		t.Error("the cell is run all the same")
	}
	if m := c.until("interrupt_reply", c.ask(wire.Control, "interrupt_request", struct{}{})); g.called("POST interrupt") != 1 {
		t.Errorf("the kernel is not interrupted: %s", m.Content)
	}
}

// What keeps the kernel from starting is said in each cell; the process does not end, for Jupyter would start it again
// and again.
func TestRefusalIsSaid(t *testing.T) {
	g := newGateway(t)
	g.refuse = "you have 2 kernels, and may have 2 at once: shut one down first"
	s := startBridge(t, g, "", nil)
	c := s.join("one")
	for range 2 {
		id := c.cell("run")
		if got := words(c.until("error", id)); !strings.Contains(got, g.refuse) || !strings.Contains(got, "Restart the kernel") {
			t.Errorf("%q", got)
		}
		c.until("execute_reply", id)
	}
	c.until("kernel_info_reply", c.ask(wire.Shell, "kernel_info_request", struct{}{}))
	g.set(func() { g.refuse = "" })
	c.ask(wire.Control, "shutdown_request", map[string]bool{"restart": true})
	s.over()
	again := startBridge(t, g, s.file, nil).join("one")
	again.until("execute_reply", again.cell("run"))
}

func TestRestartKeepsTheKernel(t *testing.T) {
	g := newGateway(t)
	s := startBridge(t, g, "", nil)
	c := s.join("one")
	c.until("execute_reply", c.cell("run"))
	first := g.asked["env"].(map[string]any)["KERNEL_ID"]
	c.until("shutdown_reply", c.ask(wire.Control, "shutdown_request", map[string]bool{"restart": true}))
	s.over()
	s = startBridge(t, g, s.file, nil)
	c = s.join("one")
	c.until("execute_reply", c.cell("run"))
	if g.called("POST restart") != 1 || g.called("POST") != 1 || g.called("DELETE") != 0 {
		t.Errorf("%q", g.calls)
	}
	if g.called("channels fresh=1&once=1&session_id=bridge") != 2 {
		t.Errorf("what was kept for the process before: %q", g.calls)
	}
	c.until("shutdown_reply", c.ask(wire.Control, "shutdown_request", map[string]bool{"restart": false}))
	s.over()
	if g.called("DELETE") != 1 {
		t.Errorf("%q", g.calls)
	}
	id, err := kernelID(s.file, s.c)
	if err != nil || id != first {
		t.Errorf("%v, and then %v", first, id)
	}
}

// A process that was killed, or whose server was, has asked for nothing: the next one goes on.
func TestNextProcessGoesOn(t *testing.T) {
	g := newGateway(t)
	g.exists = true
	var parent atomic.Int64
	s := startBridge(t, g, "", func(c *Config) { c.Parent = func() int { return int(parent.Load()) } })
	c := s.join("one")
	c.until("execute_reply", c.cell("run"))
	if g.called("POST restart") != 0 || g.called("POST") != 0 {
		t.Errorf("%q", g.calls)
	}
	parent.Store(1)
	s.over()
	if g.called("DELETE") != 1 {
		t.Errorf("it was left alone: %q", g.calls)
	}
}

// Over a loss of the connection nothing is lost and nothing comes twice, either way.
func TestConnectionIsLost(t *testing.T) {
	g := newGateway(t)
	c := startBridge(t, g, "", nil).join("one")
	c.until("execute_reply", c.cell("before"))
	heard := make(chan wire.Message, 10)
	g.set(func() { g.hears = func(m wire.Message) { heard <- m } })
	known, unknown := c.cell("known"), c.cell("unknown")
	<-heard
	<-heard
	seen := g.say(wire.IOPub, "status", []byte(`{"msg_id":"`+known+`"}`), map[string]string{"execution_state": "busy"})
	c.find("sign of it", func(m wire.Message) bool { return m.ID() == seen.ID() })
	g.hangUp(websocket.StatusServiceRestart, "come again")
	if m := <-heard; m.ID() != unknown {
		t.Errorf("%s comes again", m.Content)
	}
	g.send(seen)
	end := g.say(wire.IOPub, "stream", nil, map[string]string{"name": "stdout", "text": "new"})
	c.find("new message", func(m wire.Message) bool {
		if m.ID() == seen.ID() {
			t.Error("a message comes twice")
		}
		return m.ID() == end.ID()
	})
	if g.times(known) != 1 || g.called("channels once=1&session_id=bridge") != 1 {
		t.Errorf("%v %q", g.heard, g.calls)
	}
}

func TestKernelEnds(t *testing.T) {
	g := newGateway(t)
	c := startBridge(t, g, "", nil).join("one")
	c.until("execute_reply", c.cell("before"))
	heard := make(chan wire.Message, 1)
	g.set(func() { g.hears = func(m wire.Message) { heard <- m } })
	id := c.cell("busy")
	<-heard
	g.set(func() { g.state = hubapi.Kernel{State: "dead", Reason: "its slice was lost"} })
	g.say(wire.IOPub, "status", nil, map[string]string{"execution_state": "dead"})
	g.hangUp(websocket.StatusNormalClosure, "the kernel has ended")
	for _, id := range []string{id, c.cell("next")} {
		m := c.find("error", func(m wire.Message) bool {
			if strings.Contains(string(m.Content), `"dead"`) {
				t.Error("Jupyter is told that the process is dead")
			}
			return m.Type() == "error" && m.ParentID() == id
		})
		if !strings.Contains(words(m), "its slice was lost") {
			t.Errorf("%q", words(m))
		}
	}
}

// Who waits for a cell of a kernel that died is told; else it would wait for ever.
func TestKernelBeginsAnew(t *testing.T) {
	g := newGateway(t)
	c := startBridge(t, g, "", nil).join("one")
	c.until("execute_reply", c.cell("before"))
	heard := make(chan wire.Message, 1)
	g.set(func() { g.hears = func(m wire.Message) { heard <- m } })
	id := c.cell("busy")
	<-heard
	g.say(wire.IOPub, "status", nil, map[string]string{"execution_state": "restarting"})
	if got := words(c.until("error", id)); !strings.Contains(got, "began anew") {
		t.Errorf("%q", got)
	}
	c.until("execute_reply", id)
	g.set(func() { g.hears = g.answers })
	c.until("execute_reply", c.cell("next"))
}

// After a restart of the process another kernel takes the place of one that has ended, which takes a moment.
func TestEndedKernelIsReplaced(t *testing.T) {
	g := newGateway(t)
	g.exists, g.ending, g.state = true, 1, hubapi.Kernel{State: "dead", Reason: "its slice was lost"}
	c := startBridge(t, g, "", nil).join("one")
	c.until("execute_reply", c.cell("run"))
	if g.called("DELETE") != 1 || g.called("POST") != 2 {
		t.Errorf("%q", g.calls)
	}
}

func TestHeartbeat(t *testing.T) {
	s := startBridge(t, newGateway(t), "", nil)
	beat := s.connect(s.c.Heartbeat, "REQ", "")
	if err := beat.Send([][]byte{{}, []byte("ping")}); err != nil {
		t.Fatal(err)
	}
	if got, err := beat.Receive(); err != nil || len(got) != 2 || string(got[1]) != "ping" {
		t.Errorf("%q %v", got, err)
	}
}

func TestForgedMessageGoesNowhere(t *testing.T) {
	g := newGateway(t)
	s := startBridge(t, g, "", nil)
	c := s.join("one")
	m, _ := wire.New(wire.Shell, "execute_request", nil, map[string]string{"code": "forged"})
	if err := c.sockets[wire.Shell].Send(wire.NewKey([]byte("another")).Frames(m)); err != nil {
		t.Fatal(err)
	}
	c.until("execute_reply", c.cell("good"))
	if g.times(m.ID()) != 0 {
		t.Error("it is carried on")
	}
}

func TestConnectionFilesThatAreRefused(t *testing.T) {
	for name, c := range map[string]wire.Connection{
		"transport": {Transport: "udp", Scheme: "hmac-sha256", Key: "k"},
		"signature": {Transport: "tcp", Scheme: "hmac-md5", Key: "k"},
		"key":       {Transport: "tcp", Scheme: "hmac-sha256"},
	} {
		if err := check(c); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What no service takes is refused at once, and what this one does not take is not sent for ever.
func TestGiantsAreRefused(t *testing.T) {
	g := newGateway(t)
	c := startBridge(t, g, "", nil).join("one")
	for name, buffers := range map[string][][]byte{"64 can be sent": {make([]byte, wire.RequestLimit)}, "4090 can be sent": make([][]byte, 4091)} {
		id := c.ask(wire.Shell, "execute_request", map[string]string{"code": "giant"}, buffers...)
		if got := words(c.until("error", id)); !strings.Contains(got, name) {
			t.Errorf("%q instead of %q", got, name)
		}
		c.until("execute_reply", id)
		if g.times(id) != 0 {
			t.Error("it is sent all the same")
		}
	}
	g.set(func() {
		g.hears = func(m wire.Message) {
			if m.Size() > 1<<20 {
				g.hangUp(websocket.StatusMessageTooBig, "too large")
				return
			}
			g.answers(m)
		}
	})
	id := c.ask(wire.Shell, "execute_request", map[string]string{"code": "large"}, make([]byte, 2<<20))
	if got := words(c.until("error", id)); !strings.Contains(got, "does not take") {
		t.Errorf("%q", got)
	}
	c.until("execute_reply", c.cell("next"))
	if n := g.times(id); n != 1 {
		t.Errorf("it was sent %d times", n)
	}
}

// stuck is a client that takes nothing of what is printed.
func (s *started) stuck() {
	if err := s.connect(s.c.IOPub, "SUB", "").Send([][]byte{{1}}); err != nil {
		s.Fatal(err)
	}
}

const flood = 5_000 // messages: more than wait for one client

func (g *gateway) flood() {
	for range flood {
		g.say(wire.IOPub, "stream", nil, map[string]string{"name": "stdout", "text": strings.Repeat("x", 400)})
	}
}

func TestClientThatTakesNothingIsGivenUp(t *testing.T) {
	g := newGateway(t)
	s := startBridge(t, g, "", func(c *Config) { c.Patience = time.Millisecond })
	s.stuck()
	c := s.join("other")
	c.until("execute_reply", c.cell("before"))
	go g.flood()
	for range flood {
		c.until("stream", "")
	}
}

// While one takes nothing, others can say something, interrupt the kernel, and end it.
func TestClientThatTakesNothingHoldsUpNobody(t *testing.T) {
	g := newGateway(t)
	s := startBridge(t, g, "", func(c *Config) { c.Patience = time.Hour })
	s.stuck()
	c := s.join("other")
	c.until("execute_reply", c.cell("before"))
	g.flood()
	for range flood / 2 { // the other does not take them
		c.until("stream", "")
	}
	c.ask(wire.Shell, "execute_request", map[string]string{"code": "giant"}, make([][]byte, 4091)...) // which is refused, when it is its turn
	id := c.cell("held up")
	testenv.Until(t, "the cell reaches the kernel", long, func() bool { return g.times(id) == 1 })
	c.ask(wire.Control, "interrupt_request", struct{}{})
	testenv.Until(t, "the kernel is interrupted", long, func() bool { return g.called("POST interrupt") == 1 })
	c.until("shutdown_reply", c.ask(wire.Control, "shutdown_request", map[string]bool{"restart": false}))
	s.over()
}
