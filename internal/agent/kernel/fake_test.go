package kernel

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/internal/testenv"
	"slipway/kernels/wire"
	"slipway/kernels/zmtp"
)

// fake is a kernel that answers kernel_info and says on iopub what it is told to. It lives in this process, on sockets
// of its own.
type fake struct {
	key *wire.Key

	mu    sync.Mutex
	iopub []*zmtp.Socket
	heard []string // ids of all requests on the shell

	deaf sync.Mutex // held while it does not listen to its shell
	stop func()
}

// has returns the ids of the requests that have come.
func (f *fake) has() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.heard)
}

// newFake starts one for a connection file. It ends with the test.
func newFake(t *testing.T, file string) *fake {
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var c struct{ Key string }
	if err := json.Unmarshal(b, &c); err != nil {
		t.Fatal(err)
	}
	f := &fake{key: wire.NewKey([]byte(c.Key))}
	ctx, cancel := context.WithCancel(context.Background())
	f.stop = cancel
	var work sync.WaitGroup
	t.Cleanup(func() { cancel(); work.Wait() })
	for p, kind := range map[int]string{shellPort: "ROUTER", controlPort: "ROUTER", stdinPort: "ROUTER", iopubPort: "PUB"} {
		l, err := net.Listen("unix", connection(filepath.Dir(file)).Path(p))
		if err != nil {
			t.Fatal(err)
		}
		l.(*net.UnixListener).SetUnlinkOnClose(false) // the next one's may be there by then
		context.AfterFunc(ctx, func() { _ = l.Close() })
		work.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				work.Go(func() { f.serve(ctx, c, kind, p == shellPort) })
			}
		})
	}
	return f
}

func (f *fake) serve(ctx context.Context, c net.Conn, kind string, shell bool) {
	s, err := zmtp.Open(ctx, c, kind, nil)
	if err != nil {
		return
	}
	defer s.Close()
	var writing sync.WaitGroup
	defer writing.Wait()
	defer s.Close()
	writing.Go(s.Write)
	for {
		frames, err := s.Receive()
		if err != nil {
			return
		}
		if kind == "PUB" {
			f.mu.Lock()
			f.iopub = append(f.iopub, s)
			f.mu.Unlock()
			continue
		}
		m, err := f.key.Parse(wire.Shell, frames)
		if err != nil {
			continue
		}
		if shell && m.Session() != wire.Session {
			f.hears(m.ID())
		}
		f.answer(s, m)
	}
}

// hears notes a request, once it listens.
func (f *fake) hears(id string) {
	f.deaf.Lock()
	defer f.deaf.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.heard = append(f.heard, id)
}

// answer does what is asked of a kernel that knows no language: a cell is run when it has come.
func (f *fake) answer(s *zmtp.Socket, m wire.Message) {
	replies := map[string]string{"kernel_info_request": "kernel_info_reply", "execute_request": "execute_reply"}
	kind, known := replies[m.Type()]
	if !known {
		return
	}
	if kind == "execute_reply" {
		f.say(f.key, "execute_input", m.Header, map[string]any{"code": "", "execution_count": 1})
	}
	reply, _ := wire.New(wire.Shell, kind, m.Header, struct{}{})
	_ = s.Send(f.key.Frames(reply))
	f.say(f.key, "status", m.Header, map[string]string{"execution_state": "idle"})
}

// say publishes a message, signed with a key.
func (f *fake) say(key *wire.Key, kind string, parent json.RawMessage, content any) [][]byte {
	m, _ := wire.New(wire.IOPub, kind, parent, content)
	frames := append([][]byte{[]byte("topic")}, key.Frames(m)...)
	f.send(frames)
	return frames
}

func (f *fake) send(frames [][]byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.iopub {
		_ = s.Send(frames)
	}
}

func (f *fake) prints(key *wire.Key, text string) [][]byte {
	return f.say(key, "stream", nil, map[string]string{"name": "stdout", "text": text})
}

// withFake is a kernel that answers.
func withFake(t *testing.T, change ...func(*Process, *Config)) (*rig, *fake) {
	r, f := startFake(t, change...)
	r.answers()
	return r, f()
}

// answers waits until the kernel has answered.
func (r *rig) answers() {
	select {
	case <-r.ready:
	case <-time.After(patience):
		r.t.Fatal("the kernel has not answered")
	}
}

