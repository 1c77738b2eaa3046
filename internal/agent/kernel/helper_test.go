package kernel

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"slipway/internal/testenv"
	"slipway/kernels/wire"
)

const patience = time.Minute

// rig is a kernel that runs.
type rig struct {
	*Kernel
	t     testing.TB
	ready chan struct{}
	done  chan error

	pidMu sync.Mutex
	pid   int
}

// newRig runs ipykernel, as it is installed for the tests of Python.
func newRig(t testing.TB, change ...func(*Config)) *rig {
	testenv.Need(t, testenv.IPyKernel)
	python := filepath.Join(testenv.Cache(), "dev", "bin", "python")
	return newRigOf(t, []string{python, "-m", "ipykernel_launcher", "-f"}, change...)
}

func newRigOf(t testing.TB, argv []string, change ...func(*Config)) *rig {
	dir, err := os.MkdirTemp("/tmp", "kernel")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	r := &rig{t: t, ready: make(chan struct{}), done: make(chan error, 1)}
	cfg := Config{Dir: filepath.Join(dir, "k"), Logger: slog.New(slog.DiscardHandler), Ready: func() { close(r.ready) }, Start: func(file string) (Process, error) {
		p, err := begin(dir, append(slices.Clone(argv), file)...)
		r.pidMu.Lock()
		defer r.pidMu.Unlock()
		r.pid = p.PID
		return p, err
	}}
	for _, f := range change {
		f(&cfg)
	}
	r.start(cfg)
	return r
}

// start runs the kernel for as long as the test.
func (r *rig) start(cfg Config) {
	k, err := New(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	r.Kernel = k
	ctx, cancel := context.WithCancel(context.Background())
	go func() { r.done <- r.Run(ctx); close(r.done) }()
	r.t.Cleanup(func() { cancel(); <-r.done })
}

// process returns the one that runs.
func (r *rig) process() int {
	r.pidMu.Lock()
	defer r.pidMu.Unlock()
	return r.pid
}

// now returns the seats.
func (r *rig) now() map[string]*seat {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.seats)
}

// client is one client of a kernel, as the service carries it.
type client struct {
	t    testing.TB
	conn net.Conn
	in   *bufio.Reader
	seq  uint64 // of the last message
	from uint64 // that the agent began behind
	took uint64 // messages of this stream, as far as was told
}

// join opens a stream for a client.
func (r *rig) join(name string) *client {
	r.t.Helper()
	return r.come(wire.Hello{Client: name})
}

// come opens a stream for a client that says so much of itself.
func (r *rig) come(h wire.Hello) *client {
	r.t.Helper()
	here, there := sockets(r.t)
	ctx, cancel := context.WithCancel(context.Background())
	var served sync.WaitGroup
	served.Go(func() { r.Serve(ctx, there) })
	r.t.Cleanup(func() { cancel(); _ = here.Close(); served.Wait() })
	c := &client{t: r.t, conn: here, in: bufio.NewReaderSize(here, 1<<20)}
	_ = here.SetDeadline(time.Now().Add(2 * patience))
	if err := wire.WriteHello(here, h); err != nil {
		r.t.Fatal(err)
	}
	w, err := wire.ReadWelcome(c.in)
	if err != nil || w.Error != "" || w.Takes != h.Takes {
		r.t.Fatalf("%+v, %v", w, err)
	}
	c.seq, c.from = w.Acked, w.Acked
	return c
}

// sockets returns both ends of a connection.
func sockets(t testing.TB) (net.Conn, net.Conn) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	here, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	there, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return here, there
}

// send sends a request and gives its id.
func (c *client) send(ch wire.Channel, kind string, content any, buffers ...[]byte) string {
	c.t.Helper()
	m := c.message(ch, kind, content)
	m.Buffers = buffers
	c.say(m)
	return m.ID()
}

// message makes a request.
func (c *client) message(ch wire.Channel, kind string, content any) wire.Message {
	c.t.Helper()
	m, err := wire.New(ch, kind, nil, content)
	if err != nil {
		c.t.Fatal(err)
	}
	m.Header = bytes.Replace(m.Header, []byte(`"session":"slipway"`), []byte(`"session":"client"`), 1)
	return m
}

func (c *client) say(m wire.Message) {
	c.t.Helper()
	if err := wire.WriteMessage(c.conn, wire.EncodeV1(m)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) execute(code string) string {
	c.t.Helper()
	return c.send(wire.Shell, "execute_request", map[string]any{"code": code, "silent": false, "store_history": true, "allow_stdin": true, "user_expressions": map[string]any{}, "stop_on_error": true})
}

func (c *client) ack() {
	c.t.Helper()
	if err := wire.WriteAck(c.conn, c.seq); err != nil {
		c.t.Fatal(err)
	}
}

// down reads what comes next: a message, or how many were taken.
func (c *client) down() wire.Down {
	c.t.Helper()
	d, err := wire.ReadDown(c.in)
	switch {
	case err != nil:
		c.t.Fatalf("after message %d: %v", c.seq, err)
	case d.Message == nil && d.Taken <= c.took:
		c.t.Fatalf("%d were taken after %d", d.Taken, c.took)
	case d.Message == nil:
		c.took = d.Taken
	}
	return d
}

// taken reads until so many messages were taken.
func (c *client) taken(n uint64) {
	c.t.Helper()
	for c.took < n {
		c.down()
	}
	if c.took != n {
		c.t.Errorf("%d were taken, not %d", c.took, n)
	}
}

// receive returns the next message. Their numbers go up.
func (c *client) receive() wire.Message {
	c.t.Helper()
	d := c.down()
	for d.Message == nil {
		d = c.down()
	}
	if d.Seq <= c.seq {
		c.t.Fatalf("message %d comes after %d", d.Seq, c.seq)
	}
	c.seq = d.Seq
	m, err := wire.DecodeV1(d.Message)
	if err != nil {
		c.t.Fatal(err)
	}
	return m
}

// until returns the next message that is as wanted.
func (c *client) until(ok func(wire.Message) bool) wire.Message {
	c.t.Helper()
	for {
		if m := c.receive(); ok(m) {
			return m
		}
	}
}

// content reads what a message says.
func content(m wire.Message) (c struct {
	Name, Text, Prompt, Status, Ename string
	State                             string `json:"execution_state"`
	Data                              map[string]any
}) {
	_ = json.Unmarshal(m.Content, &c)
	return c
}

// result reads what a cell has printed until the kernel is done with it, and how it ended.
func (c *client) result(id string) (printed, status string) {
	c.t.Helper()
	var text bytes.Buffer
	for idle := false; !idle || status == ""; {
		m := c.receive()
		if m.ParentID() != id {
			continue
		}
		switch said := content(m); {
		case m.Type() == "stream":
			text.WriteString(said.Text)
		case m.Type() == "execute_reply":
			status = said.Status + said.Ename
		case said.State == "idle":
			idle = true
		}
	}
	return text.String(), status
}

// begin starts a process with a home of its own.
func begin(home string, argv ...string) (Process, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "IPYTHONDIR="+home, "JUPYTER_CONFIG_DIR="+home, "HOME="+home)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return Process{}, err
	}
	over := make(chan struct{})
	go func() { _ = cmd.Wait(); close(over) }()
	return Process{PID: cmd.Process.Pid, Over: over}, nil
}