// startFake starts a kernel that will answer. It gives the fake of its last process.
func startFake(t *testing.T, change ...func(*Process, *Config)) (*rig, func() *fake) {
	dir, err := os.MkdirTemp("/tmp", "kernel")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	r := &rig{t: t, ready: make(chan struct{}), done: make(chan error, 1)}
	var mu sync.Mutex
	var last *fake
	cfg := Config{Dir: dir, Logger: slog.New(slog.DiscardHandler), Ready: func() { close(r.ready) }, Start: func(file string) (Process, error) {
		f := newFake(t, file)
		mu.Lock()
		last = f
		mu.Unlock()
		p, err := begin(dir, "sleep", "3600")
		if err == nil {
			go func() { <-p.Over; f.stop() }()
		}
		for _, f := range change {
			f(&p, &Config{})
		}
		return p, err
	}}
	for _, f := range change {
		f(&Process{}, &cfg)
	}
	r.start(cfg)
	return r, func() *fake { mu.Lock(); defer mu.Unlock(); return last }
}

func TestForgedMessagesGoNowhere(t *testing.T) {
	r, f := withFake(t)
	c := r.join("one")
	f.prints(wire.NewKey([]byte("another")), "forged")
	f.send([][]byte{[]byte("no message")})
	f.send(f.prints(f.key, "first")) // and once more
	f.prints(f.key, "second")
	for _, want := range []string{"first", "second"} {
		if got := content(c.receive()).Text; got != want {
			t.Errorf("%q comes instead of %q", got, want)
		}
	}
}

// What a client sends that is no message, or on a channel of the kernel's own, ends nothing.
func TestNonsenseOfClientsIsLeftOut(t *testing.T) {
	r, f := withFake(t)
	c := r.join("one")
	c.send(wire.IOPub, "stream", struct{}{})
	c.send("heartbeat", "ping", struct{}{})
	for _, b := range [][]byte{[]byte("nonsense"), wire.EncodeV1(wire.Message{Channel: wire.Shell, Header: []byte(`[]`)})} {
		if err := wire.WriteMessage(c.conn, b); err != nil {
			t.Fatal(err)
		}
	}
	id := c.send(wire.Shell, "kernel_info_request", struct{}{})
	if m := c.until(func(m wire.Message) bool { return m.Channel == wire.Shell }); m.ParentID() != id {
		t.Errorf("%+v", m)
	}
	f.prints(f.key, "after")
	c.until(func(m wire.Message) bool { return content(m).Text == "after" })
}

func TestNewStreamEndsTheOlder(t *testing.T) {
	r, f := withFake(t)
	older := r.join("one")
	f.prints(f.key, "1")
	older.receive()
	newer := r.join("one")
	if _, err := wire.ReadDown(older.in); err == nil {
		t.Error("the older stream goes on")
	}
	f.prints(f.key, "2")
	for _, want := range []string{"1", "2"} { // the first was not acknowledged
		if got := content(newer.receive()).Text; got != want {
			t.Errorf("%q comes instead of %q", got, want)
		}
	}
	if s := r.Status(); s.Connections != 1 {
		t.Errorf("%+v", s)
	}
}

// A Jupyter Server may connect twice at once, and the first of the two streams may come here last.
func TestOvertakenStreamEndsNobody(t *testing.T) {
	r, _ := withFake(t)
	now := time.Now().UnixMilli()
	later, err := r.sit(wire.Hello{Client: "one", Came: now}, func() { t.Error("the later one was ended") })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.sit(wire.Hello{Client: "one", Came: now - 30}, func() {}); !errs.Is(err, errs.Conflict) || r.now()["one"].at != later {
		t.Errorf("the earlier one: %v", err)
	}
	ended := false
	later.end = func() { ended = true }
	if _, err := r.sit(wire.Hello{Client: "one", Came: now - overtaking.Milliseconds()}, func() {}); err != nil || !ended {
		t.Errorf("after a clock was set back: %v", err)
	}
}

func TestSeatsAreBounded(t *testing.T) {
	r, _ := withFake(t)
	for i := range mostSeats {
		r.join(string(rune('a' + i)))
	}
	if _, err := r.sit(wire.Hello{Client: "too many"}, func() {}); err == nil {
		t.Error("one more")
	}
	a := r.now()["a"]
	r.leave(a.at)
	if v, err := r.sit(wire.Hello{Client: "in its place"}, func() {}); err != nil || r.now()["a"] != nil {
		t.Errorf("%v", err)
	} else {
		r.leave(v)
	}
	r.mu.Lock()
	r.sweep(time.Now().Add(awayTime + time.Hour))
	r.mu.Unlock()
	if seats := r.now(); seats["in its place"] != nil || len(seats) != mostSeats-1 {
		t.Errorf("%d seats are kept", len(seats))
	}
	if s := r.Status(); s.Connections != mostSeats-1 {
		t.Errorf("%+v", s)
	}
}

func TestUnnamedClientsLeaveNothing(t *testing.T) {
	r, _ := withFake(t)
	for range 3 {
		c := r.join("")
		c.send(wire.Shell, "kernel_info_request", struct{}{})
		c.until(func(m wire.Message) bool { return m.Channel == wire.Shell })
		_ = c.conn.Close()
	}
	testenv.Until(t, "they have left", patience, func() bool { return len(r.now()) == 0 && r.Status().Connections == 0 })
}

func TestStateFollowsAllRequests(t *testing.T) {
	r, f := withFake(t)
	c := r.join("one")
	status := func(id, state string) {
		f.say(f.key, "status", json.RawMessage(`{"msg_id":"`+id+`","session":"x"}`), map[string]string{"execution_state": state})
		c.until(func(m wire.Message) bool { return content(m).State == state })
	}
	for _, step := range []struct {
		id, say string
		want    control.KernelState
	}{{"1", "busy", "busy"}, {"2", "busy", "busy"}, {"2", "idle", "busy"}, {"1", "idle", "idle"}, {"3", "idle", "idle"}} {
		if status(step.id, step.say); r.Status().State != step.want {
			t.Errorf("after %+v: %+v", step, r.Status())
		}
	}
}

func TestDeadAfterManyDeaths(t *testing.T) {
	r, _ := withFake(t)
	c := r.join("one")
	for i := range mostDeaths + 1 {
		testenv.Until(t, "the kernel answers", patience, func() bool { return r.Status().State == control.KernelIdle && r.Status().Restarts == i })
		r.mu.Lock()
		pid := r.life.process.PID
		r.mu.Unlock()
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if i < mostDeaths {
			c.until(func(m wire.Message) bool { return content(m).State == "restarting" })
		}
	}
	if err := <-r.done; err == nil || r.Status().State != control.KernelDead {
		t.Errorf("%v, %+v", err, r.Status())
	}
	if err := r.Restart(t.Context()); !errs.Is(err, errs.Conflict) {
		t.Errorf("a dead kernel is restarted: %v", err)
	}
}

func TestKernelThatNeverAnswers(t *testing.T) {
	r := newRigOf(t, []string{"false"})
	if err := <-r.done; err == nil || r.Status().Restarts != 0 || r.Status().State != control.KernelDead {
		t.Errorf("%v, %+v", err, r.Status())
	}
}

func TestNoRestartAfterStop(t *testing.T) {
	r, _ := withFake(t)
	r.Stop()
	r.mu.Lock()
	l := r.life
	r.mu.Unlock()
	if err := l.signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-r.done; !errors.Is(err, errStopped) || r.Status().Restarts != 0 {
		t.Errorf("%v, %+v", err, r.Status())
	}
}

func TestRefusedStream(t *testing.T) {
	here, there := sockets(t)
	go Refuse(there, "no kernel here")
	if err := wire.WriteHello(here, wire.Hello{Client: "one"}); err != nil {
		t.Fatal(err)
	}
	if w, err := wire.ReadWelcome(bufio.NewReader(here)); err != nil || w.Error != "no kernel here" {
		t.Errorf("%+v, %v", w, err)
	}
}

// That the kernel is idle is said on a channel that may drop it; the answer to the request says so too.
func TestAnswerEndsItsRequest(t *testing.T) {
	r, f := withFake(t)
	c := r.join("one")
	f.say(f.key, "status", json.RawMessage(`{"msg_id":"1"}`), map[string]string{"execution_state": "busy"})
	c.receive()
	if s := r.Status(); s.State != control.KernelBusy {
		t.Errorf("it computes: %+v", s)
	}
	for _, id := range []string{"2", "1"} {
		r.Kernel.done(id)
	}
	if s := r.Status(); s.State != control.KernelIdle {
		t.Errorf("it has answered: %+v", s)
	}
}
